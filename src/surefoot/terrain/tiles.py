"""Terrain tiles: 8 m x 8 m of periodic ground, named by (class, level, key) and made from those alone.

A tile is one period of an infinite terrain: a robot that leaves it on one side is wrapped by 8 m and enters
on the other, so sample 80 would be sample 0. Heights are [80, 80] float32 in metres; sample (i, j) lies at
x = i * 0.1 - 4.0, y = j * 0.1 - 4.0 relative to the tile's centre. In the centre there is a flat platform to
spawn on (at least 1.4 m wide); it is at height 0 except on pyramids, whose rim is at height 0 instead.

What surprises:
- The ground between samples is a plane, so a riser is never vertical: it is a ramp one sample (0.1 m) wide. A
  0.3 m tread is 0.2 m of flat ground and a 0.1 m ramp; a 0.20 m riser stands at 63 degrees.
- The level only scales: the same key gives the same pattern at every level, so levels compare in pairs.
- `flat` ignores level and key, and stairs have only 81 variants (their risers must fall on samples).

Figures, linear in the level (`level_table` prints them), and where they come from:

class              level 0 .. 9    what it is
rough              0.02 .. 0.08 m  half the range of uniform noise on nodes 0.2 m apart. legged_gym: 0.05
                                   on 0.2 m nodes; Isaac Lab: 0.04 on 0.1 m. Level 9 is above both.
slope_up, _down    0.04 .. 0.40    rise over run; 0.40 is 22 degrees. legged_gym and Isaac Lab: 0 .. 0.4.
stairs_up, _down   0.05 .. 0.20 m  riser of 10 steps, tread 0.3 m. legged_gym and Isaac Lab: 0.05 .. 0.23 m,
                                   treads 0.31 and 0.3 m, for ANYmal; less here, for robots 0.3 m tall.
boxes              0.05 .. 0.20 m  range of box heights, boxes 0.4 m wide. Isaac Lab for A1 and Go1: the
                                   same (+-0.025 .. +-0.10) on 0.45 m boxes, which do not divide 8 m.
wave               0.02 .. 0.12 m  amplitude, 3 to 5 periods. mjlab: 0 .. 0.2 m with 4 periods on 8 m.
curbs  (held out)  0.05 .. 0.15 m  height of one or two long ledges. 0.15 m is a usual road kerb.
stones (held out)  0.1 .. 0.3 m    gap between stones 0.8 m apart, and
                   0.15 .. 0.30 m  its depth. Our choice: legged_gym's gaps are 0.05 to 0.1 m, but
                                   bottomless; a bounded depth makes a misstep a stumble, not the end.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.contract import SurefootError, behaviour_digest, load_plugin, offered, unknown

SIZE_M = 8.0
RESOLUTION_M = 0.1
SAMPLES = 80
LEVELS = 10
ENTRY_POINTS = "surefoot.terrains"

TRAINED = ("flat", "rough", "slope_up", "slope_down", "stairs_up", "stairs_down", "boxes", "wave")
HELD_OUT = ("curbs", "stones")

_HALF = SAMPLES // 2
SLOPE_RUN = 28.0
"""Samples that a ramp is long."""
_PLATFORM = 8  # half width of the spawn platform in samples
_QUANTUM_PER_M = 4096.0
"""Heights are multiples of 1/4096 m (0.24 mm): exact in float32, and a last-bit difference between two maths
libraries cannot change an atlas's digest."""

Heights = NDArray[Any]
Make = Callable[..., Heights]


class TileId(NamedTuple):
    """Holds everything that determines a tile."""

    cls: str
    level: int
    key: int


@dataclass(frozen=True)
class Figure:
    """Describes a physical quantity that grows linearly from level 0 to level 9; `step` rounds it (0: not
    rounded)."""

    name: str
    low: float
    high: float
    step: float = 0.0

    def at(self, level: int) -> float:
        value = self.low + (self.high - self.low) * level / (LEVELS - 1)
        return round(round(value / self.step) * self.step if self.step else value, 6)


@dataclass(frozen=True)
class TerrainClass:
    """`make(rng, *figures) -> [80, 80]`: one period of a periodic terrain in metres, flat in the centre.

    `rng` is a `numpy.random.Generator`. numpy promises the bits of Philox from version to version, but not
    those of the distributions; so the built-in classes only call `rng.random`, 53 bits of each Philox word.
    """

    make: Make
    figures: tuple[Figure, ...] = ()
    stepped: bool = False
    """Whether the ground is level around every sample and steps half way between them. The box world
    (`solids`) then has an exact form of it."""


def tile(
    cls: str, level: int, key: int, classes: Mapping[str, TerrainClass] | None = None
) -> NDArray[np.float32]:
    """Returns the heights [80, 80] of a tile, in metres; the same bits for the same (cls, level, key),
    everywhere.

    The draws come from Philox with the 128-bit key (first 8 bytes of SHA-256 of the class name, `key`).
    `classes` saves the search for installed classes when many tiles are made (see `generators`).
    """
    terrain = terrain_class(cls, classes)
    level = _integer("terrain level", level, LEVELS)
    key = _integer("terrain key", key, 1 << 64)
    heights = np.asarray(terrain.make(draws(cls, key), *(figure.at(level) for figure in terrain.figures)))
    if heights.shape != (SAMPLES, SAMPLES) or not np.isfinite(heights).all():
        raise SurefootError(
            f"The terrain class '{cls}' made heights of shape {heights.shape}"
            f"{'' if np.isfinite(heights).all() else ' with non-finite values'};"
            f" its `make` must return finite heights [{SAMPLES}, {SAMPLES}] in metres."
        )
    exact = np.round(heights * _QUANTUM_PER_M) / _QUANTUM_PER_M + 0.0  # + 0.0: no negative zeros in the bytes
    return exact.astype(np.float32)


def draws(cls: str, key: int) -> np.random.Generator:
    """Returns the random numbers that a class makes its tile `key` from."""
    family = int.from_bytes(hashlib.sha256(cls.encode()).digest()[:8], "big")
    return np.random.Generator(np.random.Philox(key=(family << 64) | key))


def heights_digest(tiles: Iterable[TileId]) -> str:
    """Returns the SHA-256 of the heights of tiles, whoever makes them and however."""
    sha = hashlib.sha256()
    for t in sorted(set(tiles)):
        sha.update(f"{t}".encode() + tile(*t).astype("<f4").tobytes())
    return sha.hexdigest()


def class_digest(cls: str) -> str:
    """Returns what a terrain class is known by: the heights of two of its tiles at every level and, where it
    is another package's, what its functions do."""
    heights = heights_digest(TileId(cls, level, key) for level in range(LEVELS) for key in (0, 1))
    return heights if cls in _BUILT_IN else heights + behaviour_digest({cls: terrain_class(cls)})


def level_table(cls: str, classes: Mapping[str, TerrainClass] | None = None) -> tuple[dict[str, float], ...]:
    """Returns a class's physical figures, one row per level: level_table("stairs_up")[9] == {"riser_m":
    0.2}."""
    figures = terrain_class(cls, classes).figures
    return tuple({figure.name: figure.at(level) for figure in figures} for level in range(LEVELS))


def terrain_class(cls: str, classes: Mapping[str, TerrainClass] | None = None) -> TerrainClass:
    """Returns the class of that name; installed packages are only searched for a name that is not built
    in."""
    if classes is None:
        classes = _BUILT_IN if cls in _BUILT_IN else generators()
    if cls not in classes:
        raise unknown("terrain class", cls, classes)
    return classes[cls]


def generators() -> dict[str, TerrainClass]:
    """Returns the built-in classes and those of installed packages (entry points of the group
    "surefoot.terrains").

    A package declares `name = "module:object"` where the object is a `TerrainClass`. Built-in names cannot be
    taken over: a tile's name would no longer say what it is.
    """
    classes = dict(_BUILT_IN)
    for name, point in offered(ENTRY_POINTS).items():
        if name in classes:
            raise SurefootError(f"The terrain class '{name}' ({point.value}) is taken; rename it.")
        classes[name] = load_plugin("terrain class", point, TerrainClass)
    return classes


def _integer(what: str, value: Any, end: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number < end:
        raise SurefootError(f"The {what} must be an integer from 0 to {end - 1}, not {value!r}.")
    return number


def _xy() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns sample offsets from the centre, -40 .. 39, as [80, 1] and [1, 80]; integers: edges fall on
    samples."""
    offset = np.arange(SAMPLES) - _HALF
    return offset[:, None], offset[None, :]


def _beyond(limits: Heights) -> Heights:
    """Returns the distance in samples beyond a rectangle with the half widths [4] (x+, x-, y+, y-); negative
    inside."""
    x, y = _xy()
    along_x = np.maximum(x - limits[0], -x - limits[1])
    along_y = np.maximum(y - limits[2], -y - limits[3])
    beyond: Heights = np.maximum(along_x, along_y)
    return beyond


def _around_platform(heights: Heights, blend_samples: float) -> Heights:
    """Returns the terrain with the spawn platform cut in at height 0, growing over `blend_samples` (1: at
    once)."""
    return heights * np.clip(_beyond(np.full(4, _PLATFORM)) / blend_samples, 0.0, 1.0)


def _flat(rng: np.random.Generator) -> Heights:
    return np.zeros((SAMPLES, SAMPLES))


def _rough(rng: np.random.Generator, amplitude_m: float) -> Heights:
    nodes = amplitude_m * (2.0 * rng.random((_HALF, _HALF)) - 1.0)
    in_x = np.stack([nodes, (nodes + np.roll(nodes, -1, 0)) / 2], axis=1).reshape(SAMPLES, _HALF)
    full = np.stack([in_x, (in_x + np.roll(in_x, -1, 1)) / 2], axis=2).reshape(SAMPLES, SAMPLES)
    return _around_platform(full, 4.0)


def slope_sides(rng: np.random.Generator) -> Heights:
    """Returns how many samples from the centre the ramps of a slope begin: [4] (x+, x-, y+, y-)."""
    return 7.0 + 2.0 * rng.random(4)


def _slope(rng: np.random.Generator, slope: float) -> Heights:
    """Height of a pit above its bottom: 2.8 m of ramp around a platform whose sides are 0.7 to 0.9 m away."""
    run = np.clip(_beyond(slope_sides(rng)), 0.0, SLOPE_RUN)
    return slope * RESOLUTION_M * run


def _stairs(rng: np.random.Generator, riser_m: float) -> Heights:
    """Height of a pit above its bottom: 10 steps with 3-sample treads around sides 7, 8 or 9 samples away."""
    beyond = _beyond(np.floor(7.0 + 3.0 * rng.random(4)))
    return riser_m * np.clip(np.ceil(beyond / 3.0), 0.0, 10.0)


def _pyramid(pit: Make, spawn_on_top: bool) -> Make:
    """A pit with its rim at height 0 to climb out of, or the same turned over to climb down from."""

    def make(rng: np.random.Generator, figure: float) -> Heights:
        heights = pit(rng, figure)
        below_rim: Heights = heights - heights.max()
        return -below_rim if spawn_on_top else below_rim

    return make


def _boxes(rng: np.random.Generator, range_m: float) -> Heights:
    box = 4  # samples: 0.4 m
    heights = range_m * (rng.random((SAMPLES // box, SAMPLES // box)) - 0.5)
    return _around_platform(np.kron(heights, np.ones((box, box))), 1.0)


def _wave(rng: np.random.Generator, amplitude_m: float) -> Heights:
    periods = np.floor(3.0 + 3.0 * rng.random(2))
    phase = 2.0 * np.pi * rng.random(2)
    x, y = _xy()
    along_x = np.sin(2.0 * np.pi * periods[0] * x / SAMPLES + phase[0])
    along_y = np.sin(2.0 * np.pi * periods[1] * y / SAMPLES + phase[1])
    return _around_platform(amplitude_m / 2.0 * (along_x + along_y), 8.0)


def _curbs(rng: np.random.Generator, height_m: float) -> Heights:
    """One or two ledges, 0.3 to 0.8 m wide, across the whole tile in x or y; no higher where they cross."""
    heights = np.zeros((SAMPLES, SAMPLES))
    draws = rng.random(7)
    for one, along, place in (draws[0:3], draws[3:6])[: 1 + int(draws[6] < 0.5)]:
        width = int(3.0 + 6.0 * one)
        # Anywhere past the platform, round the period.
        first = _HALF + _PLATFORM + 1 + int(place * (SAMPLES - 2 * _PLATFORM - width))
        rows = (first + np.arange(width)) % SAMPLES
        ledge = np.zeros((SAMPLES, SAMPLES))
        ledge[rows] = height_m
        heights = np.maximum(heights, ledge if along < 0.5 else ledge.T)
    return heights


def _stones(rng: np.random.Generator, gap_m: float, depth_m: float) -> Heights:
    """Strips of stones, each strip shifted; tops within +-0.02 m. The gap is its width at half depth."""
    pitch = 8  # samples: 0.8 m
    strips = SAMPLES // pitch
    turned = rng.random() < 0.5
    shift = np.floor(pitch * rng.random(strips)).astype(np.int64)
    tops = 0.02 * (2.0 * rng.random((strips, strips)) - 1.0)
    keep = pitch - round(gap_m / RESOLUTION_M)
    i, j = np.meshgrid(np.arange(SAMPLES), np.arange(SAMPLES), indexing="ij")
    strip = i // pitch
    along = (j + shift[strip]) % SAMPLES
    stone = (i % pitch < keep) & (along % pitch < keep)
    heights = np.where(stone, tops[strip, along // pitch], -depth_m)
    return _around_platform(heights.T if turned else heights, 1.0)


_SLOPE = (Figure("slope", 0.04, 0.40),)
_RISER = (Figure("riser_m", 0.05, 0.20),)
_BUILT_IN: Mapping[str, TerrainClass] = MappingProxyType(
    {
        "flat": TerrainClass(_flat, stepped=True),
        "rough": TerrainClass(_rough, (Figure("amplitude_m", 0.02, 0.08),)),
        "slope_up": TerrainClass(_pyramid(_slope, spawn_on_top=False), _SLOPE),
        "slope_down": TerrainClass(_pyramid(_slope, spawn_on_top=True), _SLOPE),
        "stairs_up": TerrainClass(_pyramid(_stairs, spawn_on_top=False), _RISER, stepped=True),
        "stairs_down": TerrainClass(_pyramid(_stairs, spawn_on_top=True), _RISER, stepped=True),
        "boxes": TerrainClass(_boxes, (Figure("range_m", 0.05, 0.20),), stepped=True),
        "wave": TerrainClass(_wave, (Figure("amplitude_m", 0.02, 0.12),)),
        "curbs": TerrainClass(_curbs, (Figure("height_m", 0.05, 0.15),), stepped=True),
        "stones": TerrainClass(
            _stones,
            (Figure("gap_m", 0.1, 0.3, step=0.1), Figure("depth_m", 0.15, 0.30)),
            stepped=True,
        ),
    }
)
