"""What a stratum of held-out episodes is, and what it is called: in rows, postmortems, comparisons and on
pages."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from surefoot.contract import Contract, TaskContract

LEVEL = "level"
"""The factor that the `stratum` column of rows leaves out: its names are as they were in version 2."""


def strata_by_factor(rows: Mapping[str, np.ndarray], contract: Contract) -> dict[str, dict[str, np.ndarray]]:
    """Returns factor -> bin -> mask over the rows; empty bins are left out.

    Friction and payload have the contract's bins, the command has its directions; terrain has its classes,
    and its levels, where there is more than one. Every row is in one bin of each factor.
    """
    if not isinstance(contract, TaskContract):  # nothing is known of what an outside simulator drew
        return {"seed": {"any": np.ones(len(rows["family"]), bool)}}
    out: dict[str, dict[str, np.ndarray]] = {}
    for name, column in (("friction", "friction"), ("payload", "payload_kg")):
        factor = contract.factor(name)
        cell = factor.bin_of(rows[column])
        out[name] = {factor.label(k): cell == k for k in range(factor.bins)}
    command = np.stack([rows[f"command_{k}"] for k in ("vx", "vy", "wz")], 1)
    moving = np.abs(command) > contract.command.dead_zone
    out["command"] = {
        "stand": ~moving.any(1),
        "forward": moving[:, 0] & (command[:, 0] > 0),
        "backward": moving[:, 0] & (command[:, 0] < 0),
        "sideways/turning": ~moving[:, 0] & moving.any(1),
    }
    for name, values in (("terrain", rows["terrain"].astype(str)), (LEVEL, rows["level"].astype(np.int64))):
        if len(distinct := np.unique(values)) > 1:
            out[name] = {str(v): values == v for v in distinct}
    return {name: {b: mask for b, mask in bins.items() if mask.any()} for name, bins in out.items()}


def panel_strata(rows: Mapping[str, np.ndarray], contract: Contract) -> dict[str, np.ndarray]:
    """Returns masks over the rows by label ('friction 0.4..0.667'), one factor after the other."""
    return {
        f"{factor} {name}": mask
        for factor, bins in strata_by_factor(rows, contract).items()
        for name, mask in bins.items()
    }


def stratum_names(rows: Mapping[str, np.ndarray], contract: TaskContract) -> np.ndarray:
    """Names the bins that each row is in: 'friction 0.4..0.667 | payload -1..-0.333 | command forward'."""
    parts: list[list[str]] = [[] for _ in rows["friction"]]
    for factor, bins in strata_by_factor(rows, contract).items():
        for name, mask in bins.items() if factor != LEVEL else ():
            for i in np.flatnonzero(mask):
                parts[i].append(f"{factor} {name}")
    return np.array([" | ".join(p) for p in parts])
