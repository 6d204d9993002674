"""Lines through what was timed: t(n) = a + c n, where a is what every call costs whatever its size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Curve:
    """Seconds of a call on n things: `fixed` + `each` n."""

    fixed: float
    each: float

    def __call__(self, size: float) -> float:
        return self.fixed + self.each * size

    @property
    def flat_from(self) -> float:
        """The size from which what is fixed is less than a tenth."""
        return 9 * self.fixed / self.each if self.each else float("inf")


def fit(sizes: Sequence[float], seconds: Sequence[float]) -> Curve:
    """Fits a line by least squares of relative errors, with neither part negative."""
    x, t = np.asarray(sizes, np.float64), np.asarray(seconds, np.float64)
    if len(x) == 1:
        return Curve(0.0, float(t[0] / x[0]))
    rows = np.stack([1 / t, x / t], 1)
    fixed, each = np.linalg.lstsq(rows, np.ones(len(t)), rcond=None)[0]
    if fixed < 0:
        return Curve(0.0, float((x / t).sum() / ((x / t) ** 2).sum()))
    if each < 0:
        return Curve(float((1 / t).sum() / ((1 / t) ** 2).sum()), 0.0)
    return Curve(float(fixed), float(each))
