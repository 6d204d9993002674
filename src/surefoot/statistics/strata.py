"""Panel episodes sorted by the bins of their factors, for figures by stratum."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from surefoot.contract import Contract, TaskContract


def panel_strata(rows: Mapping[str, np.ndarray], contract: Contract) -> dict[str, np.ndarray]:
    """Masks over the rows by label ('friction 0.4..0.67'), one factor after the other; empty bins left out.

    Friction and payload in the contract's bins, the command by its direction, and terrain by class where
    there is more than one. Every row is in one stratum of each factor.
    """
    if not isinstance(contract, TaskContract):  # nothing is known of what an outside simulator drew
        return {"seed any": np.ones(len(rows["family"]), bool)}
    out: dict[str, np.ndarray] = {}
    for name, column in (("friction", "friction"), ("payload", "payload_kg")):
        factor = contract.factor(name)
        cell = factor.bin_of(rows[column])
        out |= {f"{name} {factor.label(k)}": cell == k for k in range(factor.bins)}
    command = np.stack([rows[f"command_{k}"] for k in ("vx", "vy", "wz")], 1)
    moving = np.abs(command) > contract.command.dead_zone
    out |= {
        "command stand": ~moving.any(1),
        "command forward": moving[:, 0] & (command[:, 0] > 0),
        "command backward": moving[:, 0] & (command[:, 0] < 0),
        "command sideways/turning": ~moving[:, 0] & moving.any(1),
    }
    classes = np.unique(rows["terrain"].astype(str))
    if len(classes) > 1:
        out |= {f"terrain {c}": rows["terrain"].astype(str) == c for c in classes}
    return {label: mask for label, mask in out.items() if mask.any()}


def stratum_names(rows: Mapping[str, np.ndarray], contract: TaskContract) -> np.ndarray:
    """The bins that each row is in, e.g. 'friction 0.4..0.667 | payload -1..-0.333 | command forward'."""
    parts: list[list[str]] = [[] for _ in rows["friction"]]
    for label, mask in panel_strata(rows, contract).items():
        for i in np.flatnonzero(mask):
            parts[i].append(label)
    return np.array([" | ".join(p) for p in parts])
