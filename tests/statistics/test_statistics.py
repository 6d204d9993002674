"""Intervals cover what they promise, also when episodes come in families that are alike."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from surefoot.contract.errors import SurefootError
from surefoot.statistics import (
    clopper_pearson,
    design_effect,
    effective_n,
    icc,
    iqm_interval,
    mean_interval,
    rate,
    wilson,
)
from surefoot.statistics.clusters import split
from surefoot.statistics.means import interval_of

EQUAL = np.full(20, 8)
UNEQUAL = np.array([1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 10, 12, 16, 20])
outcomes = st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=1, max_size=60)


def families(sizes: np.ndarray) -> np.ndarray:
    return np.repeat(np.arange(len(sizes)), sizes)


def beta_binomial(
    rng: np.random.Generator, p: float, correlation: float, sizes: np.ndarray, draws: int
) -> np.ndarray:
    """True-or-false episodes [draws, n] whose families have their own rate, with the given ICC."""
    shape = (draws, len(sizes))
    if correlation == 0:
        own = np.full(shape, p)
    elif correlation == 1:
        own = (rng.random(shape) < p).astype(float)
    else:
        own = rng.beta(p * (1 / correlation - 1), (1 - p) * (1 / correlation - 1), shape)
    return rng.random((draws, int(sizes.sum()))) < np.repeat(own, sizes, axis=1)


# --- intraclass correlation


def test_icc_of_a_worked_example() -> None:
    # families (1, 3) and (4, 6, 8): MSB 19.2, MSW 10/3, m0 = 5 - 13/5 = 2.4, by hand
    value = icc([1, 3, 4, 6, 8], ["a", "a", "b", "b", "b"])
    assert value == pytest.approx((19.2 - 10 / 3) / (19.2 + 1.4 * 10 / 3))


@pytest.mark.parametrize("sizes", [EQUAL, UNEQUAL])
@pytest.mark.parametrize("true", [0.1, 0.5, 0.9])
def test_icc_recovers_what_was_simulated(sizes: np.ndarray, true: float) -> None:
    rng = np.random.default_rng(1)
    family = families(np.tile(sizes, 60))
    shared = rng.normal(size=family.max() + 1)[family]
    values = 5 + math.sqrt(true) * shared + math.sqrt(1 - true) * rng.normal(size=family.size)
    assert icc(values, family) == pytest.approx(true, abs=0.05)


def test_icc_is_defined_where_data_cannot_tell() -> None:
    assert (
        icc([0.1] * 6, [0, 0, 0, 1, 1, 1]) == 0
    )  # 0.1 * 6 is not 0.6 in floats; the variance must still be 0
    assert icc([1e9 + 0.1] * 6, [0, 0, 0, 1, 1, 1]) == 0
    assert icc([1, 2, 3], [0, 1, 2]) == 0
    assert icc([1, 2, 3], [7, 7, 7]) == 1
    assert icc([1], [0]) == 0
    assert icc([0, 0, 1, 1], [0, 0, 1, 1]) == 1
    assert icc([0, 1, 0, 1], [0, 0, 1, 1]) == 0  # the estimator is negative here


def test_large_offset_does_not_change_icc() -> None:
    rng = np.random.default_rng(2)
    family = families(EQUAL)
    values = rng.normal(size=160) + rng.normal(size=20)[family]
    assert icc(values + 1e9, family) == pytest.approx(icc(values, family), abs=1e-5)


@settings(max_examples=100, deadline=None)
@given(outcomes)
def test_effective_n_lies_between_alike_families_and_n(rows: list[tuple[bool, int]]) -> None:
    values, family = map(np.array, zip(*rows, strict=True))
    sizes = np.unique(family, return_counts=True)[1]
    floor = values.size**2 / float(sizes @ sizes)
    n_eff = effective_n(values, family)
    assert floor - 1e-9 <= n_eff <= values.size
    assert floor <= len(sizes) + 1e-9
    assert design_effect(values, family) == pytest.approx(values.size / n_eff)


def test_alike_families_are_worth_their_number() -> None:
    family = families(EQUAL)
    assert effective_n(family % 2, family) == pytest.approx(20)
    family = families(UNEQUAL)
    assert effective_n(family % 2, family) < 14


# --- intervals from counts


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (10, 10), (3, 10), (999, 1000), (1, 1)])
def test_intervals_agree_with_the_binomial_ones(hits: int, n: int) -> None:
    test = stats.binomtest(hits, n)
    assert clopper_pearson(hits / n, n) == pytest.approx(tuple(test.proportion_ci(0.95, "exact")), abs=1e-12)
    assert wilson(hits / n, n) == pytest.approx(tuple(test.proportion_ci(0.95, "wilson")), abs=1e-12)


@settings(max_examples=200, deadline=None)
@given(st.floats(0, 1), st.floats(0.5, 1e5), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_intervals_hold_their_rate_for_any_fractional_n(p: float, n: float, confidence: float) -> None:
    for interval in (clopper_pearson, wilson):
        low, high = interval(p, n, confidence)
        assert 0 <= low <= p + 1e-12
        assert p - 1e-12 <= high <= 1
        assert high - low > 0


def test_fractional_n_lies_between_its_neighbours() -> None:
    widths = [np.diff(clopper_pearson(0.3, n))[0] for n in (10, 10.5, 11)]
    assert widths[0] > widths[1] > widths[2]


# --- rate


@settings(max_examples=100, deadline=None)
@given(outcomes)
def test_rate_is_the_plain_share_inside_its_interval(rows: list[tuple[bool, int]]) -> None:
    values, family = map(np.array, zip(*rows, strict=True))
    result = rate(values, family)
    assert result.value == values.mean()
    assert 0 <= result.low <= result.value <= result.high <= 1
    assert result.low < result.high
    assert 1 - 1e-9 <= result.n_eff <= result.n == values.size
    mirrored = rate(~values, family)
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - result.high, 1 - result.low), abs=1e-9)


def test_order_and_labels_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    family = families(UNEQUAL)
    values = rng.random(family.size) < 0.7
    order = rng.permutation(family.size)
    named = np.array([f"family {99 - f}" for f in family])
    assert rate(values, family) == rate(values[order], named[order])


def test_no_failure_and_no_success_still_have_an_interval() -> None:
    family = families(EQUAL)
    all_good, all_bad = rate(np.ones(160, bool), family), rate(np.zeros(160, bool), family)
    assert all_good.high == 1
    assert clopper_pearson(1, 20)[0] <= all_good.low < clopper_pearson(1, 160)[0]
    assert (all_bad.low, all_bad.high) == (0, pytest.approx(1 - all_good.low))
    single = rate([True], [0])
    assert (single.low, single.high) == pytest.approx((0.025, 1))


@pytest.mark.parametrize(("count", "size"), [(10, 100), (20, 50), (16, 16), (32, 8), (64, 4), (50, 1)])
def test_more_failures_never_look_better(count: int, size: int) -> None:
    """Spread evenly, failures show that families are alike; that must not earn a better bound."""
    family = families(np.full(count, size))
    last = 1.0
    for failures in range(0, 40):
        values = np.ones(count * size, bool)
        values[[(i % count) * size + i // count for i in range(failures)]] = False
        low = rate(values, family).low
        assert low <= last + 1e-12
        assert rate(~values, family).high == pytest.approx(1 - low, abs=1e-9)
        last = low


def test_independent_episodes_are_nearly_worth_their_number() -> None:
    rng = np.random.default_rng(4)
    family = families(np.full(200, 4))
    assert rate(rng.random(800) < 0.5, family).n_eff > 700


@pytest.mark.parametrize("sizes", [EQUAL, UNEQUAL, np.full(6, 30), np.full(60, 4), np.array([60] + [2] * 15)])
def test_rate_covers_the_truth(sizes: np.ndarray) -> None:
    rng = np.random.default_rng(5)
    family = families(sizes)
    for p in (0.02, 0.1, 0.5, 0.95):
        for correlation in (0.0, 0.2, 0.6, 1.0):
            runs = beta_binomial(rng, p, correlation, sizes, 1000)
            # An interval depends on the total and the squares between only: compute each case once.
            hits = np.add.reduceat(runs.astype(float), np.cumsum(sizes) - sizes, axis=1)  # [draws, K]
            case = np.stack((hits.sum(1), np.round((hits**2 / sizes).sum(1), 6)), axis=1)
            _, first, times = np.unique(case, axis=0, return_index=True, return_counts=True)
            inside = [(r := rate(runs[i], family)).low <= p <= r.high for i in first]
            covered = float(np.average(inside, weights=times))
            assert covered >= 0.93, (p, correlation, covered)


def test_ignoring_families_would_not_cover() -> None:
    rng = np.random.default_rng(6)
    runs = beta_binomial(rng, 0.5, 0.6, EQUAL, 300)
    bounds = np.array([clopper_pearson(float(values.mean()), values.size) for values in runs])
    assert np.mean((bounds[:, 0] <= 0.5) & (bounds[:, 1] >= 0.5)) < 0.7


# --- mean


def test_mean_of_equal_families_is_the_textbook_interval_made_wider_for_skewness() -> None:
    rng = np.random.default_rng(7)
    family = families(EQUAL)
    values = rng.normal(size=160) + rng.normal(size=20)[family]
    means = values.reshape(20, 8).mean(axis=1)
    low, high = stats.t.interval(0.9, 19, means.mean(), stats.sem(means))
    got = interval_of(split(values, family), 0.9)
    t, g = stats.t.ppf(0.95, 19), stats.skew(means)
    unit = stats.sem(means) * (2 * t**2 + 1) / (6 * math.sqrt(20))
    unsure = math.sqrt(6 * 20 * 19 / (18 * 21 * 23))
    assert abs(g) < unsure, "so that both sides are wider"
    assert got == pytest.approx((low - unit * (unsure - g), high + unit * (unsure + g)))
    assert mean_interval(values, family, (-9, 9)).n_eff == pytest.approx(effective_n(values, family))


def test_mean_is_over_episodes_not_over_families() -> None:
    assert mean_interval([0, 0, 0, 4], [0, 0, 0, 1], (0, 4)).value == 1


@pytest.mark.parametrize("sizes", [EQUAL, UNEQUAL, np.full(5, 30), np.array([100] + [2] * 10)])
def test_mean_covers_the_truth(sizes: np.ndarray) -> None:
    rng = np.random.default_rng(8)
    family = families(sizes)
    for correlation in (0.0, 0.3, 0.9):
        shared = rng.normal(size=(1000, len(sizes)))[:, family]
        values = math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * rng.normal(size=shared.shape)
        runs = [interval_of(split(row, family), 0.95) for row in values]
        covered = np.mean([low <= 0 <= high for low, high in runs])
        assert covered >= 0.93, (correlation, covered)


def test_one_family_bounds_nothing_and_constants_have_no_width() -> None:
    alone = mean_interval([1.0, 2.0, 3.0], [5, 5, 5], (0, 4))
    assert (alone.value, alone.low, alone.high, alone.n_eff) == (2, -math.inf, math.inf, 1)
    constant = mean_interval([0.1] * 64, np.arange(64) // 2, (0, 1))
    assert constant.low == constant.value == constant.high == 0.1
    unknown = mean_interval([0.1] * 64, np.arange(64) // 2, (-math.inf, math.inf))
    assert (unknown.value, unknown.low, unknown.high, unknown.few) == (0.1, -math.inf, math.inf, True)


# --- bad input


@pytest.mark.parametrize(
    ("values", "family", "complaint"),
    [
        ([], [], "no episodes"),
        ([1.0, 0.0], [0], "same length"),
        ([[1.0]], [[0]], "same length"),
        ([1.0, math.nan, math.inf], [0, 1, 2], "2 of 3 values are not finite"),
    ],
)
def test_unusable_values_are_refused(values: list[float], family: list[int], complaint: str) -> None:
    for statistic in (icc, design_effect, effective_n, iqm_interval):
        with pytest.raises(SurefootError, match=complaint):
            statistic(values, family)
    with pytest.raises(SurefootError, match=complaint):
        mean_interval(values, family, (0, 1))


def test_impossible_requests_are_refused() -> None:
    with pytest.raises(SurefootError, match="true or false"):
        rate([0.5, 1.0], [0, 1])
    with pytest.raises(SurefootError, match="no episodes"):
        rate([], [])
    for interval in (clopper_pearson, wilson):
        for arguments in ((1.2, 10.0, 0.95), (0.5, 0.0, 0.95), (0.5, math.inf, 0.95), (0.5, 10.0, 1.0)):
            with pytest.raises(SurefootError):
                interval(*arguments)
    for statistic in (rate, iqm_interval):
        with pytest.raises(SurefootError, match="confidence"):
            statistic([1, 0], [0, 1], 95)
    with pytest.raises(SurefootError, match="confidence"):
        mean_interval([1, 0], [0, 1], (0, 1), 95)
