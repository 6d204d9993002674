"""Paired comparison on common random numbers: the same scenarios, two policies, differences by scenario."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot.contract.errors import SurefootError
from surefoot.evidence.statistics.clusters import checked, effective_n_of, split
from surefoot.evidence.statistics.means import mean_interval
from surefoot.evidence.statistics.rates import check_confidence, rate, t_quantile

POWER = 0.8
"""Chance of finding a difference of the minimum detectable size."""
FLIPS = 9999
EXACT_FAMILIES = 13
"""Families with a difference up to which all 2^k sign flips are counted; more are sampled."""
SPARSE_FAMILIES = 12
"""Families with a difference below which the spread of the others cannot be trusted for a rate; see
`paired`."""
_SEED = 20_260_102


@dataclass(frozen=True)
class Difference:
    """B minus A over the same scenarios, with what can be said about it."""

    a: float
    b: float
    value: float
    low: float
    high: float
    p: float
    """Sign-flip p-value over families, two-sided; its null is that A and B are exchangeable."""
    detectable: float
    """Smallest true difference that a comparison of this spread and size finds with 80% power."""
    n: int
    n_eff: float
    families: int
    few: bool = False
    """Too few families to trust the interval where whole families share rare, large differences."""


def paired(
    a: ArrayLike,
    b: ArrayLike,
    family: ArrayLike,
    confidence: float = 0.95,
    binary: bool = False,
    symmetric: bool = False,
) -> Difference:
    """Mean over scenarios of b - a, with the interval of that mean over families.

    `binary` values (true or false) that differ in fewer than 12 families get the interval of
    `_rate_difference` instead, which is never 0 wide: t covered as little as 70% there. Where A and B are
    exchangeable but for a shift, differences are `symmetric`, and t needs no reach for skewness.
    """
    first, labels = checked(a, family)
    second, _ = checked(b, family)
    if binary and not (np.isin(first, (0, 1)).all() and np.isin(second, (0, 1)).all()):
        raise SurefootError(
            "A paired rate needs true or false (or 0 and 1) per episode; compare means instead."
        )
    gap = second - first
    families, few = split(gap, labels), False
    if binary and np.unique(labels[gap != 0]).size < SPARSE_FAMILIES:
        low, high, n_eff = _rate_difference(gap, labels, confidence)
    else:
        found = mean_interval(gap, labels, confidence, symmetric)
        low, high, n_eff = found.low, found.high, effective_n_of(families)
        few = found.few and not binary  # rates were simulated down to 8 families and hold
        if binary and families.count > 1:  # no difference of rates is beyond 1
            low, high = max(low, -1.0), min(high, 1.0)
    detectable = math.inf
    if families.count > 1:
        degrees = families.worth - 1
        error = (high - low) / 2 / t_quantile(degrees, confidence)
        detectable = error * (t_quantile(degrees, confidence) + t_quantile(degrees, 2 * POWER - 1))
    return Difference(
        a=float(first.mean()),
        b=float(second.mean()),
        value=families.mean,
        low=low,
        high=high,
        p=sign_flip(families.means * families.sizes),
        detectable=detectable,
        n=families.n,
        n_eff=n_eff,
        families=families.count,
        few=few,
    )


def sign_flip(sums: ArrayLike) -> float:
    """Two-sided p-value of the family sums of differences [K]: how often random signs give as large a total.

    Whole families are flipped, since scenarios of one family are not independent. All sign patterns are
    counted when at most 13 families differ at all, else 9999 are drawn by a fixed seed and the observed one
    is counted among them, so that p is never 0 (Phipson and Smyth 2010).
    """
    x = np.asarray(sums, dtype=np.float64)
    x = np.sort(x[x != 0])  # families without a difference are the same under any sign
    if not x.size:
        return 1.0
    observed = abs(float(x.sum())) * (1 - 1e-9)  # equal totals count, whichever order they were added in
    if x.size <= EXACT_FAMILIES:
        signs = 1.0 - 2.0 * ((np.arange(1 << x.size)[:, None] >> np.arange(x.size)) & 1)
        return float(np.mean(np.abs(signs @ x) >= observed))
    return float((1 + np.count_nonzero(np.abs(_flips(x.size) @ x) >= observed)) / (1 + FLIPS))


@lru_cache(maxsize=8)
def _flips(k: int) -> NDArray[np.float64]:
    """Random signs [FLIPS, k]; always the same."""
    rng = np.random.Generator(np.random.PCG64(_SEED))
    return np.asarray(1.0 - 2.0 * rng.integers(0, 2, (FLIPS, k)))


def _rate_difference(
    gap: NDArray[np.float64], family: NDArray[np.generic], confidence: float
) -> tuple[float, float, float]:
    """Low, high and effective n of a difference of paired rates.

    A difference is wins less losses: scenarios where only B holds less those where only A does. Both shares
    have intervals of their own (`rate`, which knows about families and about events never seen); the two are
    joined by the method of variance estimates recovery (Zou and Donner 2008; Newcombe 1998, method 10), with
    the correlation of two classes of one multinomial, which is negative. Hence two policies that never differ
    get an interval, not 0 +- 0.
    """
    check_confidence(confidence)
    win, loss = rate(gap > 0, family, confidence), rate(gap < 0, family, confidence)
    d = win.value - loss.value
    odds = win.value * loss.value / max((1 - win.value) * (1 - loss.value), 1e-12)
    phi = -min(1.0, math.sqrt(odds))

    def reach(x: float, y: float) -> float:
        return math.sqrt(max(x * x + y * y - 2 * phi * x * y, 0.0))

    low = d - reach(win.value - win.low, loss.high - loss.value)
    high = d + reach(win.high - win.value, loss.value - loss.low)
    return max(low, -1.0), min(high, 1.0), min(win.n_eff, loss.n_eff)
