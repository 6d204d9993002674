"""How long a push keeps a robot from what it was told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

WINDOW_S = 0.5
"""Velocities are averaged over this long: about a gait period, which the figures of a step swing through."""


def recovery(each: Sequence[float]) -> tuple[float, bool]:
    """Returns (seconds, whether) of the slowest of `recoveries`: (NaN, False) where one was not recovered
    from, (NaN, True) where there was none."""
    if not each:
        return float("nan"), True
    return float(np.max(each)), not np.isnan(each).any()  # NaN if one is


def recoveries(trace: Mapping[str, Any], dt: float) -> list[float]:
    """Returns the seconds from each push until the mean velocity over the next 0.5 s is within the success
    limits again.

    A push has until the next one, or the end; NaN where it was not recovered from.
    """
    pushes = [int(p) for p in np.asarray(trace["push_step"]) if p < len(trace["position"])]
    if not pushes:
        return []
    done = np.concatenate(
        [np.asarray(trace["linear_velocity"])[:, :2], np.asarray(trace["angular_velocity"])[:, 2:]], 1
    )
    error = np.asarray(done - np.asarray(trace["command"]), np.float64)
    width = max(1, round(WINDOW_S / dt))
    out = []
    for first, last in zip(pushes, [*pushes[1:], len(error)], strict=True):
        part = error[first:last]
        total = np.concatenate([np.zeros((1, 3)), np.cumsum(part, 0)])
        mean = (total[width:] - total[:-width]) / width  # empty where the episode was shorter than 0.5 s
        good = np.linalg.norm(mean[:, :2], axis=1) < float(trace["velocity_limit"])
        good &= np.abs(mean[:, 2]) < float(trace["yaw_limit"])
        at = np.flatnonzero(good)
        out.append(float(at[0]) * dt if len(at) else float("nan"))
    return out
