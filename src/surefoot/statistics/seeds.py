"""Figures over training seeds: the typical seed (a median, with an exact interval) and, beside it, how many
seeds collapsed. The one method for all that is said over seeds.

A mean over seeds hides both: five good seeds and five with one collapsed among them have the means of a
treatment that is better and one that is worse. Medians need no shape: signs of seeds about their true median
are coin flips, whatever a collapse does to the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from surefoot.contract import Frozen, SurefootError
from surefoot.statistics.estimates import Estimate
from surefoot.statistics.paired import POWER
from surefoot.statistics.rates import check_confidence, clopper_pearson

COLLAPSED_BELOW = 0.5
"""Share of its arm's median below which a seed has collapsed."""


class OverSeeds(Estimate):
    """A figure of the typical training seed: the median of one value per seed, and its interval."""

    unit: str = "seed"
    confidence: float = 0.95
    """What the interval attains, exactly: 1 - 2^(1 - K) at most, 93.75% with five seeds."""
    mean: float | None = None
    """None in files of before there were medians: there the value itself is the mean."""


class Collapses(Frozen):
    """How many seeds ended below half of their arm's median."""

    count: int
    n: int
    low: float
    """Ends of the exact 95% interval of the rate (Clopper and Pearson)."""
    high: float
    lowest: float
    """The worst seed's value: a drop that is no collapse is seen here."""


def over_seeds(values: Sequence[float | None], confidence: float = 0.95) -> OverSeeds | None:
    """Returns the typical seed of one value per seed, over those that are known; None where none is."""
    known = [float(v) for v in values if v is not None and math.isfinite(v)]
    if not known:
        return None
    low, high, attained = median_interval(known, confidence)
    n = len(known)
    return OverSeeds(
        value=float(np.median(known)),
        low=low if n > 1 else None,
        high=high if n > 1 else None,
        n=n,
        n_eff=float(n),
        families=n,
        confidence=attained,
        mean=float(np.mean(known)),
    )


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float, float]:
    """Returns low, high and the confidence attained of the median of independent values.

    It holds every median that flipping signs does not reject: about the true one each value is above or below
    with equal chance, so the number above is binomial, and the ends are values of the sample (Thompson 1936).
    Exact for any distribution, collapses and ties among them. Where even the whole range does not attain the
    confidence, it is given with what it attains.
    """
    check_confidence(confidence)
    x = np.sort(np.asarray(values, np.float64))
    if not x.size or not np.isfinite(x).all():
        raise SurefootError("A median over seeds needs one finite value per seed, and one seed at least.")
    cut = max(0, _beyond(x.size, 1 - confidence))
    return float(x[cut]), float(x[-1 - cut]), max(0.0, 1 - 2 * coin_tail(x.size, cut))


def _beyond(n: int, alpha: float) -> int:
    """Returns how many of n values may lie beyond an end of an interval that misses with chance alpha at
    most; -1 where even the whole range misses more often."""
    cut = -1
    while 2 * coin_tail(n, cut + 1) <= alpha and 2 * (cut + 2) <= n:
        cut += 1
    return cut


def coin_tail(n: int, at_most: int) -> float:
    """Returns the chance of `at_most` heads or fewer in `n` flips of a fair coin."""
    return sum(math.comb(n, k) for k in range(at_most + 1)) / 2**n if at_most >= 0 else 0.0


def shown_above(differences: Sequence[float], limit: float) -> float:
    """Returns the two-sided sign-flip p-value of the claim that the median difference lies above `limit`:
    the smallest alpha at which `median_interval` does. A difference at the limit speaks against it."""
    d = np.asarray(differences, np.float64)
    return min(1.0, 2 * coin_tail(d.size, int((d <= limit).sum())))


def shown_below(differences: Sequence[float], limit: float) -> float:
    """Returns the same of the claim that it lies below `limit`."""
    return shown_above([-x for x in differences], -limit)


def seeds_needed(alpha: float) -> int:
    """Returns how many seeds can show anything at all at a two-sided `alpha`: 2 / 2^K must not exceed it."""
    return math.ceil(1 - math.log2(alpha))


def findable(differences: Sequence[float], alpha: float) -> float:
    """Returns how far beyond a limit the median difference must lie to be shown to, with 80% power, by as
    many seeds of the same spread (normal); infinite where no difference could be."""
    from scipy.special import betaincinv, ndtri

    n = len(differences)
    allowed = _beyond(n, alpha)
    if allowed < 0:
        return math.inf
    # The chance of each seed to be on the right side, at which all but `allowed` of them are with 80%.
    each = float(betaincinv(n - allowed, allowed + 1, POWER))
    return float(np.std(differences, ddof=1)) * max(0.0, float(ndtri(each)))


def collapses(values: Sequence[float]) -> Collapses:
    """Counts the seeds below half of the median of `values`, one arm of a comparison."""
    x = np.asarray(values, np.float64)
    count = int((x < COLLAPSED_BELOW * np.median(x)).sum())
    low, high = clopper_pearson(count / x.size, x.size)
    return Collapses(count=count, n=x.size, low=low, high=high, lowest=float(x.min()))


def more_frequent(fewer: Collapses, more: Collapses) -> float:
    """Returns the one-sided p-value of the claim that collapses are more frequent in `more` than in `fewer`.

    Boschloo's exact test (1970): the p-value of Fisher's is the statistic, and its largest chance over all
    common rates the p-value. Never above Fisher's own, which conditions on the number of collapses.
    """
    if more.count * fewer.n <= fewer.count * more.n:
        return 1.0
    p = _fisher(fewer.n, more.n)
    extreme = p <= p[fewer.count, more.count] * (1 + 1e-9)
    rates = np.linspace(0.0, 1.0, 1001)[1:-1]
    a, b = (_binomial(n, rates) for n in (fewer.n, more.n))  # [n + 1, rates]
    return float(np.einsum("ir,ij,jr->r", a, extreme.astype(float), b).max())


def _fisher(n: int, m: int) -> np.ndarray:
    """Returns one-sided p-values of Fisher's test by counts [n + 1, m + 1]: of as many or more in the second,
    given the total."""
    out = np.empty((n + 1, m + 1))
    for total in range(n + m + 1):
        of: dict[int, float] = {
            j: math.comb(n, total - j) * math.comb(m, j) / math.comb(n + m, total)
            for j in range(max(0, total - n), min(m, total) + 1)
        }
        for j in of:
            out[total - j, j] = sum(v for k, v in of.items() if k >= j)
    return out


def _binomial(n: int, rates: np.ndarray) -> np.ndarray:
    k = np.arange(n + 1)[:, None]
    ways = np.array([math.comb(n, int(i)) for i in range(n + 1)], np.float64)[:, None]
    out: Any = ways * rates**k * (1 - rates) ** (n - k)
    return np.asarray(out, np.float64)
