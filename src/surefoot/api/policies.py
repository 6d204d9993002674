"""A trained policy for whoever deploys it: its card, and actions for observations, in numpy alone."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError
from rich.console import Console

from surefoot.api.shown import Shown
from surefoot.contract import PolicyCard, SurefootError
from surefoot.printing import plain_table
from surefoot.runs import load_arrays

BUNDLE = "policy.safetensors"


class Policy(Shown):
    """A policy without exploration noise. Called with observations [N, O] or [O], as `card.observation` lays
    them out and scales them, it returns actions [N, A] or [A], as `card` says how to apply them."""

    def __init__(self, card: PolicyCard, arrays: dict[str, np.ndarray]) -> None:
        self.card = card
        """How to wire it to a robot: observation layout, joints, gains, action scale, control rate."""
        self._mean, self._std = arrays["mean"], arrays["std"]
        self._layers = [(arrays[f"{k}.weight"], arrays[f"{k}.bias"]) for k in range(len(card.hidden) + 1)]

    @classmethod
    def load(cls, source: str | os.PathLike[str]) -> Policy:
        """Loads the policy of a run (a `Run` or its folder) or a policy.safetensors; its digests are
        verified."""
        path = Path(source)
        if path.is_dir():
            path = path / BUNDLE
            if not path.is_file():
                raise SurefootError(
                    f"{path.parent} has no {BUNDLE}: it is written when a run has been confirmed; let it "
                    "finish with surefoot.resume, or give another run."
                )
        arrays, meta, _ = load_arrays(path)
        if "policy" not in meta or "mean" not in arrays:
            raise SurefootError(f"'{path}' is not a policy bundle; give a {BUNDLE}.")
        try:
            policy = cls(PolicyCard.model_validate(meta["policy"]), arrays)
        except (ValidationError, KeyError) as error:
            raise SurefootError(f"The policy in '{path}' is not one of this Surefoot version.") from error
        if policy.normaliser_digest != meta.get("normaliser_digest"):
            raise SurefootError(f"The normaliser in '{path}' is not the one that it was saved with.")
        return policy

    @property
    def normaliser_digest(self) -> str:
        """SHA-256 of what observations are shifted and scaled by."""
        parts = (np.ascontiguousarray(a).tobytes() for a in (self._mean, self._std))
        return hashlib.sha256(b"".join(parts)).hexdigest()

    def __call__(self, observations: Any) -> np.ndarray:
        x = np.asarray(observations, np.float32)
        size = len(self._mean)
        if x.ndim not in (1, 2) or x.shape[-1] != size:
            raise SurefootError(
                f"Observations have the shape {x.shape}; this policy takes ({size},) or (N, {size}): "
                + ", ".join(f"{t.name} {t.size}" for t in self.card.observation)
                + "."
            )
        x = (x - self._mean) / self._std
        if self.card.observation_clip is not None:
            x = np.clip(x, -self.card.observation_clip, self.card.observation_clip)
        for weight, bias in self._layers[:-1]:
            x = x @ weight.T + bias
            x = np.where(x > 0, x, np.expm1(np.minimum(x, 0)))  # ELU
        weight, bias = self._layers[-1]
        return np.asarray(x @ weight.T + bias, np.float32)

    def show(self, console: Console) -> None:
        c = self.card
        table = plain_table(f"Policy of {c.task}" + (f" for {c.robot}" if c.robot else ""), "", "")
        seen = ", ".join(f"{t.name} {t.size}" for t in c.observation)
        table.add_row("observation", f"{len(self._mean)} numbers: {seen}")
        scale = "" if c.action_scale_rad is None else f" x {c.action_scale_rad:g} rad around the default pose"
        table.add_row("action", f"{len(self._layers[-1][1])} numbers, clipped to {c.action_clip:g}{scale}")
        if c.joints:
            table.add_row("joints", ", ".join(c.joints))
        table.add_row("control rate", f"{c.control_hz:g} Hz")
        table.add_row("network", " x ".join(map(str, c.hidden)) + " elu")
        table.add_row("contract", c.contract_digest[:16])
        console.print(table, highlight=False)
