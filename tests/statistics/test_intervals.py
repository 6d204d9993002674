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
from surefoot.statistics import clopper_pearson, iqm, iqm_interval, mean_interval, paired, rate, sign_flip
from surefoot.statistics.clusters import split
from surefoot.statistics.means import interval_of

GRID = np.arange(0.5, 20000) / 20000
INFINITE = (-math.inf, math.inf)


def falls(share: float) -> Callable[[np.ndarray], np.ndarray]:
    """Returns from 15 to 20, but for a share that are those of a fall, from 2 to 7."""
    return lambda u: np.where(u < share, 2 + 5 / share * u, 15 + 5 * u)


QUANTILES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "normal": stats.norm.ppf,
    "heavy": lambda u: stats.t.ppf(u, 4),
    "skewed": lambda u: np.exp(0.5 * stats.norm.ppf(u)),
    "one in ten falls": falls(0.1),
    "three in ten fall": falls(0.3),
}
LAYOUTS = {
    "4 x 8": np.full(4, 8),
    "6 x 8": np.full(6, 8),
    "8 x 8": np.full(8, 8),
    "14 unequal": np.array([1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 10, 12, 16, 20]),
    "20 x 8": np.full(20, 8),
    "32 x 8": np.full(32, 8),
    "60 unequal": np.tile([1, 2, 4, 8, 12], 12),
}
CORRELATIONS = (0.0, 0.9, 1.0)
DRAWS = 250
NOISE = 2.5 * math.sqrt(0.93 * 0.07 / DRAWS)  # standard errors of a simulated 93%, of some 200 of them
Covered = dict[tuple[str, str, str, float], float]


@pytest.fixture(scope="module")
def covered() -> Covered:
    """Simulated coverage of the nominal 95% by (statistic, layout, values, correlation)."""
    found = {}
    rng = np.random.default_rng(11)
    for layout, sizes in LAYOUTS.items():
        family = np.repeat(np.arange(len(sizes)), sizes)
        for kind, quantile in QUANTILES.items():
            grid, (low, high) = quantile(GRID), quantile(np.array([0.001, 0.999]))
            for correlation in CORRELATIONS:
                shared = rng.normal(size=(DRAWS, len(sizes)))[:, family]
                own = rng.normal(size=shared.shape)
                z = math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own
                data = quantile(stats.norm.cdf(z))
                for name, truth, runs in (
                    ("mean", grid.mean(), [mean_interval(x, family, (low, high)) for x in data]),
                    ("iqm", grid[5000:15000].mean(), [iqm_interval(x, family) for x in data]),
                ):
                    key = name, layout, kind, correlation
                    found[key] = float(np.mean([r.low <= truth <= r.high for r in runs]))
    return found


def test_intervals_cover_at_least_93_percent_everywhere(covered: Covered) -> None:
    assert {k: c for k, c in covered.items() if c < 0.93 - NOISE} == {}
    assert np.quantile(list(covered.values()), 0.1) >= 0.93


def test_intervals_that_are_not_exact_cover_on_average_at_most_97_percent(covered: Covered) -> None:
    """Below 28 families a mean allows for what was not seen by an exact bound; below 6 an iqm has none."""
    large = ("32 x 8", "60 unequal")
    means = [c for k, c in covered.items() if k[0] == "mean" and k[1] in large]
    iqms = [c for k, c in covered.items() if k[0] == "iqm" and k[1] != "4 x 8"]
    assert 0.94 <= np.mean(means + iqms) <= 0.97


def test_what_families_show_would_not_cover_what_they_may_not_have_shown() -> None:
    """What the span of a mean is for: whole families fall, one in ten, and eight have seen none in 43%."""
    rng = np.random.default_rng(13)
    data, truth = falls(0.1)(rng.random((400, 8))), falls(0.1)(GRID).mean()
    seen = [interval_of(split(x, np.arange(8)), 0.95) for x in data]
    assert np.mean([low <= truth <= high for low, high in seen]) < 0.85
    runs = [mean_interval(x, np.arange(8), (2, 20)) for x in data]
    assert np.mean([r.low <= truth <= r.high for r in runs]) >= 0.93


def test_below_28_families_a_mean_reaches_as_far_as_an_event_that_none_may_have_shown() -> None:
    # eight families of 10 within 0 to 20: the share that is unseen in 5% of all panels is 1 - 0.05^(1/8)
    got, share = mean_interval([10.0] * 8, np.arange(8), (0, 20)), 1 - 0.05 ** (1 / 8)
    assert (got.low, got.high) == pytest.approx((10 - 10 * share, 10 + 10 * share))
    assert got.few
    assert mean_interval([10.0] * 7 + [40.0], np.arange(8), (0, 20)).high > 13.75 + share * 26.2, (
        "span as seen"
    )
    assert mean_interval([10.0] * 8, np.arange(8), INFINITE).high == math.inf
    many = mean_interval([9.0, 11.0] * 16, np.arange(32), INFINITE)
    assert (9 < many.low < 10 < many.high < 11, many.few) == (True, False)


def test_a_panel_of_32_families_with_some_values_missing_is_not_one_of_few() -> None:
    family = np.repeat(np.arange(32), 8)[:-12]
    values = np.random.default_rng(15).normal(1.5, 0.1, family.size)
    found = mean_interval(values, family, (0, 20))
    assert not found.few
    assert found.high - found.low < 0.1


def test_the_middle_half_is_moved_by_what_its_ranks_may_be_off() -> None:
    """A quarter of the sample fell, so the middle half saw no fall; three in ten may have."""
    values = np.repeat([2.0, 17.0], [10, 30])
    found = iqm_interval(values, np.arange(40))
    assert found.value == found.high == 17
    # ranks of the fallen are 1/8, of the others 5/8, by hand: 2 clip(u) is 0.5 or 1.25, its error 0.0520
    shift = stats.t.ppf(0.975, 39) * 0.75 * math.sqrt(0.25 * 0.75 / 39)
    assert found.low == pytest.approx(17 - 15 * shift / 0.5)


def test_too_few_families_for_a_middle_bound_no_interquartile_mean() -> None:
    five = iqm_interval(np.arange(5.0), np.arange(5))
    assert (five.value, five.low, five.high) == (2, -math.inf, math.inf)
    assert math.isfinite(iqm_interval(np.arange(6.0), np.arange(6)).high)
    assert iqm_interval(np.arange(6.0), np.arange(6), confidence=0.99).high == math.inf


def test_t_alone_would_not_cover_skewed_family_means() -> None:
    """What the skewness term is for."""
    rng = np.random.default_rng(12)
    means = np.exp(0.7 * rng.normal(size=(4000, 12)))
    truth, t = math.exp(0.7**2 / 2), stats.t.ppf(0.975, 11)
    error = means.std(1, ddof=1) / math.sqrt(12)
    assert np.mean(np.abs(means.mean(1) - truth) <= t * error) < 0.92
    runs = [interval_of(split(row, np.arange(12)), 0.95) for row in means[:1000]]
    assert np.mean([low <= truth <= high for low, high in runs]) >= 0.93


# ---- which interval


def test_below_32_families_t_is_widened_on_the_side_of_the_tail() -> None:
    # by hand for the family means 0, 0, 0, 0, 10: mean 2, se 2, g = 96 / 16^1.5 = 1.5, K = 5
    low, high = interval_of(split([0.0, 0.0, 0.0, 0.0, 10.0], np.arange(5)), 0.95)
    t = stats.t.ppf(0.975, 4)
    unit, unsure = (2 * t**2 + 1) / (6 * math.sqrt(5)), math.sqrt(6 * 5 * 4 / (3 * 6 * 8))
    assert low == pytest.approx(2 - 2 * t), "never narrower than t"
    assert high == pytest.approx(2 + 2 * (t + unit * (1.5 + unsure)))


def test_from_32_families_on_never_narrower_than_t() -> None:
    rng = np.random.default_rng(1)
    for count in (32, 100):
        family = np.repeat(np.arange(count), 4)
        values = np.exp(rng.normal(size=family.size))
        means = values.reshape(count, 4).mean(1)
        expected = stats.t.interval(0.95, count - 1, means.mean(), stats.sem(means))
        got = mean_interval(values, family, INFINITE)
        assert got.low <= expected[0] + 1e-12
        assert got.high > expected[1], "the long tail of a skewed mean is above"


def test_one_giant_family_does_not_count_as_many() -> None:
    """40 families by number, 1.3 by worth: the bootstrap must not be trusted there."""
    family = np.repeat(np.arange(40), np.array([500, *[1] * 39]))
    values = np.random.default_rng(2).normal(size=family.size)
    assert interval_of(split(values, family), 0.95)[1] - values.mean() > 0.5


def test_bootstrap_repeats_and_ignores_labels_and_order() -> None:
    rng = np.random.default_rng(3)
    family = np.repeat(np.arange(40), 5)
    values = rng.normal(size=200)
    order = rng.permutation(200)
    named = np.array([f"{97 - f}" for f in family])
    once, again = (
        mean_interval(values, family, INFINITE),
        mean_interval(values[order], named[order], INFINITE),
    )
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
    found = iqm_interval([683.0142662888445] * 6, np.arange(6))
    assert (found.low, found.value, found.high) == (683.0142662888445,) * 3


def test_one_wild_return_moves_the_mean_and_not_the_iqm() -> None:
    family = np.repeat(np.arange(10), 4)
    values = np.random.default_rng(4).normal(20, 1, 40)
    wild = values.copy()
    wild[3] = -1e6
    assert mean_interval(wild, family, INFINITE).value < -1e4
    assert iqm_interval(wild, family).value == pytest.approx(iqm_interval(values, family).value, abs=0.2)
    assert iqm_interval(wild, family).high - iqm_interval(wild, family).low < 2


# ---- paired


def test_common_random_numbers_find_what_two_separate_means_cannot() -> None:
    rng = np.random.default_rng(5)
    family = np.repeat(np.arange(32), 8)
    hard = rng.normal(size=256) + rng.normal(size=32)[family]
    a, b = hard + 0.1 * rng.normal(size=256), hard + 0.1 * rng.normal(size=256) - 0.1
    d = paired(a, b, family, INFINITE)
    assert d.high < 0
    assert d.p < 0.01
    separate = mean_interval(a, family, INFINITE)
    assert separate.low < d.b < separate.high
    assert d.value == pytest.approx(d.b - d.a)


def test_policies_that_never_differ_still_have_an_interval() -> None:
    family = np.repeat(np.arange(32), 8)
    good = np.ones(256, bool)
    d = paired(good, good, family, (0, 1))
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
    found = paired(lost, won, family, (0, 1))
    assert found.high == 1
    assert found.low > 0.5


def test_a_paired_rate_is_antisymmetric() -> None:
    rng = np.random.default_rng(6)
    family = np.repeat(np.arange(20), 5)
    for share in (0.97, 0.6):
        a, b = rng.random((2, 100)) < share
        there, back = paired(a, b, family, (0, 1)), paired(b, a, family, (0, 1))
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
        runs = [paired(x, y, family, (0, 1)) for x, y in zip(a, b, strict=True)]
        covered = np.mean([r.low <= pb - pa <= r.high for r in runs])
        assert covered >= 0.93 - 2 * math.sqrt(0.93 * 0.07 / draws), (correlation, covered)


def test_a_difference_of_the_detectable_size_is_found_four_times_in_five() -> None:
    rng = np.random.default_rng(8)
    family = np.repeat(np.arange(32), 4)

    def draw() -> np.ndarray:
        noise: np.ndarray = 0.5 * rng.normal(size=32)[family] + rng.normal(size=128)
        return noise

    size = np.mean([paired(np.zeros(128), draw(), family, INFINITE).detectable for _ in range(200)])
    found = [paired(np.zeros(128), size + draw(), family, INFINITE).low > 0 for _ in range(400)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.06)


def test_a_difference_that_few_families_may_not_have_shown_is_allowed_for() -> None:
    """One in ten families falls under A and none under B: twenty families have seen none of it in 12%."""
    rng = np.random.default_rng(14)
    family, truth = np.repeat(np.arange(20), 2), 0.1 * 13.25
    runs = []
    for fallen in np.repeat(rng.random((300, 20)) < 0.1, 2, axis=1):
        b = 15 + 5 * rng.random(40)
        runs.append(paired(np.where(fallen, b - 13.25, b), b, family, (2, 20)))
    assert np.mean([r.low <= truth <= r.high for r in runs]) >= 0.93
    assert all(r.few for r in runs)


def test_shares_of_columns_that_differ_in_many_families_are_rates() -> None:
    """A success averaged over columns: what differs in 12 families or more was seen."""
    family = np.arange(20)
    a, b = np.full(20, 0.5), np.r_[np.full(16, 0.75), np.full(4, 0.5)]
    assert paired(a, b, family, (0, 1)).low > 0
    assert paired(a, np.r_[np.full(8, 0.75), np.full(12, 0.5)], family, (0, 1)).low < 0
    same = paired(np.full(40, 0.5), np.full(40, 0.5), np.arange(40), (0, 1))
    assert (same.low, same.high) == pytest.approx((0.05 ** (1 / 40) - 1, 1 - 0.05 ** (1 / 40))), (
        "never 0 +- 0"
    )


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
        paired([1.0, 2.0], [1.0], [0, 1], (0, 2))
