"""Convex solids as the half-spaces that bound them: what a world without a heightfield is built of.

Where a level top has to end inside level ground (the ground is not convex there and two solids share it),
it must not end in an edge: a foot sinks in by a millimetre or two, and would touch that edge from the side,
with a normal that leans by 20 degrees. So such a top runs on below its neighbour's, dipping by `DIP`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
Plane = tuple[float, float, float, float]
"""(a, b, c, d): the half-space a x + b y + c z <= d."""

DIP = 0.05
"""Slope of a top where it runs on below another: 2.9 degrees is the most that a normal leans there."""


@dataclass(frozen=True, eq=False)
class Solid:
    """A convex solid: the points that all of its half-spaces contain."""

    planes: Points  # [K, 4] rows as Plane

    @classmethod
    def of(cls, planes: Iterable[Plane]) -> Solid:
        return cls(np.array(list(planes), np.float64))

    @cached_property
    def vertices(self) -> Points:
        """Returns its corners [V, 3], in a fixed order."""
        trios = np.array(list(combinations(range(len(self.planes)), 3)))
        normals, limits = self.planes[trios, :3], self.planes[trios, 3]
        proper = np.abs(np.linalg.det(normals)) > 1e-9
        meet = np.linalg.solve(normals[proper], limits[proper][..., None])[..., 0]
        inside = (meet @ self.planes[:, :3].T <= self.planes[:, 3] + 1e-9).all(1)
        corners: Points = np.unique(np.round(meet[inside], 9), axis=0)
        return corners

    @cached_property
    def box(self) -> tuple[Points, Points] | None:
        """Returns (centre, half sizes) of a solid that is a box along the axes, else None."""
        if len(self.planes) != 6 or (np.count_nonzero(self.planes[:, :3], axis=1) != 1).any():
            return None
        high, low = self.planes[::2, 3], -self.planes[1::2, 3]  # in the order of `upright`
        return (low + high) / 2, (high - low) / 2

    def top(self, xy: NDArray[Any]) -> Points:
        """Returns the height of its upper side at positions [..., 2]; minus infinity beside it."""
        a, b, c, d = self.planes.T
        slack = d - np.asarray(xy, np.float64) @ np.stack([a, b])
        upper = np.where(c > 0, slack / np.where(c > 0, c, 1.0), np.inf).min(-1)
        beside = (slack[..., c == 0] < 0).any(-1)
        height: Points = np.where(beside, -np.inf, upper)
        return height


def upright(low: Sequence[float], high: Sequence[float]) -> list[Plane]:
    """Returns the six planes of a box along the axes."""
    planes: list[Plane] = []
    for axis in range(3):
        unit = [float(k == axis) for k in range(3)]
        planes.append((*unit, high[axis]))  # type: ignore[arg-type]
        planes.append((*(-u for u in unit), -low[axis]))  # type: ignore[arg-type]
    return planes


def below(gradient: Sequence[float], at: Sequence[float], height: float) -> Plane:
    """Returns the plane below which z <= height + gradient . (xy - at)."""
    gx, gy = gradient
    return -gx, -gy, 1.0, height - gx * at[0] - gy * at[1]
