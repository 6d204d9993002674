"""Plain geometry of contact with a heightfield: local minima of distance, found face by face, edge by
edge and corner by corner in float64."""

import itertools
from typing import Any

import numpy as np

from surefoot.engines.stride.heightfield import tile_heights
from surefoot.terrain import Atlas, TileId

TILES = (
    TileId("flat", 0, 0),
    TileId("stairs_up", 9, 3),
    TileId("stairs_down", 4, 1),
    TileId("rough", 9, 5),
    TileId("boxes", 9, 2),
    TileId("stones", 5, 4),
    TileId("wave", 7, 1),
    TileId("slope_up", 9, 1),
    TileId("slope_down", 9, 1),
    TileId("curbs", 9, 1),
)
ATLAS = Atlas.build(TILES)
FIELD = tile_heights(ATLAS)


def vertex(tile: int, i: int, j: int) -> np.ndarray:
    return np.array([(i - 40) * 0.1, (j - 40) * 0.1, float(FIELD[0, tile, i % 80, j % 80])])


def reference(tile: int, centre: np.ndarray, radius: float) -> list[tuple[np.ndarray, float]]:
    """(normal, distance) of every local minimum of distance within the radius, the closest first."""
    i, j = (int(np.floor((c + 4.0) / 0.1)) for c in centre[:2])
    cells = [(a, b) for a in range(i - 2, i + 3) for b in range(j - 2, j + 3)]
    faces = [
        f
        for a, b in cells
        for f in (((a, b), (a + 1, b), (a + 1, b + 1)), ((a, b), (a + 1, b + 1), (a, b + 1)))
    ]
    at = {k: vertex(tile, *k) for f in faces for k in f}
    by_edge: dict[frozenset[Any], list[Any]] = {}
    neighbours: dict[Any, set[Any]] = {}
    for f in faces:
        for x, y in itertools.combinations(f, 2):
            by_edge.setdefault(frozenset((x, y)), []).append(f)
            neighbours.setdefault(x, set()).add(y)
            neighbours.setdefault(y, set()).add(x)
    minima = []
    for f in faces:
        a, b, c = (at[k] for k in f)
        n = np.cross(b - a, c - a)
        n /= np.linalg.norm(n)
        foot = centre - n * (n @ (centre - a))
        s, t = np.linalg.lstsq(np.stack([b - a, c - a], 1), foot - a, rcond=None)[0]
        if s >= 0 and t >= 0 and s + t <= 1:
            minima.append((foot, n))
    for edge, around in by_edge.items():
        x, y = (at[k] for k in edge)
        s = (centre - x) @ (y - x) / ((y - x) @ (y - x))
        if not 0 < s < 1:
            continue
        foot = x + s * (y - x)
        inward = []
        for f in around:
            z = at[next(k for k in f if k not in edge)]
            inward.append((z - x) - (y - x) * ((z - x) @ (y - x)) / ((y - x) @ (y - x)))
        if all((centre - foot) @ w <= 0 for w in inward):
            minima.append((foot, np.array([0.0, 0, 1])))
    for k, around_k in neighbours.items():
        if all((centre - at[k]) @ (at[m] - at[k]) <= 0 for m in around_k):
            minima.append((at[k], np.array([0.0, 0, 1])))
    ground = height_below(tile, centre)
    if centre[2] < ground:
        foot, n = min(minima, key=lambda m: np.linalg.norm(m[0] - centre))
        d = float(np.linalg.norm(foot - centre))
        return [((foot - centre) / d, -d - radius)]
    out = []
    for foot, n in sorted(minima, key=lambda m: np.linalg.norm(m[0] - centre)):
        d = float(np.linalg.norm(centre - foot))
        if d < radius:
            out.append(((centre - foot) / d if d > 1e-9 else n, d - radius))
    return out


def height_below(tile: int, centre: np.ndarray) -> float:
    return float(ATLAS.height(centre[:2] + ATLAS.origins[tile].astype(float)))
