"""The ledger as series over training, thinned to what a screen can show."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

POINTS = 160
"""Most points of a drawn series; longer runs are averaged over equal blocks of updates."""


@dataclass(frozen=True)
class Ledger:
    rows: list[dict[str, Any]]
    torn: bool
    """The last line was cut off by a kill and is left out."""

    def values(self, key: str) -> np.ndarray:
        """Returns the finite values of a figure, in order; updates without it are left out."""
        values = [r.get(key) for r in self.rows]
        return np.array([v for v in values if _real(v)], float)

    def last(self, key: str) -> float | None:
        values = self.values(key)
        return float(values[-1]) if len(values) else None

    def series(self, key: str, x: str = "samples") -> tuple[np.ndarray, np.ndarray]:
        """Returns (x, value) where both are known."""
        pairs = [(r[x], r[key]) for r in self.rows if _real(r.get(x)) and _real(r.get(key))]
        array = np.array(pairs, float).reshape(-1, 2)
        return array[:, 0], array[:, 1]

    def names(self, prefix: str) -> list[str]:
        """Returns what follows `prefix` in the ledger's keys, in their order."""
        seen: dict[str, None] = {}
        for row in self.rows:
            seen |= {k.removeprefix(prefix): None for k in row if k.startswith(prefix)}
        return list(seen)

    def blocks(
        self, keys: list[str], reduce: Callable[..., Any] = np.mean, x: str = "samples"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns x at the end of each block of updates and [blocks, keys] reduced over it; absent counts
        as 0."""
        n = len(self.rows)
        if not n:
            return np.zeros(0), np.zeros((0, len(keys)))
        table = np.array([[_zero(r.get(k)) for k in keys] for r in self.rows], float).reshape(n, len(keys))
        at = np.array([_zero(r.get(x)) for r in self.rows], float)
        edges = np.unique(np.linspace(0, n, min(n, POINTS) + 1).astype(int))
        parts = [slice(a, b) for a, b in itertools.pairwise(edges)]
        return np.array([at[p][-1] for p in parts]), np.array([reduce(table[p], axis=0) for p in parts])


def thin(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keeps at most POINTS points: means over equal blocks of the points."""
    n = len(x)
    if n <= POINTS:
        return x, y
    edges = np.linspace(0, n, POINTS + 1).astype(int)
    parts = [slice(a, b) for a, b in itertools.pairwise(edges)]
    return np.array([x[p][-1] for p in parts]), np.array([y[p].mean() for p in parts])


def _real(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _zero(value: Any) -> float:
    return float(value) if _real(value) else 0.0
