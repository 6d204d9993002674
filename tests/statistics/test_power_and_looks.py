"""What n independent scenarios can show, looks at a list that grows, and what intervals take as
independent."""

from __future__ import annotations

import math

import numpy as np
import pytest

from surefoot.contract import SurefootError
from surefoot.statistics import (
    HOLDS_AT,
    LOOKS,
    RELIABLE_AT,
    clopper_pearson,
    estimate,
    look_at,
    mean_interval,
    rate,
    smallest_true_rate,
)
from surefoot.statistics.looks import LOOK_CONFIDENCE, confidence_of
from surefoot.statistics.power import successes_needed


def tail(n: int, k: int, p: float) -> float:
    """P(X >= k) of Binomial(n, p), summed term by term."""
    return math.fsum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))


@pytest.mark.parametrize(("n", "at", "known"), [(64, HOLDS_AT, 0.93), (256, RELIABLE_AT, 0.95)])
def test_the_smallest_true_success_is_the_known_one(n: int, at: float, known: float) -> None:
    least = smallest_true_rate(n, at)
    assert least == pytest.approx(known, abs=0.006)


@pytest.mark.parametrize("n", [16, 40, 64, 128, 256])
@pytest.mark.parametrize("at", [HOLDS_AT, RELIABLE_AT])
def test_it_has_its_power_by_the_binomial_itself(n: int, at: float) -> None:
    needed, least = successes_needed(n, at), smallest_true_rate(n, at)
    flawless = clopper_pearson(1.0, n)[0]
    if flawless < at:
        assert needed is None
        assert least is None
        return
    assert needed is not None
    assert least is not None
    assert clopper_pearson(needed / n, n)[0] >= at > clopper_pearson((needed - 1) / n, n)[0]
    assert tail(n, needed, least) == pytest.approx(0.8, abs=1e-9)
    assert rate(np.arange(n) < needed, np.arange(n)).low >= at, "the interval of a panel is this one"


def test_more_scenarios_show_more_and_none_show_nothing() -> None:
    found = [smallest_true_rate(n, RELIABLE_AT) for n in (64, 256, 1024, 2048)]
    assert found == sorted(found, reverse=True)  # type: ignore[type-var]
    assert smallest_true_rate(16, RELIABLE_AT) is None
    with pytest.raises(SurefootError, match="one scenario or more"):
        smallest_true_rate(0, 0.9)


# ---- looks


def test_a_look_decides_when_its_interval_does() -> None:
    good, bad, unsure = (np.arange(256) < k for k in (254, 180, 236))
    assert look_at(good, 1).decided
    assert look_at(bad, 1).decided
    assert not look_at(unsure, 1).decided
    assert not look_at(unsure, 1).last
    assert look_at(unsure, len(LOOKS)).last
    wide, usual = look_at(unsure, 1).success, rate(unsure, np.arange(256))
    assert wide.low < usual.low < usual.high < wide.high


@pytest.mark.parametrize("truth", [0.85, 0.9, 0.93, 0.96])
def test_the_interval_at_stopping_holds(truth: float) -> None:
    """Simulated; the script behind docs/measurements/intervals.md has more."""
    rng, held, false = np.random.default_rng(7), 0, 0
    for _ in range(300):
        played = rng.random(64 * LOOKS[-1]) < truth
        for number, times in enumerate(LOOKS, 1):
            look = look_at(played[: 64 * times], number)
            if look.last:
                break
        held += look.success.low <= truth <= look.success.high
        false += truth < RELIABLE_AT <= look.success.low
    assert held >= 0.95 * 300 - 3
    assert false <= 0.05 * 300


def test_rows_say_by_themselves_that_they_were_looked_at() -> None:
    rows = {"success": np.arange(40) < 38, "family": np.arange(40), "member": np.zeros(40, int)}
    assert confidence_of(rows) == 0.95
    plain = estimate(rows, "success", "rate")
    looked = estimate(rows | {"look": np.repeat([1, 2], 20)}, "success", "rate")
    assert plain is not None
    assert looked is not None
    assert (plain.confidence, looked.confidence) == (0.95, LOOK_CONFIDENCE)
    assert looked.low < plain.low  # type: ignore[operator]


# ---- what is independent


def test_scenarios_of_their_own_are_the_unit() -> None:
    rows = {"success": np.arange(256) < 250, "family": np.arange(256), "member": np.zeros(256, int)}
    found = estimate(rows, "success", "rate")
    assert found is not None
    assert (found.unit, found.n_eff) == ("scenario", 256)
    assert (found.low, found.high) == clopper_pearson(250 / 256, 256)


def test_the_same_scenarios_under_several_columns_are_one_cluster_each() -> None:
    family = np.tile(np.arange(64), 4)
    rows = {"success": np.tile(np.arange(64) < 60, 4), "family": family, "member": np.zeros(256, int)}
    found = estimate(rows, "success", "rate")
    assert found is not None
    assert found.unit == "scenario"
    assert found.n_eff < 70, "four rows of a scenario are not four scenarios"


def test_lists_of_version_1_take_the_wider_of_family_and_command() -> None:
    """Energy follows the command and not the family, whose interval would be a third as wide."""
    rng = np.random.default_rng(3)
    family, member = np.repeat(np.arange(32), 8), np.tile(np.arange(8), 32)
    cell = rng.permutation(np.repeat(np.arange(64), 4))
    values = rng.normal(size=64)[cell] + 0.1 * rng.normal(size=256)
    rows = {"cost_of_transport": 5 + values, "family": family, "member": member}
    rows |= {"command_vx": cell / 64, "command_vy": 0.0 * cell, "command_wz": 0.0 * cell}
    found = estimate(rows, "cost_of_transport", "mean")
    assert found is not None
    assert found.unit == "family and command"
    by_family, by_command = (mean_interval(5 + values, x, (0, 20)) for x in (family, cell))
    assert by_command.high - by_command.low > 1.5 * (by_family.high - by_family.low)
    assert found.low == min(by_family.low, by_command.low)
    assert found.high == max(by_family.high, by_command.high)
    assert found.n_eff == min(by_family.n_eff, by_command.n_eff) < 80
