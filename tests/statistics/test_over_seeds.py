"""Figures over training seeds: the typical seed's interval is exact whatever the distribution, collapses are
counted, several claims share one error."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from surefoot.contract import SurefootError
from surefoot.statistics import (
    collapses,
    decision_alpha,
    findable,
    holm,
    median_interval,
    more_frequent,
    over_seeds,
    seeds_needed,
    shown_above,
    shown_below,
)


def test_five_seeds_do_not_attain_95_percent_and_say_so() -> None:
    assert median_interval([3.0, 1.0, 2.0, 5.0, 4.0]) == (1.0, 5.0, 0.9375)
    assert median_interval(range(6))[2] == 1 - 2 / 64
    assert median_interval(range(9)) == (1.0, 7.0, 1 - 2 * 10 / 512)
    found = over_seeds([0.9, None, math.nan, 0.5, 0.7])
    assert found is not None
    assert (found.value, found.low, found.high, found.n) == (0.7, 0.5, 0.9, 3)
    assert found.confidence == 0.75
    assert found.mean == pytest.approx(0.7)
    one = over_seeds([0.9])
    assert one is not None
    assert (one.low, one.high, one.confidence) == (None, None, 0.0), "one seed bounds nothing"
    assert over_seeds([None]) is None
    with pytest.raises(SurefootError):
        median_interval([])


@pytest.mark.parametrize("seeds", [5, 8, 12])
def test_the_interval_of_the_median_holds_as_often_as_it_says_for_any_distribution(seeds: int) -> None:
    rng = np.random.default_rng(1)
    collapsing = rng.normal(0.95, 0.01, (4000, seeds)) - 0.6 * (rng.random((4000, seeds)) < 0.2)
    grid = np.sort(rng.normal(0.95, 0.01, 400_000) - 0.6 * (rng.random(400_000) < 0.2))
    truth = float(np.median(grid))
    held = [low <= truth <= high for low, high, _ in map(median_interval, collapsing)]
    attained = median_interval(collapsing[0])[2]
    assert np.mean(held) == pytest.approx(
        attained, abs=4 * math.sqrt(attained * (1 - attained) / 4000) + 1e-3
    )


def test_a_claim_is_shown_when_the_interval_says_so() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        d = rng.normal(0.3, 1.0, 9).round(1).tolist()
        low, high, _ = median_interval(d)
        assert (shown_above(d, 0.0) <= 0.05) == (low > 0)
        assert (shown_below(d, 0.5) <= 0.05) == (high < 0.5)
    assert shown_above([1.0] * 8, 0.0) == 2 / 2**8
    assert shown_above([0.0] * 8, 0.0) == 1.0, "at the limit is not beyond it"
    assert seeds_needed(0.05) == 6
    assert seeds_needed(0.05 / 6) == 8


def test_what_could_be_found_is_found_in_80_percent() -> None:
    rng = np.random.default_rng(3)
    assert findable([1.0, 2.0, 3.0, 4.0, 5.0], 0.05) == math.inf
    spread = rng.normal(0, 1, 2000)
    for seeds, alpha in ((8, 0.05 / 4), (10, 0.05), (20, 0.05)):
        reach = findable((spread / spread.std(ddof=1))[:seeds], alpha)  # of a sample; its own spread is known
        reach /= np.std((spread / spread.std(ddof=1))[:seeds], ddof=1)
        found = [shown_above(rng.normal(reach, 1, seeds), 0.0) <= alpha for _ in range(2000)]
        assert np.mean(found) == pytest.approx(0.8, abs=0.04)


def test_collapses_are_compared_by_an_exact_test() -> None:
    good, bad = collapses([0.9] * 8), collapses([0.9, 0.9, 0.9, 0.9, 0.9, 0.4, 0.1, 0.0])
    assert (good.count, bad.count, bad.lowest) == (0, 3, 0.0)
    assert good.high == pytest.approx(1 - 0.025 ** (1 / 8))
    assert more_frequent(bad, good) == 1.0
    for a, b, n in ((0, 3, 8), (1, 5, 8), (0, 1, 5), (3, 9, 10)):
        one, two = (collapses([1.0] * n).model_copy(update={"count": k}) for k in (a, b))
        want = stats.boschloo_exact([[a, b], [n - a, n - b]], alternative="less").pvalue
        assert more_frequent(one, two) == pytest.approx(want, abs=1e-4)


def test_holm_is_stepwise_and_keeps_the_order() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    rng = np.random.default_rng(4)
    wrong = [min(holm(rng.random(6).tolist())) <= 0.05 for _ in range(4000)]
    assert np.mean(wrong) < 0.062


def test_all_decisions_together_spend_5_percent() -> None:
    assert decision_alpha(1) == pytest.approx(0.05 * 6 / math.pi**2)
    assert sum(map(decision_alpha, range(1, 200_000))) == pytest.approx(0.05, abs=1e-6)
    assert all(decision_alpha(k) > decision_alpha(k + 1) for k in range(1, 50))
    with pytest.raises(SurefootError):
        decision_alpha(0)
