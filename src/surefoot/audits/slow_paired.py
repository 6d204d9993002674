"""Differences between two policies once more, and what is decided by them: written from
docs/reference/statistics.md with nothing of `surefoot.statistics`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.audits import slow_statistics as slow

ENOUGH = 12
"""Families that differ from which on a difference of rates is one of means."""
EXACT, FLIPS, SEED = 13, 9999, 7
"""Families that differ up to which all signs are counted; random ones beyond that, from a seed of our own."""
TOGETHER = 0.05
"""Chance that anything at all goes wrong: over all looks of a confirmation, and over all decisions."""


@dataclass(frozen=True)
class Paired:
    """B less A."""

    value: float
    low: float
    high: float
    p: float
    detectable: float
    n_eff: float
    slack: float
    """By how much its ends may be off, as of means."""
    luck: float
    """By how much p may be off where signs are drawn."""


def paired(a: np.ndarray, b: np.ndarray, family: Sequence[Hashable], span: tuple[float, float]) -> Paired:
    """Returns the mean difference over scenarios with its interval at 95%."""
    gap = np.asarray(b, np.float64) - np.asarray(a, np.float64)
    parts = slow.by_family(gap, family)
    few = sum(bool((p != 0).any()) for p in parts) < ENOUGH
    n_eff = slow.independent(parts, slow.correlation(parts))
    value, loose = float(gap.sum()) / len(gap), 0.0
    if span != (0, 1):
        width = span[1] - span[0]
        found = slow.mean(gap, family, (-width, width))
        low, high, n_eff, loose = found.low, found.high, found.n_eff, found.slack
    elif few and set(np.unique(np.concatenate([a, b])).tolist()) <= {0.0, 1.0}:
        low, high, n_eff = _rates(gap, family)
    else:
        low, high = slow.seen(parts, 0.95)
        loose = slow.slack(parts, low, high)
        if few:
            missed = 1 - 0.05 ** (1 / slow.worth(parts))
            low = min(low, value - missed * (value + 1))
            high = max(high, value + missed * (1 - value))
    if span == (0, 1) and len(parts) > 1:
        low, high = max(low, -1.0), min(high, 1.0)
    detectable = math.inf
    if len(parts) > 1:
        degrees = slow.worth(parts) - 1
        t = slow.student(degrees, 0.95)
        detectable = (high - low) / 2 / t * (t + slow.student(degrees, 0.6))
    p, luck = sign_flips([float(x.sum()) for x in parts])
    return Paired(value, low, high, p, detectable, n_eff, loose, luck)


def _rates(gap: np.ndarray, family: Sequence[Hashable]) -> tuple[float, float, float]:
    """Returns wins less losses, the interval of either joined as for two shares of one whole."""
    win, loss = slow.rate(gap > 0, family), slow.rate(gap < 0, family)
    d, w, v = win.value - loss.value, win.value, loss.value
    left = max((1 - w) * (1 - v), 1e-12)
    phi = -min(1.0, math.sqrt(w * v / left))
    ends = []
    for x, y in ((w - win.low, loss.high - v), (win.high - w, v - loss.low)):
        ends.append(math.sqrt(max(0.0, x * x + y * y - 2 * phi * x * y)))
    return max(-1.0, d - ends[0]), min(1.0, d + ends[1]), min(win.n_eff, loss.n_eff)


def sign_flips(sums: Sequence[float]) -> tuple[float, float]:
    """Returns how often random signs of the families' sums give a total as large as theirs, and what chance
    adds to it where not all signs are counted: six standard errors of two such shares."""
    some = sorted(s for s in sums if s != 0)
    if not some:
        return 1.0, 0.0
    most = abs(math.fsum(some)) * (1 - 1e-9)
    if len(some) <= EXACT:
        totals = [math.fsum(s * x for s, x in zip(signs, some, strict=True)) for signs in _signs(len(some))]
        return sum(abs(x) >= most for x in totals) / len(totals), 0.0
    drawn = np.random.Generator(np.random.PCG64(SEED)).integers(0, 2, (FLIPS, len(some)))
    totals = [float(np.where(row == 1, -1.0, 1.0) @ np.array(some)) for row in drawn]
    p = (1 + sum(abs(x) >= most for x in totals)) / (1 + FLIPS)
    return p, 6 * math.sqrt(2 * max(p, 1e-3) / FLIPS)


def _signs(count: int) -> itertools.product[tuple[float, ...]]:
    return itertools.product((1.0, -1.0), repeat=count)


def adjusted(p: Sequence[float]) -> list[float]:
    """Returns Holm's p-values: of each the largest, over those that are no larger, of its own times how many
    are as large or larger."""
    order = sorted(range(len(p)), key=lambda i: (p[i], i))
    out = [0.0] * len(p)
    for place, i in enumerate(order):
        out[i] = max(min(1.0, (len(p) - k) * p[order[k]]) for k in range(place + 1))
    return out


def share_of_decision(number: int) -> float:
    """Returns the error of the k-th decision: all that are ever made have 5% together."""
    known = sum(1 / k**2 for k in range(1, 2001)) + 1 / 2000.5  # the rest of the series, to 1e-11
    return TOGETHER / (number**2 * known)


def look_ends(success: np.ndarray, looks: int) -> tuple[float, float]:
    """Returns the interval of one of so many looks at independent scenarios: each has its part of the 5%."""
    found = slow.rate(success, range(len(success)), 1 - TOGETHER / looks)
    return found.low, found.high


def median_ends(values: Sequence[float]) -> tuple[float, float]:
    """Returns the values of the sample between which flipping signs rejects no median at 5%: of its ends no
    more are left out than coins fall on one side so often."""
    x, n = sorted(values), len(values)
    cut = 0
    while 2 * (cut + 2) <= n and 2 * sum(math.comb(n, k) for k in range(cut + 2)) <= 0.05 * 2**n:
        cut += 1
    return x[cut], x[n - 1 - cut]
