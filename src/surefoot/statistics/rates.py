"""Rates: Clopper-Pearson intervals at the effective number of episodes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from surefoot.contract import SurefootError
from surefoot.statistics.clusters import Families, icc_of, split

# Pull of the ICC towards 1 in `rate`, in units of events. 2 and 3 kept simulated coverage of the nominal
# 95% at 93% or above in 2304 beta-binomial designs (2 to 100 families of 1 to 30, equal and unequal, rates
# 0.01 to 0.5, ICC 0 to 1, 2000 draws each) and in 1000 others (4 to 200 families of 2 to 100, rates from
# 0.005), lowest 93.3%; 1 did not. 3 has the margin in designs like a panel: 98.8% against 94.0% for 60
# families of 4, rate 0.05, ICC 1. Without the pull 429 of the 3304 designs were below 93%, the lowest at
# 10%.
_CAUTION_EVENTS = 3.0


@dataclass(frozen=True)
class Rate:
    """A proportion of episodes with its interval."""

    value: float
    low: float
    high: float
    n: int
    n_eff: float
    """The independent episodes the interval is worth; see `rate` for why it can be below `effective_n`."""


def clopper_pearson(successes_rate: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """Returns the interval for a rate observed on `n` independent trials; `n` may be a fraction.

    For whole numbers it is the exact binomial interval; otherwise its continuation through the beta
    distribution.
    """
    from scipy.special import betaincinv  # a third of a second of import time, once training is under way

    _check_rate(successes_rate, n, confidence)
    tail = (1 - confidence) / 2
    hits = successes_rate * n
    misses = (1 - successes_rate) * n  # not n - hits: at a rate of 1 rounding must not leave a miss
    low = float(betaincinv(hits, misses + 1, tail)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1, misses, 1 - tail)) if misses > 0 else 1.0
    # betaincinv is good to some 1e-12, which for tiny rates would put the bound on the wrong side
    return min(low, successes_rate), max(high, successes_rate)


def wilson(successes_rate: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """Returns Wilson's score interval: shorter than Clopper-Pearson, right on average rather than at
    least."""
    from scipy.special import ndtri

    _check_rate(successes_rate, n, confidence)
    z2 = float(ndtri((1 + confidence) / 2)) ** 2
    centre = (successes_rate + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (successes_rate * (1 - successes_rate) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    # exact at the ends, where rounding would leave 1e-17 or 1 - 1e-16
    low = 0.0 if successes_rate == 0 else max(0.0, centre - half)
    high = 1.0 if successes_rate == 1 else min(1.0, centre + half)
    return low, high


def rate(values: ArrayLike, family: ArrayLike, confidence: float = 0.95) -> Rate:
    """Returns the share of true episodes, with a Clopper-Pearson interval on a cautious effective n.

    The plain effective n is too hopeful in two ways, and both are corrected here. Few families make the ICC
    itself uncertain: factor (t_{n-1} / t_{K'-1})^2 of Korn and Graubard (1998), K' = n^2 / sum(n_i^2). Few
    events (successes or failures, whichever is rarer) say next to nothing about whether they come together:
    the ICC moves towards 1 by 3 / (events + 4). With no event at all the interval is near that of K episodes
    rather than n; twenty families of fifty without a failure are no proof of a failure rate below 1 in 100.

    A few evenly spread failures do show that families are alike, and would then earn a better bound than no
    failure; a gate must not reward that. So no result claims more than a flawless one would (and none less
    than a hopeless one), which widens intervals near 0 and 1 when families are large. Many small families
    cost least: 32 of 8 without a failure give 0.908 as the lower bound, 16 of 16 give 0.813.
    """
    check_confidence(confidence)
    array = np.asarray(values)
    if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
        raise SurefootError(
            "A rate needs true or false (or 0 and 1) per episode; use a mean for other values."
        )
    families = split(array, family)
    n = families.n
    hits = round(families.mean * n)
    n_eff = _cautious_n(families, icc_of(families), min(hits, n - hits), confidence)
    flawless = _cautious_n(families, 0.0, 0, confidence)
    low, high = clopper_pearson(hits / n, n_eff, confidence)
    low = min(low, clopper_pearson(1.0, flawless, confidence)[0])
    high = max(high, clopper_pearson(0.0, flawless, confidence)[1])
    return Rate(hits / n, low, high, n, n_eff)


def _cautious_n(families: Families, correlation: float, events: int, confidence: float) -> float:
    """Returns the effective n of `rate`: from what families of wholly alike episodes are worth, up to n."""
    caution = _CAUTION_EVENTS / (events + 1 + _CAUTION_EVENTS)
    n_eff = families.n / (1 + (families.size - 1) * (correlation + (1 - correlation) * caution))
    if families.count > 1:
        n_eff *= (t_quantile(families.n - 1, confidence) / t_quantile(families.worth - 1, confidence)) ** 2
    return min(max(n_eff, families.worth), float(families.n))


def t_quantile(degrees: float, confidence: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + confidence) / 2))


def _check_rate(successes_rate: float, n: float, confidence: float) -> None:
    if not 0 <= successes_rate <= 1:
        raise SurefootError(f"A rate lies between 0 and 1, not at {successes_rate}; divide successes by n.")
    if not (n > 0 and math.isfinite(n)):
        raise SurefootError(f"An interval needs a positive number of trials, not {n}.")
    check_confidence(confidence)


def check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise SurefootError(f"A confidence lies between 0 and 1, not at {confidence}; 0.95 is the usual one.")
