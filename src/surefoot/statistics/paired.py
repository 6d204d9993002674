"""Paired comparison on common random numbers: the same scenarios, two policies, differences by scenario."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot.statistics.clusters import Families, checked, effective_n_of, split
from surefoot.statistics.means import Mean, interval_of, mean_interval, unseen
from surefoot.statistics.rates import check_confidence, rate, t_quantile

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
    """Whether families are so few that the interval allows for differences that none may have shown."""


def paired(
    a: ArrayLike, b: ArrayLike, family: ArrayLike, span: tuple[float, float], confidence: float = 0.95
) -> Difference:
    """Returns the mean over scenarios of b - a, with its interval over families; `span` is the range of a and
    b."""
    first, labels = checked(a, family)
    second, _ = checked(b, family)
    interval = paired_interval(first, second, labels, span, confidence)
    return _difference(first, second, split(second - first, labels), interval, confidence)


def _difference(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    families: Families,
    interval: Mean,
    confidence: float,
) -> Difference:
    detectable = math.inf
    if families.count > 1:
        degrees = families.worth - 1
        error = (interval.high - interval.low) / 2 / t_quantile(degrees, confidence)
        detectable = error * (t_quantile(degrees, confidence) + t_quantile(degrees, 2 * POWER - 1))
    return Difference(
        a=float(first.mean()),
        b=float(second.mean()),
        value=families.mean,
        low=interval.low,
        high=interval.high,
        p=sign_flip(families.means * families.sizes),
        detectable=detectable,
        n=families.n,
        n_eff=interval.n_eff,
        families=families.count,
        few=interval.few,
    )


def paired_interval(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    family: NDArray[np.generic],
    span: tuple[float, float],
    confidence: float = 0.95,
) -> Mean:
    """Returns the mean difference with its interval, as a mean or as a rate.

    Rates (span 0 to 1) that differ in 12 families or more have shown what there is to see: their interval is
    that of the values, without allowance for what was not seen. Rates of true-or-false values that differ in
    fewer get the interval of `_rate_difference`, which is never 0 wide: t covered as little as 70% there.
    Shares (a success averaged over columns) that do get the allowance, however many families there are.
    """
    gap = b - a
    families, shares = split(gap, family), tuple(span) == (0, 1)
    if not shares:
        width = span[1] - span[0]
        return mean_interval(gap, family, (-width, width), confidence)
    n_eff = effective_n_of(families)
    sparse = np.unique(family[gap != 0]).size < SPARSE_FAMILIES
    if sparse and np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all():
        low, high, n_eff = _rate_difference(gap, family, confidence)
    else:
        low, high = interval_of(families, confidence)
        if sparse:
            below, above = unseen(families, (-1.0, 1.0), confidence)
            low, high = min(low, below), max(high, above)
    if families.count > 1:  # no difference of rates is beyond 1
        low, high = max(low, -1.0), min(high, 1.0)
    return Mean(families.mean, low, high, families.n, n_eff)


def sign_flip(sums: ArrayLike) -> float:
    """Returns the two-sided p-value of the family sums of differences [K]: how often random signs give as
    large a total.

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
    """Returns random signs [FLIPS, k]; always the same."""
    rng = np.random.Generator(np.random.PCG64(_SEED))
    return np.asarray(1.0 - 2.0 * rng.integers(0, 2, (FLIPS, k)))


def _rate_difference(
    gap: NDArray[np.float64], family: NDArray[np.generic], confidence: float
) -> tuple[float, float, float]:
    """Returns low, high and effective n of a difference of paired rates.

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
