"""Chances that several detectors work out, without the statistics of scipy, which take longer to import than
many a detector to look."""

from __future__ import annotations

import math

import numpy as np


def kolmogorov_smirnov(u: np.ndarray) -> float:
    """Returns the most that the chance can be that as many values drawn evenly from 0 to 1 lie as far from
    even as these (Massart 1990, for any number of them)."""
    x = np.sort(np.asarray(u, np.float64).ravel())
    n = len(x)
    place = np.arange(1, n + 1) / n
    gap = max(float((place - x).max()), float((x - place + 1 / n).max()))
    return min(1.0, 2 * math.exp(-2 * n * gap**2))
