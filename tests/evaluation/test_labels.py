"""Every rule labels the trace made up for it, none labels a trace without its sign, unknown stays unknown."""

from __future__ import annotations

import numpy as np
import pytest

from surefoot.evaluation import CAUSES, LABELS, label
from surefoot.evaluation import labels as rules
from surefoot.evaluation.label_examples import EXAMPLES, HZ, example_trace, falling, walking
from surefoot.evaluation.recovery import recoveries, recovery


@pytest.mark.parametrize("name", LABELS)
def test_the_example_of_a_label_has_it(name: str) -> None:
    assert label(example_trace(name)) == (name, CAUSES[name])


def test_every_label_has_an_example_and_a_cause() -> None:
    assert set(EXAMPLES) == set(LABELS) == set(CAUSES)
    named = {"perception", "state", "action", "timing", "reward", "evaluation"}
    assert set(CAUSES.values()) == named | {"unknown"}
    assert [k for k, v in CAUSES.items() if v == "unknown"] == ["unknown"]


def test_a_fall_without_a_sign_is_unknown_and_not_a_guess() -> None:
    assert label(falling(8.0)) == ("unknown", "unknown")


def test_a_push_long_ago_is_not_to_blame() -> None:
    late = falling(8.0) | {"push_step": np.array([round(3.0 * HZ)])}
    assert label(late)[0] == "unknown"
    never = falling(8.0) | {"push_step": np.array([1 << 30])}
    assert label(never)[0] == "unknown"


def test_feet_that_slide_because_the_robot_falls_do_not_make_it_a_slip() -> None:
    t = falling()
    t["foot_velocity"][-10:, :, 0] = 2.0
    assert label(t)[0] == "unknown"
    t = falling()
    t["foot_velocity"][-22:-17, 2, 0] = 0.9
    t["foot_force"][..., 2] = 0.0  # in the air
    assert label(t)[0] == "unknown"


def test_one_step_of_sliding_is_no_slip() -> None:
    t = falling()
    t["foot_velocity"][-20, 2, 0] = 0.9
    assert label(t)[0] == "unknown"


def test_there_are_no_edges_on_flat_ground() -> None:
    assert label(example_trace("stumbled_on_edge") | {"terrain_class": "flat"})[0] == "unknown"


def test_swinging_alone_or_delay_alone_is_not_acting_late() -> None:
    assert label(example_trace("acted_late") | {"delay_s": 0.02})[0] == "unknown", "as in training"
    assert label(falling() | {"delay_s": 0.12})[0] == "unknown", "it fell without a swing"
    once = example_trace("acted_late")
    once["angular_velocity"][:-20] = 0.0
    assert label(once)[0] == "unknown", "a single swing to either side is a fall"
    slow = example_trace("acted_late")
    slow["angular_velocity"] *= 0.4
    assert label(slow)[0] == "unknown", "walking robots sway as much"


def test_what_came_first_is_the_label_also_under_delay() -> None:
    pushed = example_trace("acted_late") | {"push_step": np.array([round(2.8 * HZ)])}
    assert label(pushed)[0] == "fell_after_push"


def test_standing_where_standing_was_asked_is_not_standing_still() -> None:
    t = walking(command=(0.0, 0.0, 0.0))
    t["joint_velocity"][:] = 0.0
    assert label(t)[0] == "unknown", "nothing is wrong with it"
    t["linear_velocity"][:, 1] = 0.4
    assert label(t)[0] == "drifted"


def test_turning_the_other_way_is_the_wrong_direction() -> None:
    t = walking(command=(0.0, 0.0, 0.8))
    t["angular_velocity"][:, 2] = -0.5
    assert label(t)[0] == "wrong_direction"


def test_an_episode_that_never_settled_has_no_tracking_label() -> None:
    assert label(walking(1.5))[0] == "unknown"


def test_a_joint_at_its_limit_all_the_time_explains_a_lasting_failure() -> None:
    t = example_trace("off_course")
    t["torque"][:, 0] = -23.7
    assert label(t)[0] == "torque_saturated"


def test_the_window_before_a_fall_ends_where_the_trunk_leans() -> None:
    at = rules.before_fall(falling(4.0))
    assert (at.start, at.stop) == (160, 185)
    tumbling = falling(4.0)
    tumbling["quaternion"][:] = [np.cos(0.5), np.sin(0.5), 0.0, 0.0]
    assert rules.before_fall(tumbling) == slice(0, 1), "leaning from the first step on"


# ---- recovery


def test_recovery_is_the_time_until_the_mean_velocity_is_within_limits() -> None:
    t = walking()
    t["push_step"] = np.array([200])
    assert recovery(recoveries(t, 1 / HZ)) == (0.0, True)
    t["linear_velocity"][200:240, 1] = 1.0
    seconds, ok = recovery(recoveries(t, 1 / HZ))
    # from step 234 on, fewer than 6.25 of the 25 steps ahead are 1 m/s off
    assert ok
    assert seconds == pytest.approx(34 / HZ)


def test_what_never_comes_back_is_not_recovered() -> None:
    t = walking() | {"push_step": np.array([200])}
    t["linear_velocity"][200:, 1] = 1.0
    seconds, ok = recovery(recoveries(t, 1 / HZ))
    assert np.isnan(seconds)
    assert not ok
    end = walking(4.2) | {"push_step": np.array([200])}
    assert not recovery(recoveries(end, 1 / HZ))[1], "it ended within half a second"


def test_without_a_push_there_is_nothing_to_recover_from() -> None:
    seconds, ok = recovery(recoveries(walking(), 1 / HZ))
    assert np.isnan(seconds)
    assert ok


def test_of_two_pushes_the_slower_recovery_counts() -> None:
    t = walking() | {"push_step": np.array([100, 300])}
    t["linear_velocity"][300:320, 0] = -1.0
    seconds, ok = recovery(recoveries(t, 1 / HZ))
    assert ok
    assert 0 < seconds < 0.4
