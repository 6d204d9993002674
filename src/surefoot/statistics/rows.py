"""The rows of a panel pass, one per episode, and how bad each episode was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class PanelResult:
    """One row per episode, and the traces of those worth looking at."""

    rows: dict[str, np.ndarray]
    traces: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    """Frames by file stem; the row that each belongs to names it."""
    seconds: float = 0.0
    """Wall-clock of the pass."""
    steps: int = 0
    """Environment steps simulated."""

    @property
    def success(self) -> float:
        return float(self.rows["success"].mean())


def watched(rows: Mapping[str, np.ndarray]) -> int:
    """Returns the row of the scenario that is watched from evaluation to evaluation: the fastest walk
    straight ahead, the first of several. It is the same in every pass over the same scenarios."""
    aside = np.abs(rows["command_vy"]) + np.abs(rows["command_wz"])
    return int(np.lexsort((-np.asarray(rows["command_vx"]), aside))[0])


def severity(rows: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns how bad each episode was: any fall is worse than any error, and an earlier one worse than a
    later."""
    fall = np.asarray(rows["fall"], bool)
    error = np.nan_to_num(rows["velocity_error_mps"], nan=0.0) + np.nan_to_num(
        rows["yaw_error_radps"], nan=0.0
    )
    return np.where(fall, 1e6 - np.asarray(rows["lived_s"]), error)
