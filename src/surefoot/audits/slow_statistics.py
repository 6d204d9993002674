"""Statistics once more, written from docs/reference/statistics.md: plain loops over families, and scipy only
for the quantiles of beta and t. Nothing of `surefoot.statistics` is used."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

Families = list[np.ndarray]
"""Values by family."""
FEW, MANY, SMALL = 28, 32, 8
"""Families (by worth) below which a mean allows for what was not seen, from which on it is bootstrapped, and
below which an interquartile mean loses degrees of freedom."""


@dataclass(frozen=True)
class Figure:
    """A figure with its interval; infinite ends where nothing bounds it."""

    value: float
    low: float
    high: float
    n: int
    n_eff: float
    families: int
    few: bool = False
    slack: float = 0.0
    """By how much its ends may be off, where rounding decides in which order families are resampled."""


def by_family(x: np.ndarray, family: Iterable[Hashable]) -> Families:
    """Returns values by family, in the order in which families first appear."""
    parts: dict[Hashable, list[float]] = {}
    for value, name in zip(np.asarray(x, np.float64).tolist(), family, strict=True):
        parts.setdefault(name, []).append(value)
    return [np.array(p) for p in parts.values()]


def correlation(parts: Families) -> float:
    """Returns the intraclass correlation by mean squares (Donner 1986)."""
    n, k = sum(len(p) for p in parts), len(parts)
    if k == 1:
        return float(n > 1)
    if n == k:
        return 0.0
    grand = sum(float(p.sum()) for p in parts) / n
    between = sum(len(p) * (float(p.mean()) - grand) ** 2 for p in parts) / (k - 1)
    within = sum(float(((p - p.mean()) ** 2).sum()) for p in parts) / (n - k)
    size = (n - sum(len(p) ** 2 for p in parts) / n) / (k - 1)
    spread = between + (size - 1) * within
    return 0.0 if spread <= 1e-15 else min(max((between - within) / spread, 0.0), 1.0)


def worth(parts: Families) -> float:
    """Returns how many equal families these are worth."""
    return float(sum(len(p) for p in parts) ** 2 / sum(len(p) ** 2 for p in parts))


def independent(parts: Families, alike: float) -> float:
    """Returns how many independent episodes these are worth (Kish 1965)."""
    n = sum(len(p) for p in parts)
    return n / (1 + (sum(len(p) ** 2 for p in parts) / n - 1) * alike)


def student(degrees: float, confidence: float) -> float:
    return float(special.stdtrit(degrees, 0.5 + confidence / 2))


def exact(share: float, n: float, confidence: float) -> tuple[float, float]:
    """Returns the ends of Clopper and Pearson's interval."""
    tail, hits, misses = (1 - confidence) / 2, share * n, (1 - share) * n
    low = 0.0 if hits <= 0 else float(special.betaincinv(hits, misses + 1, tail))
    high = 1.0 if misses <= 0 else float(special.betaincinv(hits + 1, misses, 1 - tail))
    return low, high


def rate(x: np.ndarray, family: Iterable[Hashable], confidence: float = 0.95) -> Figure:
    """Returns a share with its interval on a cautious number of effective episodes."""
    parts = by_family(x, family)
    n, k = sum(len(p) for p in parts), len(parts)
    hits = int(sum(float(p.sum()) for p in parts) + 0.5)

    def effective(alike: float, events: int) -> float:
        alike += (1 - alike) * 3 / (events + 4)
        found = independent(parts, alike)
        if k > 1:
            found *= (student(n - 1, confidence) / student(worth(parts) - 1, confidence)) ** 2
        return float(min(max(found, worth(parts)), n))

    mine = effective(correlation(parts), min(hits, n - hits))
    best = effective(0.0, 0)
    low, high = exact(hits / n, mine, confidence)
    low = min(low, exact(1.0, best, confidence)[0])
    high = max(high, exact(0.0, best, confidence)[1])
    return Figure(hits / n, low, high, n, mine, k)


def error_of(parts: Families) -> float:
    """Returns the standard error of the mean over episodes, by family means."""
    n = sum(len(p) for p in parts)
    mean = sum(float(p.sum()) for p in parts) / n
    terms = ((len(p) / n * (float(p.mean()) - mean)) ** 2 / (1 - len(p) / n) for p in parts)
    return math.sqrt(sum(terms))


def seen(parts: Families, confidence: float) -> tuple[float, float]:
    """Returns the interval of a mean as far as what was seen tells: t with room for skewness, and from 32
    families on the bootstrap."""
    n, k, kk = sum(len(p) for p in parts), len(parts), worth(parts)
    mean = sum(float(p.sum()) for p in parts) / n
    if k == 1:
        return -math.inf, math.inf
    error = error_of(parts)
    if error <= 1e-12 * (1 + abs(mean)):
        return mean, mean
    t = student(kk - 1, confidence)
    second = sum(len(p) * (float(p.mean()) - mean) ** 2 for p in parts) / n
    third = sum(len(p) * (float(p.mean()) - mean) ** 3 for p in parts) / n
    g, m = third / second**1.5, max(kk, 3.0)
    unsure = math.sqrt(6 * m * (m - 1) / (m - 2) / (m + 1) / (m + 3))
    step = (2 * t * t + 1) / 6 / math.sqrt(kk)
    low = mean - error * (t + step * max(0.0, unsure - g))
    high = mean + error * (t + step * max(0.0, unsure + g))
    if kk >= MANY - 1e-9:
        again = bootstrap(parts, mean, confidence)
        low, high = min(low, again[0]), max(high, again[1])
    return low, high


def tied(parts: Families) -> bool:
    """Says whether families of different sizes have the same mean but for rounding."""
    ranked = sorted((float(p.mean()), len(p)) for p in parts)
    near = 1e-9 * max(1e-300, abs(ranked[0][0]), abs(ranked[-1][0]))
    pairs = itertools.pairwise(ranked)
    return any(b[0] - a[0] <= near and len({n for _, n in ranked}) > 1 for a, b in pairs)


def slack(parts: Families, low: float, high: float) -> float:
    """Returns what the order of families may move the ends of an interval by: a tenth of its width covers
    1000 replicates in any order."""
    return 0.1 * (high - low) if worth(parts) >= MANY - 1e-9 and tied(parts) else 0.0


def bootstrap(parts: Families, mean: float, confidence: float) -> tuple[float, float]:
    """Returns the ends of the studentised bootstrap over families: 1000 draws of K by the fixed seed."""
    parts = sorted(parts, key=lambda p: (float(p.mean()), len(p)))
    sums = np.array([float((p - mean).sum()) for p in parts])
    sizes, k = np.array([len(p) for p in parts]), len(parts)
    numbers = np.random.Generator(np.random.PCG64(20_260_101))
    times = numbers.multinomial(k, np.full(k, 1 / k), size=1000)  # how often each is drawn
    n = times @ sizes
    away = times @ sums / n
    left = (sums[None] - away[:, None] * sizes) ** 2  # of each family, about the draw's own mean
    spread = np.sqrt(k / (k - 1) * (times * left).sum(1)) / n
    told = spread > 1e-6 * np.abs(sums).max() / n
    ratios = away[told] / spread[told]
    if not len(ratios):
        return mean, mean
    error = math.sqrt(k / (k - 1) * float((sums**2).sum())) / float(sizes.sum())
    tail = (1 - confidence) / 2
    low, high = np.quantile(ratios, (tail, 1 - tail))
    return mean - float(high) * error, mean - float(low) * error


def mean(
    x: np.ndarray, family: Iterable[Hashable], ends: tuple[float, float], confidence: float = 0.95
) -> Figure:
    """Returns a mean over episodes with its interval; `ends` are the least and most a value can be."""
    parts = by_family(x, family)
    n, k, kk = len(x), len(parts), worth(parts)
    value = float(np.sum(np.asarray(x, np.float64))) / n
    low, high = seen(parts, confidence)
    few = kk < FEW - 1e-9 or (low == high and math.isinf(ends[1] - ends[0]))
    if few:
        missed = 1 - (1 - confidence) ** (1 / kk)
        low = min(low, value - missed * (value - min(ends[0], float(np.min(x)))))
        high = max(high, value + missed * (max(ends[1], float(np.max(x))) - value))
    n_eff = independent(parts, correlation(parts))
    return Figure(value, low, high, n, n_eff, k, few, slack(parts, low, high))


def middle(x: np.ndarray, family: Iterable[Hashable], confidence: float = 0.95) -> Figure:
    """Returns the interquartile mean with its interval."""
    x, family = np.asarray(x, np.float64), list(family)
    ranked, n, cut = np.sort(x), len(x), len(x) // 4
    kept = ranked[cut : n - cut]
    value = float(kept.mean())
    held = np.clip(x, kept[0], kept[-1])
    parts = by_family(value + (held - held.mean()) * n / len(kept), family)
    kk, n_eff = worth(parts), independent(parts, correlation(parts))
    whole = Figure(value, -math.inf, math.inf, n, n_eff, len(parts))
    if kk < 1 - math.log2(1 - confidence) - 1e-9:
        return replace(whole, few=True)
    if kk >= MANY - 1e-9:
        low, high = seen(parts, confidence)
    else:
        reach = error_of(parts) * student(kk - 1 if kk >= SMALL - 1e-9 else kk / 2 - 1, confidence)
        low, high = value - reach, value + reach
    ranks = [(float((x < v).sum()) + float((x <= v).sum())) / 2 / n for v in x]
    spread = error_of(by_family(2 * np.clip(ranks, 0.25, 0.75), family))
    shift = student(kk - 1, confidence) * spread
    low = min(low, _moved(ranked, -shift), value)
    high = max(high, _moved(ranked, shift), value)
    return replace(whole, low=low, high=high, slack=slack(parts, low, high))


def _moved(ranked: np.ndarray, by: float) -> float:
    """Returns the mean of the quantile function from 1/4 + by to 3/4 + by, step by step."""
    area, n = 0.0, len(ranked)
    for i, v in enumerate(ranked.tolist()):
        begin = -math.inf if i == 0 else i / n
        end = math.inf if i == n - 1 else (i + 1) / n
        area += v * max(0.0, min(end, 0.75 + by) - max(begin, 0.25 + by))
    return 2 * area


def widest(statistic: Callable[[Sequence[Hashable]], Figure], shared: Sequence[Sequence[Hashable]]) -> Figure:
    """Returns the figure whose interval holds by whichever of `shared` the rows are clustered."""
    found = [statistic(by) for by in shared]
    return replace(
        found[0],
        low=min(f.low for f in found),
        high=max(f.high for f in found),
        n_eff=min(f.n_eff for f in found),
        few=any(f.few for f in found),
        slack=max(f.slack for f in found),
    )


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float | None:
    """Returns Spearman's correlation of what both have; None below three or without variation."""
    both = np.isfinite(a) & np.isfinite(b)
    a, b = a[both], b[both]
    if len(a) < 3 or (a == a[0]).all() or (b == b[0]).all():
        return None
    x, y = ([float((v < w).sum()) + (float((v == w).sum()) - 1) / 2 for w in v] for v in (a, b))
    return float(np.corrcoef(x, y)[0, 1])


def word(success: float, low: float, safe: bool | None, beaten: bool | None) -> str:
    """Returns the verdict by the rule of the policy card."""
    if success < 0.5 or safe is False or beaten is False:
        return "Failing"
    return "Reliable" if low >= 0.9 else "Partly working"
