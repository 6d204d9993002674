"""Tiles of terrain once more, from the words of `terrain/tiles` and its table of figures: heights above the
plane at the samples of a tile, one class after the other. Nothing of the terrain's own code is used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

FIGURES: dict[str, tuple[tuple[float, float, float], ...]] = {
    "flat": (),
    "rough": ((0.02, 0.08, 0),),
    "slope_up": ((0.04, 0.40, 0),),
    "slope_down": ((0.04, 0.40, 0),),
    "stairs_up": ((0.05, 0.20, 0),),
    "stairs_down": ((0.05, 0.20, 0),),
    "boxes": ((0.05, 0.20, 0),),
    "wave": ((0.02, 0.12, 0),),
    "curbs": ((0.05, 0.15, 0),),
    "stones": ((0.1, 0.3, 0.1), (0.15, 0.30, 0)),
}
"""What levels 0 and 9 have of each figure, and what it is rounded to (0: it is not)."""
SIDE, CELL_M, TOP_LEVEL = 80, 0.1, 9
"""Samples of a tile to a side, metres between them, and the highest level."""
STEPPED = ("flat", "stairs_up", "stairs_down", "boxes", "curbs", "stones")
"""Classes that are level around every sample, and step half way between them."""
Draw = Callable[..., np.ndarray]


def figures(cls: str, level: int) -> list[float]:
    """Returns the figures of a class at a level: they grow evenly from level 0 to level 9."""
    grown = [(low + (high - low) * level / TOP_LEVEL, step) for low, high, step in FIGURES[cls]]
    return [round(x / step) * step if step else x for x, step in grown]


def heights(cls: str, level: int, key: int) -> np.ndarray:
    """Returns the heights [80, 80] of a tile; sample (i, j) lies at 0.1 i - 4 and 0.1 j - 4 metres."""
    name = int.from_bytes(hashlib.sha256(cls.encode()).digest()[:8], "big")
    draw: Draw = np.random.Generator(np.random.Philox(key=name * 2**64 + key)).random
    x, y = np.meshgrid(np.arange(SIDE) - 40.0, np.arange(SIDE) - 40.0, indexing="ij")
    made = _MADE[cls](draw, x, y, *figures(cls, level))
    return np.asarray(np.round(made * 4096) / 4096)


def around(cls: str, level: int, key: int, xy: np.ndarray) -> np.ndarray:
    """Returns heights at the samples that are nearest to places [..., 2] relative to a tile's middle; a tile
    is its own neighbour on every side."""
    at = np.rint(np.asarray(xy) / CELL_M).astype(int) + SIDE // 2
    out: np.ndarray = heights(cls, level, key)[at[..., 0] % SIDE, at[..., 1] % SIDE]
    return out


def _square(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns by how many samples places lie outside of the platform in the middle."""
    return np.asarray(np.maximum(abs(x), abs(y)) - 8.0)


def _outside(draw_sides: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    east, west, north, south = draw_sides
    return np.asarray(np.stack([x - east, -x - west, y - north, -y - south]).max(0))


def _grown(ground: np.ndarray, x: np.ndarray, y: np.ndarray, over: float) -> np.ndarray:
    return np.asarray(ground * np.minimum(np.maximum(_square(x, y) / over, 0.0), 1.0))


def _flat(draw: Draw, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return 0.0 * x


def _rough(draw: Draw, x: np.ndarray, y: np.ndarray, amplitude: float) -> np.ndarray:
    """Even noise on every second sample, and half way between its neighbours on the others."""
    node = amplitude * (2 * draw((40, 40)) - 1)
    i, j = (x + 40).astype(int), (y + 40).astype(int)
    corners = [node[(i + a) // 2 % 40, (j + b) // 2 % 40] for a in (0, 1) for b in (0, 1)]
    return _grown(np.mean(corners, 0), x, y, 4)


def _slope(draw: Draw, x: np.ndarray, y: np.ndarray, slope: float) -> np.ndarray:
    return np.asarray(slope * CELL_M * np.clip(_outside(7 + 2 * draw(4), x, y), 0, 28))


def _stairs(draw: Draw, x: np.ndarray, y: np.ndarray, riser: float) -> np.ndarray:
    """Ten steps, each three samples deep."""
    far = _outside(np.floor(7 + 3 * draw(4)), x, y)
    return np.asarray(riser * sum((far > 3 * k).astype(float) for k in range(10)))


def _up(pit: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A pit whose rim is at height 0: it is climbed out of."""

    def make(*given: object) -> np.ndarray:
        ground = pit(*given)
        return np.asarray(ground - ground.max())

    return make


def _down(pit: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """The same turned over."""
    up = _up(pit)
    return lambda *given: -up(*given)


def _boxes(draw: Draw, x: np.ndarray, y: np.ndarray, span: float) -> np.ndarray:
    top = span * (draw((20, 20)) - 0.5)
    return _grown(top[((x + 40) // 4).astype(int), ((y + 40) // 4).astype(int)], x, y, 1)


def _wave(draw: Draw, x: np.ndarray, y: np.ndarray, amplitude: float) -> np.ndarray:
    periods, phase = np.floor(3 + 3 * draw(2)), draw(2)
    along = [np.sin(2 * np.pi * (p * z / SIDE + f)) for p, z, f in zip(periods, (x, y), phase, strict=True)]
    return _grown(amplitude * np.mean(along, 0), x, y, 8)


def _curbs(draw: Draw, x: np.ndarray, y: np.ndarray, height: float) -> np.ndarray:
    """One or two ledges, each three to eight samples wide, across the whole tile."""
    u = draw(7)
    ground = 0.0 * x
    for wide, turned, place in (u[:3], u[3:6]) if u[6] < 0.5 else (u[:3],):
        width = int(3 + 6 * wide)
        first = 9 + int(place * (64 - width))  # past the platform, round the period
        into = ((x if turned < 0.5 else y) - first) % SIDE
        ground = np.maximum(ground, height * (into < width))
    return ground


def _stones(draw: Draw, x: np.ndarray, y: np.ndarray, gap: float, depth: float) -> np.ndarray:
    """Stones every eight samples, in strips that are shifted; what is no stone lies deep."""
    turned = bool(draw() < 0.5)
    shift, tops = np.floor(8 * draw(10)), 0.02 * (2 * draw((10, 10)) - 1)
    across, along = (y, x) if turned else (x, y)
    strip = ((across + 40) // 8).astype(int)
    moved = (along + 40 + shift[strip]) % SIDE
    wide = 8 - round(gap / CELL_M)
    stone = ((across + 40) % 8 < wide) & (moved % 8 < wide)
    return _grown(np.where(stone, tops[strip, (moved // 8).astype(int)], -depth), x, y, 1)


_MADE: dict[str, Callable[..., np.ndarray]] = {
    "flat": _flat,
    "rough": _rough,
    "slope_up": _up(_slope),
    "slope_down": _down(_slope),
    "stairs_up": _up(_stairs),
    "stairs_down": _down(_stairs),
    "boxes": _boxes,
    "wave": _wave,
    "curbs": _curbs,
    "stones": _stones,
}
