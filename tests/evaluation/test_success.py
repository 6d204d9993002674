"""A success means that the command was followed: robots that move exactly so, put through the metrics and the
shipped panels, pass where they should and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from surefoot.contract import BESIDE, Limit, Scenario, Success, TaskContract, Windows, load_panel
from surefoot.evaluation.gait import foot_clearance, vibration
from surefoot.evaluation.metrics import episode_metrics
from surefoot.evaluation.oracles import best_constant, passed, scaled, stop_and_go
from surefoot.statistics import succeeds
from surefoot.tasks import task
from surefoot.tasks.registry import BUILT_IN

CONTRACTS = {c.panel: c for c in (task(name).contract for name in BUILT_IN)}
WALK = task("walk-flat").contract
DT, STEPS = 0.02, 500


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# ---- oracles on every shipped panel


def held_out(contract: TaskContract) -> tuple[Scenario, ...]:
    return load_panel(contract.panel).select("confirmation")


@pytest.mark.parametrize("contract", CONTRACTS.values(), ids=CONTRACTS)
def test_a_robot_blind_to_its_command_passes_a_tenth_at_most(contract: TaskContract) -> None:
    assert best_constant(held_out(contract), contract, points=5) <= 0.1


@pytest.mark.parametrize("contract", CONTRACTS.values(), ids=CONTRACTS)
def test_a_robot_that_does_as_told_passes_and_one_that_does_less_does_not(contract: TaskContract) -> None:
    scenarios = held_out(contract)
    fast = np.array([np.hypot(*s.command[:2]) > 0.2 for s in scenarios])
    assert fast.sum() > len(scenarios) / 2
    assert passed(scenarios, contract, scaled(1, 1, 1)).all()
    assert passed(scenarios, contract, scaled(0.9, 0.9, 0.9)).all(), "a tenth too slow is within tolerance"
    assert passed(scenarios, contract, scaled(0.7, 0.7, 0.7))[fast].mean() <= 0.2
    assert passed(scenarios, contract, stop_and_go(0.75))[fast].mean() <= 0.2, "nor does resting now and then"
    aside = np.array([abs(s.command[1]) > 0.2 > abs(s.command[0]) for s in scenarios])
    turns = np.array([abs(s.command[2]) > 0.2 for s in scenarios])
    assert aside.any()
    assert not passed(scenarios, contract, scaled(1, 0, 1))[aside].any(), "lateral commands are commands"
    assert not passed(scenarios, contract, scaled(1, 1, 0.4))[turns].any(), "so are turns"


def test_the_rule_of_before_is_what_it_was() -> None:
    """Contracts without windows have the digest, and pass what they passed: three quarters of any speed."""
    old = WALK.model_copy(update={"success": Success()})
    assert Success().model_dump() == {"velocity_error_mps": 0.25, "yaw_error_radps": 0.3, "settle_s": 2.0}
    assert Success.model_validate(WALK.success.model_dump(mode="json")) == WALK.success
    scenarios = load_panel("walk-rough-v1").select("confirmation")
    assert passed(scenarios, old, scaled(0.7, 0.7, 0.7)).all()
    assert best_constant(scenarios, old) > 0.3


# ---- windows, by hand


def episode(n: int = 1, **other: Tensor) -> dict[str, Tensor]:
    """Frames of robots told to go at 0.5 m/s, which do so on four feet that stand; `other` instead."""
    wide = (STEPS, n)
    still, ahead = torch.zeros(*wide, 3), torch.tensor([0.5, 0.0, 0.0]).expand(*wide, 3).clone()
    frames = {
        "linear_velocity": ahead.clone(), "angular_velocity": still.clone(), "command": ahead.clone(),
        "quaternion": torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(*wide, 4),
        "gravity": torch.tensor([0.0, 0.0, -1.0]).expand(*wide, 3),
        "joint_position": torch.zeros(*wide, 12), "joint_velocity": torch.zeros(*wide, 12),
        "torque": torch.zeros(*wide, 12),
        "foot_position": torch.zeros(*wide, 4, 3), "foot_velocity": torch.zeros(*wide, 4, 3),
        "contact": torch.ones(*wide, 4).bool(), "trunk_contact": torch.zeros(wide).bool(),
        "age": torch.arange(1, STEPS + 1)[:, None].expand(wide), "reward": torch.zeros(wide),
        "terms": torch.zeros(*wide, 1), "reason": torch.zeros(wide, dtype=torch.uint8),
    }  # fmt: skip
    frames["reason"][-1] = 1
    return frames | other


def judged(
    frames: dict[str, Tensor], success: Success = WALK.success, pushes: tuple[int, ...] = ()
) -> dict[str, Any]:
    n = frames["reason"].shape[1]
    env: Any = SimpleNamespace(
        dt=DT, contract=WALK.model_copy(update={"success": success}), reward_names=("a",),
        reasons=("alive", "timeout", "tilted"),
        const=SimpleNamespace(torque_limit=torch.ones(12), mass_kg=10.0),
        parameters=SimpleNamespace(strength=torch.ones(n)),
        script=SimpleNamespace(push_step=torch.tensor([pushes] * n).reshape(n, -1)),
    )  # fmt: skip
    return episode_metrics(frames, env)


def test_sway_within_a_stride_is_not_an_error_of_the_mean() -> None:
    f = episode()
    swing = torch.sin(torch.arange(STEPS) * DT * 2 * torch.pi * 2.2)
    f["linear_velocity"][:, 0, 1] = 0.15 * swing
    rows = judged(f)
    assert rows["success"].all()
    assert rows["velocity_error_mps"][0] > 0.09 > 0.03 > rows["window_velocity_error_mps"][0]


def test_a_push_is_forgiven_and_a_second_slip_is_not() -> None:
    f = episode()
    f["linear_velocity"][200:280, 0, 1] = 0.6  # from 4.0 s to 5.6 s
    rows = judged(f, pushes=(200,))
    assert rows["windows_as_told"][0] == 1.0, "its window and the next do not count"
    assert rows["success"].all()
    assert judged(f)["windows_as_told"][0] == 6 / 8, "without a push they do"
    assert not judged(f)["success"].any()
    f["linear_velocity"][400:450, 0, 1] = 0.6
    assert judged(f, pushes=(200,))["windows_as_told"][0] == 5 / 6, "one window is forgiven"
    f["linear_velocity"][450:, 0, 1] = 0.6
    assert not judged(f, pushes=(200,))["success"].any()
    every = tuple(range(100, 500, 50))
    assert judged(f, pushes=every)["windows_as_told"][0] == 4 / 8, "pushed all the time, all of them count"


def test_both_velocities_must_be_right_in_the_same_windows() -> None:
    f = episode()
    f["linear_velocity"][100:200, 0, 0] = 0.3
    f["angular_velocity"][200:300, 0, 2] = 0.2
    rows = judged(f)
    assert rows["window_velocity_error_mps"][0] == pytest.approx(0.0)
    assert rows["window_yaw_error_radps"][0] == pytest.approx(0.0)
    assert rows["windows_as_told"][0] == 4 / 8


def test_an_episode_that_ended_early_counts_whole_windows_alone_and_among_others() -> None:
    f = episode(2)
    f["linear_velocity"][:, :, 0] += 0.02 * torch.randn(STEPS, 2, generator=torch.Generator().manual_seed(1))
    f["linear_velocity"][160:, 1, 0] = 9.0
    f["reason"][210:, 1] = 2
    together = judged(f)
    alone = judged({k: v[:211, 1:] for k, v in f.items()})
    assert together["windows_as_told"][1] == 1 / 2, "2 to 3 s as told, 3 to 4 s not, 4 s to the fall none"
    for name, x in alone.items():
        if name in together and x.dtype.kind == "f":
            np.testing.assert_array_equal(x, together[name][1:], err_msg=name)


# ---- standing


def standing(n: int = 1) -> dict[str, Tensor]:
    f = episode(n)
    f["command"][:], f["linear_velocity"][:] = 0.0, 0.0
    return f


def test_standing_is_judged_where_standing_was_asked() -> None:
    assert judged(standing())["success"].all()
    assert np.isnan(judged(episode())["stand_drift_m"]).all(), "told to walk, there is no drift"
    marching, gliding, turning = standing(), standing(), standing()
    marching["joint_velocity"][:] = 4.0
    trembling = standing()
    trembling["joint_position"][::2] = 0.01  # at rest whenever it is looked at
    gliding["linear_velocity"][:, 0, 0] = 0.08
    turning["angular_velocity"][:, 0, 2] = 0.05
    assert judged(marching)["windows_as_told"][0] == 0.0
    assert judged(gliding)["stand_drift_m"][0] == pytest.approx(8 * 0.08, rel=1e-5)
    assert judged(turning)["stand_turn_rad"][0] == pytest.approx(8 * 0.05, rel=1e-5)
    for f in (marching, trembling, gliding, turning):
        assert judged(f, Success())["success"].all(), "errors at an instant do not show it"
        assert not judged(f)["success"].any()


def test_drift_is_measured_in_the_world_and_not_in_the_body() -> None:
    """Half of the time backwards with the trunk turned round: a metre away, although the body's mean speed is
    0."""
    f = standing()
    f["linear_velocity"][100:300, 0, 0], f["linear_velocity"][300:, 0, 0] = 0.125, -0.125
    assert judged(f)["stand_drift_m"][0] == pytest.approx(0.0, abs=1e-6)
    f["quaternion"] = f["quaternion"].clone()
    f["quaternion"][300:] = torch.tensor([0.0, 0.0, 0.0, 1.0])
    assert judged(f)["stand_drift_m"][0] == pytest.approx(1.0, rel=1e-5)


# ---- beside the verdict


def test_clearance_is_above_the_higher_of_two_footholds() -> None:
    f = episode()
    z, contact = f["foot_position"][..., 2], f["contact"]
    for begin in (50, 150):  # foot 0 swings 0.3 s onto a step of 0.1 m and down again, 0.04 m above it
        contact[begin : begin + 15, 0, 0] = False
        z[begin : begin + 15, 0, 0] = 0.14
    z[65:165, 0, 0] = z[65:165, 0, 0].clamp(min=0.1)
    contact[300:303, 0, 1], z[300:303, 0, 1] = False, 0.5  # a bounce is no swing
    contact[:40, 0, 2], z[:40, 0, 2] = False, 0.5  # nor is what began in the air
    live = torch.ones(STEPS, 1, dtype=torch.float64)
    metres, swings = foot_clearance(f, live, DT)
    assert swings.tolist() == [2]
    assert metres[0] == pytest.approx(0.04, abs=1e-6)
    live[160:] = 0.0
    assert foot_clearance(f, live, DT)[1].tolist() == [1], "what comes after the end is not its doing"
    assert judged(f)["foot_clearance_m"][0] == pytest.approx(0.04, abs=1e-6)
    assert judged(episode())["foot_clearance_m"][0] == 0.0, "who never lifts a foot has none"
    assert np.isnan(judged(standing())["foot_clearance_m"][0])


def test_vibration_is_what_is_faster_than_a_gait() -> None:
    live, when = torch.ones(STEPS, 1, dtype=torch.float64), torch.arange(STEPS) * DT

    def of(hz: float) -> float:
        f = episode()
        phase = 2 * torch.pi * hz * when + 0.5
        f["joint_velocity"][:] = torch.sin(phase)[:, None, None]
        f["joint_position"][:] = -torch.cos(phase)[:, None, None] / (2 * torch.pi * hz)
        return float(vibration(f, live, DT)[0]) * 2**0.5

    assert of(2.0) < 0.1
    assert of(12.5) > 0.7
    assert of(20.0) > 0.7
    jumps = episode()
    jumps["joint_position"][::2] = 0.05
    assert vibration(jumps, live, DT)[0] > 1.0, "turning round where a step ends is moving, too"


def test_a_declared_limit_decides_and_an_undeclared_one_does_not() -> None:
    f = episode()
    f["joint_velocity"][::2] = 2.0
    shaky = judged(f)["vibration_radps"][0]
    assert judged(f)["success"].all()
    limited = Success(windows=Windows(), limits=(Limit(metric="vibration_radps", at_most=shaky * 0.9),))
    assert not judged(f, limited)["success"].any()
    assert "vibration_radps <= " in limited.doc
    lifted = Success(limits=(Limit(metric="foot_clearance_m", at_least=0.02),))
    assert not judged(f, lifted)["success"].any(), "skating is not lifting"
    assert judged(standing(), lifted)["success"].all(), "who stands need not"


def test_success_follows_from_the_row() -> None:
    f = episode(3)
    f["linear_velocity"][:, 1, 0] = 0.3
    f["linear_velocity"][:, 2] = 0.0
    f["command"][:, 2] = 0.0
    rows = judged(f)
    assert rows["success"].tolist() == [True, False, True]
    assert succeeds(rows, WALK.success).tolist() == [True, False, True]
    forged = rows | {"windows_as_told": np.ones(3)}
    assert succeeds(forged, WALK.success).tolist() == [True, True, True]
    assert set(BESIDE) <= rows.keys()
