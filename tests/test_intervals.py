"""Simulated coverage of the intervals that are not exact, and the paired comparison on known cases."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from surefoot.contract import SurefootError
from surefoot.evidence.statistics import (
    Mean,
    clopper_pearson,
    iqm,
    iqm_interval,
    mean_interval,
    paired,
    rate,
    sign_flip,
)

GRID = np.arange(0.5, 20000) / 20000
QUANTILES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "normal": stats.norm.ppf,
    "heavy": lambda u: stats.t.ppf(u, 4),
    "skewed": lambda u: np.exp(0.5 * stats.norm.ppf(u)),
    "falls": lambda u: np.where(u < 0.1, 2 + 50 * u, 15 + 5 * u),  # one return in ten is that of a fall
}
LAYOUTS = {
    "8 x 8": np.full(8, 8),
    "14 unequal": np.array([1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 10, 12, 16, 20]),
    "20 x 8": np.full(20, 8),
    "24 x 8": np.full(24, 8),
    "32 x 8": np.full(32, 8),
    "60 unequal": np.tile([1, 2, 4, 8, 12], 12),
}
CORRELATIONS = (0.0, 0.3, 0.9)
DRAWS = 500


def coverage(
    interval: Callable[..., Mean], sizes: np.ndarray, kind: str, correlation: float, draws: int = DRAWS
) -> float:
    """Share of simulated data sets whose interval holds the truth; families alike by `correlation`."""
    rng = np.random.default_rng(11)
    family = np.repeat(np.arange(len(sizes)), sizes)
    shared = rng.normal(size=(draws, len(sizes)))[:, family]
    z = math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * rng.normal(size=shared.shape)
    quantile = QUANTILES[kind]
    grid = quantile(GRID)
    truth = grid.mean() if interval is mean_interval else grid[5000:15000].mean()
    runs = (interval(row, family) for row in quantile(stats.norm.cdf(z)))
    return float(np.mean([r.low <= truth <= r.high for r in runs]))


@pytest.fixture(scope="module")
def covered() -> dict[tuple[str, str, str, float], float]:
    """Simulated coverage of the nominal 95% by (statistic, layout, values, correlation)."""
    return {
        (name, layout, kind, correlation): coverage(interval, sizes, kind, correlation)
        for name, interval in (("mean", mean_interval), ("iqm", iqm_interval))
        for layout, sizes in LAYOUTS.items()
        for kind in QUANTILES
        for correlation in CORRELATIONS
    }


def hopeless(statistic: str, layout: str, kind: str, correlation: float) -> bool:
    """Whole families fall, one in ten: fewer than 24 too often saw none. Such intervals are labelled."""
    rare = statistic == "mean" and kind == "falls" and correlation == 0.9
    return rare and layout in ("8 x 8", "14 unequal", "20 x 8")


def test_intervals_cover_at_least_93_percent_everywhere(
    covered: dict[tuple[str, str, str, float], float],
) -> None:
    noise = 2 * math.sqrt(0.93 * 0.07 / DRAWS)  # two standard errors of a simulated 93%
    assert {k: c for k, c in covered.items() if c < 0.93 - noise and not hopeless(*k)} == {}
    assert np.quantile([c for k, c in covered.items() if not hopeless(*k)], 0.1) >= 0.93


def test_intervals_cover_on_average_at_most_97_percent(
    covered: dict[tuple[str, str, str, float], float],
) -> None:
    for statistic in ("mean", "iqm"):
        average = np.mean([c for k, c in covered.items() if k[0] == statistic])
        assert 0.94 <= average <= 0.97, (statistic, average)


def test_where_coverage_cannot_be_had_the_interval_is_labelled(
    covered: dict[tuple[str, str, str, float], float],
) -> None:
    for layout, sizes in LAYOUTS.items():
        family = np.repeat(np.arange(len(sizes)), sizes)
        few = mean_interval(np.arange(family.size, dtype=float), family).few
        assert few == hopeless("mean", layout, "falls", 0.9), layout
    assert covered["mean", "8 x 8", "falls", 0.9] < 0.9, "or the label would be for nothing"


def test_t_alone_would_not_cover_skewed_family_means() -> None:
    """What the skewness term is for."""
    rng = np.random.default_rng(12)
    means = np.exp(0.7 * rng.normal(size=(4000, 12)))
    truth, t = math.exp(0.7**2 / 2), stats.t.ppf(0.975, 11)
    error = means.std(1, ddof=1) / math.sqrt(12)
    assert np.mean(np.abs(means.mean(1) - truth) <= t * error) < 0.92
    runs = [mean_interval(row, np.arange(12)) for row in means[:1000]]
    assert np.mean([r.low <= truth <= r.high for r in runs]) >= 0.93


# ---- which interval


def test_below_32_families_t_is_widened_on_the_side_of_the_tail() -> None:
    # by hand for the family means 0, 0, 0, 0, 10: mean 2, se 2, g = 96 / 16^1.5 = 1.5, K = 5
    got = mean_interval([0.0, 0.0, 0.0, 0.0, 10.0], np.arange(5))
    t = stats.t.ppf(0.975, 4)
    unit, unsure = (2 * t**2 + 1) / (6 * math.sqrt(5)), math.sqrt(6 * 5 * 4 / (3 * 6 * 8))
    assert got.low == pytest.approx(2 - 2 * t), "never narrower than t"
    assert got.high == pytest.approx(2 + 2 * (t + unit * (1.5 + unsure)))


def test_from_32_families_on_never_narrower_than_t() -> None:
    rng = np.random.default_rng(1)
    for count in (32, 100):
        family = np.repeat(np.arange(count), 4)
        values = np.exp(rng.normal(size=family.size))
        means = values.reshape(count, 4).mean(1)
        expected = stats.t.interval(0.95, count - 1, means.mean(), stats.sem(means))
        got = mean_interval(values, family)
        assert got.low <= expected[0] + 1e-12
        assert got.high > expected[1], "the long tail of a skewed mean is above"


def test_one_giant_family_does_not_count_as_many() -> None:
    """40 families by number, 1.3 by worth: the bootstrap must not be trusted there."""
    family = np.repeat(np.arange(40), np.array([500, *[1] * 39]))
    values = np.random.default_rng(2).normal(size=family.size)
    assert mean_interval(values, family).high - values.mean() > 0.5


def test_bootstrap_repeats_and_ignores_labels_and_order() -> None:
    rng = np.random.default_rng(3)
    family = np.repeat(np.arange(40), 5)
    values = rng.normal(size=200)
    order = rng.permutation(200)
    named = np.array([f"{97 - f}" for f in family])
    once, again = mean_interval(values, family), mean_interval(values[order], named[order])
    assert (again.low, again.high) == pytest.approx((once.low, once.high), rel=1e-9)


def test_no_event_gives_about_three_over_n_eff() -> None:
    for count, size in ((32, 8), (64, 4), (20, 1)):
        none = rate(np.zeros(count * size, bool), np.repeat(np.arange(count), size))
        assert none.low == 0
        # exactly -ln(0.025) = 3.7 for a two-sided 95%; 3 is its one-sided neighbour
        assert 2.9 / none.n_eff < none.high < 3.7 / none.n_eff
        assert none.high == pytest.approx(clopper_pearson(0.0, none.n_eff)[1])


# ---- interquartile mean


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40))
def test_iqm_is_scipys_trimmed_mean(values: list[float]) -> None:
    expected = float(stats.trim_mean(values, 0.25))
    assert iqm(values) == pytest.approx(expected, abs=1e-9)
    found = iqm_interval(values, np.arange(len(values)))
    assert found.value == pytest.approx(expected, abs=1e-9)
    assert found.low <= found.value <= found.high


def test_equal_returns_have_their_value_and_no_width() -> None:
    found = iqm_interval([683.0142662888445] * 3, [0, 1, 2])
    assert (found.low, found.value, found.high) == (683.0142662888445,) * 3


def test_one_wild_return_moves_the_mean_and_not_the_iqm() -> None:
    family = np.repeat(np.arange(10), 4)
    values = np.random.default_rng(4).normal(20, 1, 40)
    wild = values.copy()
    wild[3] = -1e6
    assert mean_interval(wild, family).value < -1e4
    assert iqm_interval(wild, family).value == pytest.approx(iqm_interval(values, family).value, abs=0.2)
    assert iqm_interval(wild, family).high - iqm_interval(wild, family).low < 2


# ---- paired


def test_common_random_numbers_find_what_two_separate_means_cannot() -> None:
    rng = np.random.default_rng(5)
    family = np.repeat(np.arange(16), 8)
    hard = rng.normal(size=128) + rng.normal(size=16)[family]
    a, b = hard + 0.1 * rng.normal(size=128), hard + 0.1 * rng.normal(size=128) - 0.1
    d = paired(a, b, family)
    assert d.high < 0
    assert d.p < 0.01
    separate = mean_interval(a, family)
    assert separate.low < d.b < separate.high
    assert d.value == pytest.approx(d.b - d.a)


def test_policies_that_never_differ_still_have_an_interval() -> None:
    family = np.repeat(np.arange(32), 8)
    good = np.ones(256, bool)
    d = paired(good, good, family, binary=True)
    assert (d.value, d.p) == (0, 1)
    assert d.low == -d.high
    assert 0.05 < d.high < 0.15
    assert d.detectable > d.high
    assert d.n_eff < 64


def test_a_difference_of_rates_stays_within_one() -> None:
    family = np.repeat(np.arange(20), 3)
    lost = np.zeros(60, bool)
    won = ~lost
    won[0] = False
    found = paired(lost, won, family, binary=True)
    assert found.high == 1
    assert found.low > 0.5


def test_a_paired_rate_is_antisymmetric() -> None:
    rng = np.random.default_rng(6)
    family = np.repeat(np.arange(20), 5)
    for share in (0.97, 0.6):
        a, b = rng.random((2, 100)) < share
        there, back = paired(a, b, family, binary=True), paired(b, a, family, binary=True)
        assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
        assert there.p == back.p


@pytest.mark.parametrize(("count", "size"), [(10, 10), (32, 8)])
@pytest.mark.parametrize(("pa", "pb"), [(0.95, 0.99), (0.5, 0.7), (0.9, 0.9)])
def test_paired_rates_cover_the_truth(count: int, size: int, pa: float, pb: float) -> None:
    rng = np.random.default_rng(7)
    family = np.repeat(np.arange(count), size)
    for correlation in (0.0, 0.6):
        own, draws = math.sqrt(1 - correlation), 250
        shared = math.sqrt(correlation) * rng.normal(size=(2, draws, count))[..., family]
        hard = 0.6 * rng.normal(size=(draws, family.size))
        z = shared + own * (hard + 0.8 * rng.normal(size=shared.shape))
        a, b = z[0] < stats.norm.ppf(pa), z[1] < stats.norm.ppf(pb)
        runs = [paired(x, y, family, binary=True) for x, y in zip(a, b, strict=True)]
        covered = np.mean([r.low <= pb - pa <= r.high for r in runs])
        assert covered >= 0.93 - 2 * math.sqrt(0.93 * 0.07 / draws), (correlation, covered)


def test_a_difference_of_the_detectable_size_is_found_four_times_in_five() -> None:
    rng = np.random.default_rng(8)
    family = np.repeat(np.arange(20), 4)

    def draw() -> np.ndarray:
        noise: np.ndarray = 0.5 * rng.normal(size=20)[family] + rng.normal(size=80)
        return noise

    size = np.mean([paired(np.zeros(80), draw(), family).detectable for _ in range(200)])
    found = [paired(np.zeros(80), size + draw(), family).low > 0 for _ in range(400)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.06)


# ---- sign flips


def test_sign_flip_counts_all_patterns_of_a_few_families() -> None:
    assert sign_flip([1.0, 1.0, 1.0]) == 0.25  # +++ and --- of eight
    assert sign_flip([1.0, 1.0, 1.0, 0.0, 0.0]) == 0.25
    assert sign_flip([3.0, -3.0]) == 1
    assert sign_flip([]) == sign_flip([0.0]) == 1


def test_sampled_flips_agree_with_all_of_them() -> None:
    x = np.random.default_rng(9).normal(0.4, 1, 16)
    signs = 1.0 - 2.0 * ((np.arange(1 << 16)[:, None] >> np.arange(16)) & 1)
    exact = np.mean(np.abs(signs @ x) >= abs(x.sum()) - 1e-9)
    assert sign_flip(x) == pytest.approx(exact, abs=0.02)
    assert sign_flip(np.ones(60)) == 1e-4, "never 0"


def test_p_values_are_uniform_when_nothing_differs() -> None:
    rng = np.random.default_rng(10)
    p = np.array([sign_flip(rng.normal(size=12)) for _ in range(400)])
    assert np.mean(p <= 0.05) == pytest.approx(0.05, abs=0.025)
    assert np.mean(p <= 0.5) == pytest.approx(0.5, abs=0.06)


def test_unusable_pairs_are_refused() -> None:
    with pytest.raises(SurefootError, match="same length"):
        paired([1.0, 2.0], [1.0], [0, 1])
    with pytest.raises(SurefootError, match="true or false"):
        paired([0.5], [1.0], [0], binary=True)
