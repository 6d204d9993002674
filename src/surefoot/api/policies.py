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
GRU = ("memory.input", "memory.state", "memory.input_bias", "memory.state_bias")
"""Arrays of a policy with a GRU: [3H, O], [3H, H], [3H], [3H]; gates reset, update and new."""


class Policy(Shown):
    """A policy without exploration noise. Called with observations [N, O] or [O], as `card.observation` lays
    them out and scales them, it returns actions [N, A] or [A], as `card` says how to apply them. One with a
    memory (`card.memory`) is asked with `act`, which hands the memory on."""

    def __init__(self, card: PolicyCard, arrays: dict[str, np.ndarray]) -> None:
        self.card = card
        """How to wire it to a robot: observation layout, joints, gains, action scale, control rate."""
        self._mean, self._std = arrays["mean"], arrays["std"]
        self._memory = card.remembers
        self._gru = [arrays[name] for name in GRU] if self._memory.kind == "gru" else []
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
        if self._memory:
            raise SurefootError(
                f"This policy has a memory ({self.card.memory}); begin an episode with state = "
                "policy.start() and ask it with action, state = policy.act(observation, state)."
            )
        return self.act(observations, self.start(np.asarray(observations).shape[:-1]))[0]

    def start(self, robots: int | tuple[int, ...] = ()) -> np.ndarray:
        """Returns the memory that episodes begin with: [M] for one robot, [N, M] for N of them; M is 0 for a
        policy without memory."""
        window = self._memory.kind == "window"
        size = 1 + (self._memory.size - 1) * len(self._mean) if window else self._memory.size
        shape = robots if isinstance(robots, tuple) else (robots,)
        return np.zeros((*shape, size), np.float32)

    def act(self, observations: Any, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns actions, as a call does, and the memory to go on with."""
        x = np.asarray(observations, np.float32)
        size = len(self._mean)
        if x.ndim not in (1, 2) or x.shape[-1] != size:
            raise SurefootError(
                f"Observations have the shape {x.shape}; this policy takes ({size},) or (N, {size}): "
                + ", ".join(f"{t.name} {t.size}" for t in self.card.observation)
                + "."
            )
        remembered = self.start(x.shape[:-1]).shape
        if np.shape(state) != remembered:
            raise SurefootError(
                f"The state has the shape {np.shape(state)} and {remembered} is remembered; "
                "begin with policy.start(N), N robots, and hand on what `act` returns."
            )
        x, state = self._remember(self._normal(x), np.asarray(state, np.float32))
        for weight, bias in self._layers[:-1]:
            x = x @ weight.T + bias
            x = np.where(x > 0, x, np.expm1(np.minimum(x, 0)))  # ELU
        weight, bias = self._layers[-1]
        return np.asarray(x @ weight.T + bias, np.float32), state

    def _normal(self, x: np.ndarray) -> np.ndarray:
        x, clip = (x - self._mean) / self._std, self.card.observation_clip
        return x if clip is None else np.clip(x, -clip, clip)

    def _remember(self, x: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns what the layers read [..., inputs] of normalised observations, and the memory after it."""
        if self._memory.kind == "window":
            most = self._memory.size - 1
            before = np.where(state[..., :1] == 0, np.concatenate([x] * most, -1), state[..., 1:])
            seen = np.concatenate([x, before], -1)
            held = np.minimum(state[..., :1] + 1, most)
            return seen, np.concatenate([held, seen[..., : -x.shape[-1]]], -1)
        if not self._memory:
            return x, state
        given, kept, given_bias, kept_bias = self._gru
        from_obs = np.split(x @ given.T + given_bias, 3, -1)
        from_state = np.split(state @ kept.T + kept_bias, 3, -1)
        reset, update = (1 / (1 + np.exp(-a - b)) for a, b in zip(from_obs[:2], from_state[:2], strict=True))
        after = (1 - update) * np.tanh(from_obs[2] + reset * from_state[2]) + update * state
        return np.concatenate([x, after], -1), after

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
        if c.remembers:
            table.add_row("memory", c.memory)
        table.add_row("contract", c.contract_digest[:16])
        console.print(table, highlight=False)
