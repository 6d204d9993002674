"""The atlas: many periodic tiles on one heightfield, each with a rim of its own continuation.

A block is a tile and 1 m of its periodic continuation on every side: a robot whose base is inside the 8 m
tile stands on, and sees, its own infinite terrain. Blocks are 101 samples (-5.0 .. +5.0 m) and share none;
the 0.1 m cell between two blocks is a meaningless cliff that nothing within 1 m of a tile touches.

The atlas is centred on the world's origin, which keeps float32 positions as fine as they can be: 100 tiles
span 101 m, where float32 resolves 4 micrometres.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from surefoot.contract import SurefootError, digest
from surefoot.terrain.tiles import RESOLUTION_M, SAMPLES, SIZE_M, TerrainClass, TileId, tile

MARGIN_M = 1.0
_MARGIN = round(MARGIN_M / RESOLUTION_M)
_BLOCK = SAMPLES + 2 * _MARGIN + 1
_CENTRE = _MARGIN + SAMPLES // 2
_SPAWN_RADIUS_M = 0.5
_BASE_M = 1.0
"""Solid ground below the lowest point in MuJoCo, whose prisms push a body out the shortest way: through a
thin base that is downwards. 1 m is far more than a foot sinks in."""


class MujocoHField(TypedDict):
    """Holds what `MjSpec.add_hfield` (nrow, ncol, size, userdata) and its geom (pos) need."""

    nrow: int
    ncol: int
    size: tuple[float, float, float, float]
    userdata: NDArray[np.float32]
    pos: tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Atlas:
    """Lays tiles on one heightfield. Arrays are read-only; two atlases are the same when their digests
    are."""

    tiles: tuple[TileId, ...]
    heights: NDArray[np.float32]  # [rows, cols] metres; sample (i, j) at world (x0 + 0.1 i, y0 + 0.1 j)
    origins: NDArray[np.float32]  # [K, 2] world xy of each tile's centre
    spawn_height: NDArray[np.float32]  # [K] highest sample within 0.5 m of the centre
    x0: float
    y0: float
    digest: str
    """The SHA-256 over the tile ids and every height."""

    @classmethod
    def build(cls, tiles: Sequence[TileId], classes: Mapping[str, TerrainClass] | None = None) -> Atlas:
        """Lays the tiles out on a nearly square grid, n to a row, in their order; unused blocks are flat."""
        tiles = tuple(TileId(*one) for one in tiles)
        if not tiles:
            raise SurefootError("An atlas needs at least one tile; give it a list of (class, level, key).")
        n = math.isqrt(len(tiles) - 1) + 1
        rows, cols = -(-len(tiles) // n) * _BLOCK, n * _BLOCK
        heights = np.zeros((rows, cols), np.float32)
        centres = np.empty((len(tiles), 2), np.int64)
        for k, one in enumerate(tiles):
            i, j = (k // n) * _BLOCK, (k % n) * _BLOCK
            period = tile(one.cls, one.level, one.key, classes)
            heights[i : i + _BLOCK, j : j + _BLOCK] = np.pad(period, (_MARGIN, _MARGIN + 1), mode="wrap")
            centres[k] = i + _CENTRE, j + _CENTRE
        x0, y0 = -(rows - 1) * RESOLUTION_M / 2, -(cols - 1) * RESOLUTION_M / 2
        origins = (np.array([x0, y0]) + centres * RESOLUTION_M).astype(np.float32)
        spawn = np.array([_spawn_height(heights, i, j) for i, j in centres], np.float32)
        for array in (heights, origins, spawn):
            array.setflags(write=False)
        identity = {
            # Keys as text: RFC 8785 has no integers beyond 2**53.
            "tiles": [[one.cls, int(one.level), str(int(one.key))] for one in tiles],
            "heights": hashlib.sha256(heights.astype("<f4").tobytes()).hexdigest(),
            "shape": [rows, cols],
        }
        return cls(tiles, heights, origins, spawn, x0, y0, digest(identity))

    @property
    def size_m(self) -> tuple[float, float]:
        """Returns the extent along x and y: one cell less than the number of samples."""
        rows, cols = self.heights.shape
        return (rows - 1) * RESOLUTION_M, (cols - 1) * RESOLUTION_M

    @property
    def min_height(self) -> float:
        return float(self.heights.min())

    @property
    def max_height(self) -> float:
        return float(self.heights.max())

    def wrap(self, xy: NDArray[Any], k: Any) -> Any:
        """Brings world positions [..., 2] back into tile k (an index or [...] indices). See `wrap`."""
        return wrap(xy, self.origins[k])

    def height(self, xy: NDArray[Any]) -> NDArray[np.float64]:
        """Returns the terrain height at world positions [..., 2], on MuJoCo's triangles; constant beyond the
        edge."""
        xy = np.asarray(xy, np.float64)
        i, a = _cell((xy[..., 0] - self.x0) / RESOLUTION_M, self.heights.shape[0])
        j, b = _cell((xy[..., 1] - self.y0) / RESOLUTION_M, self.heights.shape[1])
        h = self.heights
        height: NDArray[np.float64] = on_triangles(h[i, j], h[i + 1, j], h[i, j + 1], h[i + 1, j + 1], a, b)
        return height


def wrap(xy: Any, origin: Any) -> Any:
    """Moves positions [..., 2] by whole periods of 8 m so that they lie in [-4, 4) around `origin`.

    Plain arithmetic: numpy arrays and torch tensors alike. What is moved is exactly a multiple of 8 m, so the
    ground under the robot stays the same; the interval's ends hold to rounding.
    """
    return xy - SIZE_M * ((xy - origin + SIZE_M / 2) // SIZE_M)


def on_triangles(z00: Any, z10: Any, z01: Any, z11: Any, a: Any, b: Any) -> Any:
    """Returns the height inside a cell at the fractions a (along x) and b (along y) in [0, 1]; z10 is the
    corner at +x.

    MuJoCo splits every cell along the diagonal from its (-x, -y) to its (+x, +y) corner, for rays and for
    contacts (measured with 4.0.0 on a saddle). No branches and no array module: numpy and torch alike.
    """
    difference = a - b
    to_x = (abs(difference) + difference) / 2  # a - b on the triangle that holds z10, else 0
    to_y = to_x - difference
    return z00 * (1 - a - to_y) + z11 * (a - to_x) + z10 * to_x + z01 * to_y


def mujoco_hfield(atlas: Atlas) -> MujocoHField:
    """Returns the atlas as a MuJoCo heightfield: with its geom at `pos` it lies in the world as
    `atlas.height` says.

    MuJoCo's rows run along y and its columns along x, and its compiler stretches whatever it is given to
    [0, 1]; so the data is normalised here by its true range, and `size[2]` is that range.
    """
    low = atlas.min_height
    span = atlas.max_height - low
    top = span if span > 0 else 1.0  # MuJoCo wants a positive size; a flat field's data is all 0
    data = ((atlas.heights.T - low) / top).astype(np.float32)
    x, y = atlas.size_m
    return MujocoHField(
        nrow=data.shape[0],
        ncol=data.shape[1],
        size=(x / 2, y / 2, top, _BASE_M),
        userdata=np.ascontiguousarray(data).reshape(-1),
        pos=(atlas.x0 + x / 2, atlas.y0 + y / 2, low),
    )


def _cell(u: NDArray[np.float64], samples: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Returns the cell's index and the fraction inside it. NaN gives a valid index and a NaN fraction."""
    u = np.clip(u, 0.0, samples - 1)
    i = np.minimum(np.nan_to_num(np.floor(u)).astype(np.int64), samples - 2)
    return i, u - i


def _spawn_height(heights: NDArray[np.float32], i: int, j: int) -> float:
    reach = round(_SPAWN_RADIUS_M / RESOLUTION_M)
    offset = np.arange(-reach, reach + 1)
    disc = offset[:, None] ** 2 + offset[None, :] ** 2 <= reach**2
    return float(heights[i - reach : i + reach + 1, j - reach : j + reach + 1][disc].max())
