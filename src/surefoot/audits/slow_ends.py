"""How episodes end, once more: in numpy, from what the contract says of falls, time and failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from surefoot.contract import TaskContract

Arrays = dict[str, np.ndarray]
NEAR = 1e-4
"""Quantities this near to a threshold may fall on either side of it by rounding: such rows are left out."""
SURELY = 1.0


def _tilted(r: Arrays, above: np.ndarray, gravity_z: float) -> np.ndarray:
    return np.asarray(r["gravity"][:, 2] - gravity_z, np.float64)


def _sunk(r: Arrays, above: np.ndarray, height_m: float) -> np.ndarray:
    return np.asarray(height_m - above, np.float64)


def _trunk_contact(r: Arrays, above: np.ndarray) -> np.ndarray:
    return np.where(r["trunk_contact"], SURELY, -SURELY)


SLOW_ENDS: dict[str, Callable[..., np.ndarray]] = {
    "tilted": _tilted,
    "trunk_contact": _trunk_contact,
    "sunk": _sunk,
}
"""By how much a robot is past the threshold of a termination; `above` is its trunk's height above ground."""


@dataclass(frozen=True)
class Ends:
    """What should have been said of a step of N environments."""

    terminated: np.ndarray  # [N] bool
    truncated: np.ndarray  # [N] bool
    reason: np.ndarray  # [N] int, 0 while alive
    sure: np.ndarray  # [N] bool: no rounding could decide it
    past: dict[str, np.ndarray]  # [N] by termination, how far past its threshold


def reasons_of(contract: TaskContract) -> tuple[str, ...]:
    """Returns reasons by number: first those of no end and of time, then the contract's, then failure."""
    return ("alive", "timeout", *(t.name for t in contract.terminations), "nonfinite")


def ends_of(
    contract: TaskContract, led: Arrays, above: np.ndarray, age: np.ndarray, steps: int, others: Arrays
) -> Ends:
    """Returns how a step should have ended that led to robots `led`, `age` [N] steps after their episodes
    began, of `steps`. `others` says of terminations that are not ours where they hold.

    A failed state ends an episode whatever else holds; of several terminations the contract's first one is
    the reason; time runs out only for who has not fallen.
    """
    failed = led["failed"].astype(bool)
    past: dict[str, np.ndarray] = {}
    for t in contract.terminations:
        if t.name in others:
            past[t.name] = np.where(others[t.name], SURELY, -SURELY)
        else:
            past[t.name] = SLOW_ENDS[t.name](led, above, **t.params)
    sure = np.ones(len(failed), bool)
    reason = np.zeros(len(failed), np.int64)
    for k, name in reversed(list(enumerate(past))):
        sure &= failed | (np.abs(past[name]) > NEAR)
        reason = np.where(~failed & (past[name] > 0), k + 2, reason)
    reason = np.where(failed, len(past) + 2, reason)
    terminated = reason > 0
    truncated = ~terminated & (age >= steps)
    return Ends(terminated, truncated, np.where(truncated, 1, reason), sure, past)
