"""Do held-out robots move as the evaluation plant, their scenarios and their column say? Pieces of kept episodes
are played again in plain MuJoCo, under the actions that were recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.panel_traces import Traced, traced
from surefoot.audits.second_evaluator import (
    State,
    World,
    in_force,
    phase_at,
    rotation,
    start_of,
    targets_of,
)

FIRST, PIECE, PIECES = 25, 8, 3
"""Control steps from the start, and in each of so many pieces elsewhere."""
SIZES = {
    "position": 1.0,
    "joint_position": 1.0,
    "linear_velocity": 1.0,
    "angular_velocity": 1.0,
    "joint_velocity": 1.0,
}


@dataclass(frozen=True)
class Apart:
    """How far a piece of an episode ended from where plain MuJoCo does."""

    first: int
    """Control steps before it."""
    what: str
    by: dict[str, float]


def pieces(t: Traced, numbers: np.random.Generator, hz: float) -> Iterator[tuple[int, int, str]]:
    """Yields pieces as (first step, one past the last, what it is): the start, pushes, the end, and some."""
    n = t.steps
    yield 0, min(FIRST, n), "start"
    for p in t.scenario.pushes:
        at = round(p.time_s * hz)
        if FIRST <= at < n:
            yield max(1, at - 1), min(at + PIECE, n), "push"
    if n > FIRST + PIECE:
        yield n - PIECE, n, "end"
        for _ in range(PIECES):
            at = int(numbers.integers(FIRST, n - PIECE + 1))
            yield at, at + PIECE, "piece"


def state_after(t: Traced, step: int) -> State:
    """Returns where a robot was after `step` control steps, as its trace says."""
    f = {k: t.frames[k][step - 1].astype(np.float64) for k in ("position", "quaternion", "linear_velocity")}
    origin = np.append(t.frames["tile_origin"].astype(np.float64), 0.0)
    return State(
        position=f["position"] - origin,
        quaternion=f["quaternion"],
        velocity=rotation(f["quaternion"]) @ f["linear_velocity"],
        turning=t.frames["angular_velocity"][step - 1].astype(np.float64),
        joints=t.frames["joint_position"][step - 1].astype(np.float64),
        speeds=t.frames["joint_velocity"][step - 1].astype(np.float64),
    )
