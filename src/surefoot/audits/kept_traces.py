"""Traces that a panel pass kept, with what follows from them by geometry alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from surefoot.audits.case import Case
from surefoot.runs import Result
from surefoot.terrain import Atlas, TileId, wrap

MOST = 64
"""Traces that are read, at most, by the audit's seed: a third of a second."""


@dataclass(frozen=True)
class Trace:
    """One held-out episode, step by step after each step."""

    about: dict[str, np.ndarray]
    gravity_z: np.ndarray  # [T] of the body frame; -1 upright
    above: np.ndarray  # [T] trunk above the ground below it
    feet_above: np.ndarray  # [T, F] foot centres above the ground below them

    @property
    def steps(self) -> int:
        return len(self.gravity_z)

    @property
    def reason(self) -> str:
        return str(self.about["reason"])

    @property
    def column(self) -> str:
        return str(self.about["column"])


def traces(case: Case) -> list[Trace]:
    """Returns some kept traces, read once for all who ask."""
    return case.once("kept traces", lambda: list(_traces(case, case.result)))


def _traces(case: Case, result: Result) -> Iterator[Trace]:
    t = result.table
    rows = (
        np.flatnonzero([bool(stem) for stem in t["trace"].astype(str)]) if "trace" in t else np.zeros(0, int)
    )
    if len(rows) > MOST:
        rows = np.sort(case.numbers("traces").choice(rows, MOST, replace=False))
    for row in rows:
        stem = str(t["trace"][row])
        yield trace_of(case.trace(result.folder / "traces" / f"{stem}.npz"))


def trace_of(about: dict[str, np.ndarray]) -> Trace:
    """Works out heights and tilt from positions and quaternions."""
    _, x, y, _ = about["quaternion"].astype(np.float64).T
    origin = about["tile_origin"].astype(np.float64)
    tile = (str(about["terrain_class"]), int(about["terrain_level"]), int(about["terrain_key"]))
    trunk, feet = (about[k].astype(np.float64) for k in ("position", "foot_position"))
    return Trace(
        about,
        gravity_z=2 * (x * x + y * y) - 1,
        above=trunk[:, 2] - _ground(tile, trunk[:, :2] - origin),
        feet_above=feet[..., 2] - _ground(tile, feet[..., :2] - origin),
    )


def _ground(tile: tuple[str, int, int], xy: np.ndarray) -> np.ndarray:
    """Returns heights at places relative to the middle of a tile, its own neighbour on every side."""
    if tile[0] == "flat":
        return np.zeros(xy.shape[:-1])
    atlas = _atlas(tile)
    middle = atlas.origins[0].astype(np.float64)
    return np.asarray(atlas.height(wrap(xy + middle, middle)))


@lru_cache(maxsize=128)
def _atlas(tile: tuple[str, int, int]) -> Atlas:
    return Atlas.build((TileId(*tile),))
