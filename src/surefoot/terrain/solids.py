"""The box world: a tile as convex solids on a level plane, for simulators whose own contact is to be heard.

It is another geometry with the same figures. A heightfield's riser is a ramp one sample wide; here it is
vertical and stands half way, so treads, gaps and ledges have the widths that their classes name. Every level
area is the top of one solid where it can be: a pyramid of stairs is nested slabs, a box is a box. A pit, a
ledge that crosses another or an L cannot, and is cut at its inward corners; tops that meet there dip below
each other (`shapes`), so there is no seam to trip on. Slopes are exact planes, also between samples.

`rough` and `wave` have no exact form and are refused. The world repeats 1.2 m beyond the tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.contract import SurefootError
from surefoot.terrain.shapes import DIP, Plane, Points, Solid, below, upright
from surefoot.terrain.tiles import (
    RESOLUTION_M,
    SAMPLES,
    SIZE_M,
    SLOPE_RUN,
    TerrainClass,
    TileId,
    draws,
    slope_sides,
    terrain_class,
    tile,
)

REACH = 12
"""Samples of the continuation around a tile: 1.2 m, more than the heightfield's 1 m."""
BASE_M = 1.0
"""How far solids reach below the lowest ground: whoever sinks in is pushed out at the top."""
BURIED_M = 0.1
"""How far ramps run on below the ground at their feet: an edge there would be a seam."""

Bounds = tuple[int, int, int, int]
"""Cells first and one past the last, along x and along y."""


@dataclass(frozen=True, eq=False)
class BoxWorld:
    """One tile and what surrounds it, centred on the tile."""

    ground_m: float
    """Height of the level plane that everything stands on."""
    solids: tuple[Solid, ...]

    def height(self, xy: NDArray[Any]) -> Points:
        """Returns the height of the ground at positions [..., 2] relative to the tile's centre."""
        tops = [solid.top(xy) for solid in self.solids]
        height: Points = np.maximum.reduce([np.full(np.shape(xy)[:-1], self.ground_m), *tops])
        return height


def has_solids(cls: str, classes: Mapping[str, TerrainClass] | None = None) -> bool:
    """Returns whether a terrain class has an exact form as solids."""
    return cls in _SLOPES or terrain_class(cls, classes).stepped


def box_world(one: TileId, classes: Mapping[str, TerrainClass] | None = None) -> BoxWorld:
    """Returns a tile as solids; the same for the same (class, level, key), everywhere."""
    cls, level, key = one
    heights = tile(cls, level, key, classes)  # also checks level and key
    if cls in _SLOPES:
        (slope,) = (figure.at(level) for figure in terrain_class(cls, classes).figures)
        sides = RESOLUTION_M * slope_sides(draws(cls, key))
        return _SLOPES[cls](sides, slope)
    if not has_solids(cls, classes):
        raise SurefootError(
            f"The terrain class '{cls}' has no exact form as boxes and planes, so it is not part of the box "
            "world; use another class, or the engine 'mujoco', which has it as a heightfield."
        )
    return BoxWorld(float(heights.min()), tuple(_stepped(heights.astype(np.float64))))


# ---- ground that is level around every sample


def _stepped(period: Points) -> Iterator[Solid]:
    """Yields the solids of samples [80, 80], each of which is the middle of a level cell 0.1 m wide."""
    from scipy.ndimage import find_objects, label  # a tenth of a second that few need

    heights = np.pad(period, REACH, mode="wrap")
    # Cells and the links between them, which join those of one height.
    links = np.zeros([2 * n - 1 for n in heights.shape], bool)
    links[::2, ::2] = True
    links[1::2, ::2] = heights[1:] == heights[:-1]
    links[::2, 1::2] = heights[:, 1:] == heights[:, :-1]
    areas = label(links)[0][::2, ::2]
    for number, (rows, columns) in enumerate(find_objects(areas), 1):
        level = areas[rows, columns] == number
        height = heights[rows, columns][level][0]
        if height == heights.min():  # the plane
            continue
        for i0, i1, j0, j1 in _rectangles(heights[rows, columns] >= height, level):
            at = rows.start + i0, rows.start + i1, columns.start + j0, columns.start + j1
            yield _block(heights, at)


def _rectangles(filled: NDArray[Any], level: NDArray[Any]) -> Iterator[Bounds]:
    """Yields rectangles within `filled` that cover a connected `level` area; one, where that is enough.

    Both are masks of what bounds the area. It is cut along the lines through its inward corners: what then
    lies between lines are whole rectangles, and along a side of such a rectangle the ground goes on
    everywhere or nowhere.
    """
    from scipy.ndimage import find_objects, label

    if filled.all():
        yield 0, len(filled), 0, len(filled[0])
        return
    inside = filled.astype(int)
    around = inside[1:, 1:] + inside[:-1, 1:] + inside[1:, :-1] + inside[:-1, :-1]
    diagonal = (around == 2) & (inside[1:, 1:] == inside[:-1, :-1])
    along_x, along_y = np.nonzero((around == 3) | diagonal)
    x_lines, y_lines = (
        [0, *(1 + np.unique(at)), n] for at, n in zip((along_x, along_y), filled.shape, strict=True)
    )
    for x0, x1 in pairwise(x_lines):
        for y0, y1 in pairwise(y_lines):
            parts, _ = label(filled[x0:x1, y0:y1])
            for number, (rows, columns) in enumerate(find_objects(parts), 1):
                whole = parts[rows, columns] == number
                assert whole.all(), "lines through inward corners leave rectangles"
                part = x0 + rows.start, x0 + rows.stop, y0 + columns.start, y0 + columns.stop
                if level[part[0] : part[1], part[2] : part[3]].any():
                    yield part


def _block(heights: Points, bounds: Bounds) -> Solid:
    """Returns the solid below a level rectangle. Where the ground goes on at its height, its top does too,
    for a cell and dipping."""
    i0, i1, j0, j1 = bounds
    top, lowest = float(heights[i0:i1, j0:j1].min()), float(heights.min())
    last = len(heights)

    def lowest_beside(rows: slice, columns: slice) -> float:
        beside = heights[rows, columns]
        return float(beside.min()) if beside.size else -np.inf

    west = lowest_beside(slice(max(i0 - 1, 0), i0), slice(j0, j1))
    east = lowest_beside(slice(i1, min(i1 + 1, last)), slice(j0, j1))
    south = lowest_beside(slice(i0, i1), slice(max(j0 - 1, 0), j0))
    north = lowest_beside(slice(i0, i1), slice(j1, min(j1 + 1, last)))
    goes_on = {side: h == top for side, h in {"w": west, "e": east, "s": south, "n": north}.items()}
    x0, x1, y0, y1 = ((k - REACH - SAMPLES / 2 - 0.5) * RESOLUTION_M for k in bounds)
    cell = RESOLUTION_M
    planes = upright(
        (x0 - cell * goes_on["w"], y0 - cell * goes_on["s"], lowest - BASE_M),
        (x1 + cell * goes_on["e"], y1 + cell * goes_on["n"], top),
    )
    sides = {"w": (-1, 0, x0, y0), "e": (1, 0, x1, y0), "s": (0, -1, x0, y0), "n": (0, 1, x0, y1)}
    planes += [below((-DIP * a, -DIP * b), (x, y), top) for s, (a, b, x, y) in sides.items() if goes_on[s]]
    # Where it goes on along both sides of a corner but not beyond the corner itself, that is cut off.
    for a, x, i in ((-1, x0, i0 - 1), (1, x1, i1)):
        for b, y, j in ((-1, y0, j0 - 1), (1, y1, j1)):
            both = goes_on["e" if a > 0 else "w"] and goes_on["n" if b > 0 else "s"]
            if both and heights[i, j] < top:
                planes.append((float(a), float(b), 0.0, a * x + b * y))
    return Solid.of(planes)


# ---- slopes: sides are [4] metres from the centre to where the ramp begins (x+, x-, y+, y-)


def _hill(sides: Points, slope: float) -> BoxWorld:
    """Returns pyramids with flat tops, one per tile, on a level plane."""
    run = SLOPE_RUN * RESOLUTION_M
    top = slope * run
    solids = []
    for x, y in product((-SIZE_M, 0.0, SIZE_M), repeat=2):
        east, west, north, south = x + sides[0], x - sides[1], y + sides[2], y - sides[3]
        reach = run + BURIED_M
        low, high = (west - reach, south - reach), (east + reach, north + reach)
        ramps = [
            below((-slope, 0), (east, y), top),
            below((slope, 0), (west, y), top),
            below((0, -slope), (x, north), top),
            below((0, slope), (x, south), top),
        ]
        solids += _in_window(low, high, (-BASE_M, top), ramps)
    return BoxWorld(0.0, tuple(solids))


def _pit(sides: Points, slope: float) -> BoxWorld:
    """Returns the ridges between pits: each rises from one pit to the level rim and falls into the next. They
    cross at the tile's corners, where their rims meet in mitres."""
    depth = slope * SLOPE_RUN * RESOLUTION_M
    far = 2 * SIZE_M
    dip = DIP / math.sqrt(2)
    solids = []
    for first, here in product((-SIZE_M, 0.0), (-SIZE_M, 0.0, SIZE_M)):
        for turned in (False, True):  # ridges along y, and along x
            ahead, behind, left, right = sides[[2, 3, 0, 1]] if turned else sides
            # Feet of its ramps, and which way they rise; where mitres begin, and which way is outward.
            feet = ((first + ahead, 1), (first + SIZE_M - behind, -1))
            ends = ((here + left, 1), (here - right, -1))
            planes = [below((rise * slope, 0), (foot, 0), -depth) for foot, rise in feet]
            planes += [
                below((rise * dip, -out * dip), (foot, end), 0.0) for foot, rise in feet for end, out in ends
            ]
            low, high = (feet[0][0] - BURIED_M, -far), (feet[1][0] + BURIED_M, far)
            if turned:
                planes = [(b, a, c, d) for a, b, c, d in planes]
                low, high = low[::-1], high[::-1]
            solids += _in_window(low, high, (-depth - BASE_M, 0.0), planes)
    return BoxWorld(-depth, tuple(solids))


def _in_window(
    low: tuple[float, float], high: tuple[float, float], z: tuple[float, float], more: list[Plane]
) -> list[Solid]:
    """Returns what lies between `low` and `high` and below `more` planes, as far as it is around the tile."""
    half = SIZE_M / 2 + REACH * RESOLUTION_M
    x0, y0, x1, y1 = (min(max(v, -half), half) for v in (*low, *high))
    solid = Solid.of([*upright((x0, y0, z[0]), (x1, y1, z[1])), *more])
    return [solid] if x0 < x1 and y0 < y1 and len(solid.vertices) > 3 else []


_SLOPES: Mapping[str, Callable[[Points, float], BoxWorld]] = MappingProxyType(
    {"slope_up": _pit, "slope_down": _hill}
)
