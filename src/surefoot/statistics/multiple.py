"""More than one decision: Holm's correction within one, and what a decision may spend after others."""

from __future__ import annotations

import math
from collections.abc import Sequence

from surefoot.contract import SurefootError

ALPHA = 0.05
"""Error that all decisions on one half of a panel may share."""


def holm(p: Sequence[float]) -> list[float]:
    """Returns the p-values as Holm (1979) adjusts them, in their own order: the chance of any false finding
    among those at or below alpha is at most alpha, however they depend on each other."""
    order = sorted(range(len(p)), key=lambda i: p[i])
    out, worst = [1.0] * len(p), 0.0
    for rank, i in enumerate(order):
        worst = max(worst, min(1.0, (len(p) - rank) * p[i]))
        out[i] = worst
    return out


def decision_alpha(number: int) -> float:
    """Returns the error that the decision of this number on one half may make: 0.05 * 6 / (pi k)^2.

    Over all decisions that are ever made on the half these sum to 0.05 (the series of 1 / k^2 sums to
    pi^2 / 6), so that nobody has to say beforehand how many there will be.
    """
    if number < 1:
        raise SurefootError(f"Decisions are counted from 1, not from {number}.")
    return ALPHA * 6 / (math.pi * number) ** 2
