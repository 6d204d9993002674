"""Every term of a task against a hand-computed value, its mirror image, and the contract that names it."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import math
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from surefoot.contract import Prior, RewardTerm, SeedPlan, SurefootError, TaskContract, source_digest
from surefoot.engines import Parameters, RobotState
from surefoot.env import VecEnv
from surefoot.env.scenarios import Scenarios, TrainSampler
from surefoot.learners import Symmetry, symmetry
from surefoot.robots import RobotSpec, robot
from surefoot.tasks import (
    TROT,
    TROT_REWARDS,
    WALK_REWARDS,
    Ground,
    Task,
    TaskState,
    View,
    reweighted,
    task,
    task_names,
    terms,
    velocity_task,
)
from surefoot.tasks.registry import BUILT_IN
from surefoot.tasks.task import advance

CPU = torch.device("cpu")
WALK, ROUGH, TROTTING = task("walk-flat"), task("walk-rough"), task("trot-flat")
ANYMAL = velocity_task(
    "anymal-walk", robot=robot("anymal"), panel="walk-flat-v1", prior=TROT, rewards=TROT_REWARDS, rough=True
)
BIPED = task("walk-biped-flat")
TASKS = {name: task(name) for name in BUILT_IN} | {"anymal with a prior": ANYMAL}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def resting(of: Task = WALK, n: int = 1) -> View:
    """A robot standing still as commanded, feet on the ground, nominal parameters."""
    joints, feet, scan = len(of.robot.joints), len(of.robot.feet), len(of.scan)
    const = of.constants(CPU, 0.02)
    zeros = torch.zeros
    state = RobotState(
        position=torch.tensor([0.0, 0.0, of.robot.stand_height_m]).repeat(n, 1),
        quaternion=torch.tensor([1.0, 0.0, 0.0, 0.0]).repeat(n, 1),
        linear_velocity=zeros(n, 3),
        angular_velocity=zeros(n, 3),
        gravity=torch.tensor([0.0, 0.0, -1.0]).repeat(n, 1),
        joint_position=const.default_pose.repeat(n, 1),
        joint_velocity=zeros(n, joints),
        torque=zeros(n, joints),
        foot_position=zeros(n, feet, 3),
        foot_velocity=zeros(n, feet, 3),
        foot_force=torch.tensor([0.0, 0.0, 30.0]).repeat(n, feet, 1),
        trunk_contact=zeros(n, dtype=torch.bool),
        failed=zeros(n, dtype=torch.bool),
    )
    memory = TaskState(
        age=torch.full((n,), 7),
        command=zeros(n, 3),
        action=zeros(n, joints),
        previous_action=zeros(n, joints),
        phase=zeros(n),
        contact=torch.ones(n, feet, dtype=torch.bool),
        air_time=zeros(n, feet),
        landed=zeros(n, feet),
    )
    ground = Ground(torch.full((n,), of.robot.stand_height_m), torch.full((n, feet), 0.023), zeros(n, scan))
    return View(state, memory, Parameters.nominal(n), ground, const)


def changed(view: View, **fields: Any) -> View:
    """The view with the named fields set (broadcast), wherever they live."""
    view = dataclasses.replace(
        view, robot=view.robot.clone(), task=view.task.clone(), ground=view.ground.clone()
    )
    for name, value in fields.items():
        owner = next(o for o in (view.robot, view.task, view.ground) if hasattr(o, name))
        getattr(owner, name)[:] = torch.as_tensor(value)
    return view


# ---- reward terms and terminations

DEFAULT = torch.tensor(WALK.robot.default_pose)
BENT = {"joint_position": DEFAULT + torch.tensor([0.1, 0.2, -0.3] + [0.0] * 9)}  # the first leg
MOVING = {"command": [0.5, 0.0, 0.0]}
OFF = {"command": [0.5, -0.2, 9.0], "linear_velocity": [0.2, 0.2, 7.0]}  # by (0.3, 0.4)
TURNING = {"command": [9.0, 9.0, -0.5], "angular_velocity": [7.0, 7.0, 0.2]}
SLIDING = {"foot_velocity": [[0.3, 0.4, 5.0]] * 4, "contact": [True, False, True, False]}
ONE = [True, False, False, False]
WIDTH, MARGIN, AIR = {"width": 0.25}, {"margin": 0.05}, {"threshold": 0.1, "most": 0.35}


def hip_at(angle: float) -> dict[str, Any]:
    """The first hip, which turns by 0.863 rad either way."""
    return {"joint_position": torch.tensor([angle, *WALK.robot.default_pose[1:]])}


REWARDS: list[tuple[str, dict[str, float], dict[str, Any], float]] = [
    # name, parameters, what differs from resting, value by hand
    ("track_linear", WIDTH, {}, 1.0),
    ("track_linear", WIDTH, OFF, math.exp(-1.0)),
    ("track_yaw", WIDTH, TURNING, math.exp(-0.49 / 0.25)),
    ("linear_error", {}, OFF, 0.5),
    ("yaw_error", {}, TURNING, 0.7),
    ("vertical_velocity", {}, {"linear_velocity": [9.0, 9.0, -0.3]}, 0.09),
    ("roll_pitch_rate", {}, {"angular_velocity": [0.3, -0.4, 9.0]}, 0.25),
    ("tilt", {}, {"gravity": [0.36, -0.48, -0.8]}, 0.36),
    ("torque", {}, {"torque": [3.0, -4.0] + [0.0] * 10}, 25.0),
    ("action_rate", {}, {"action": 0.5, "previous_action": 0.25}, 12 * 0.0625),
    ("pose", {"hip": 1.0, "thigh": 0.3, "calf": 0.1}, BENT, 0.01 + 0.3 * 0.04 + 0.1 * 0.09),
    ("stand_still", {}, BENT, 0.6),
    ("stand_still", {}, BENT | MOVING, 0.0),
    ("slip", {}, SLIDING, 2 * 0.25),
    ("joint_limits", MARGIN, {}, 0.0),
    ("joint_limits", MARGIN, hip_at(0.9), 0.9 - 0.813),
    ("joint_limits", MARGIN, hip_at(-0.9), 0.9 - 0.813),
    # Two feet land after 0.3 s and 0.5 s (0.35 s at most counts), 0.1 s is expected; per step of 0.02 s.
    ("air", AIR, {"landed": [0.3, 0.5, 0.0, 0.0]} | MOVING, (0.2 + 0.25) / 0.02),
    ("air", AIR, {"landed": [0.04, 0.0, 0.0, 0.0]} | MOVING, -0.06 / 0.02),
    ("air", AIR, {"landed": [0.3, 0.5, 0.0, 0.0]}, 0.0),
    ("fall", {}, {"trunk_contact": True}, 0.0),
    ("posture", {"hip": 1.0, "thigh": 0.3, "calf": 0.1}, BENT, 0.01 + 0.012 + 0.009),
    ("posture", {"FR_calf": 2.0, "FL_hip": 5.0}, BENT, 2 * 0.09),
    ("trunk_height", {}, {"base": 0.9 * WALK.robot.stand_height_m}, 0.01),
    # Of limits of 23.7 N m; the first joint exceeds the share by 0.2, the second by 0.1.
    ("torque_limits", {"share": 0.8}, {"torque": [23.7, -21.33] + [3.0] * 10}, 0.3),
    # A foot lands after 0.3 s beside others that stand; one lands alone; all four end a jump together.
    ("swing", AIR, {"landed": [0.3, 0.0, 0.0, 0.0]} | MOVING, 0.2 / 0.02),
    ("swing", AIR, {"landed": [0.04, 0.0, 0.0, 0.0]} | MOVING, -0.06 / 0.02),
    ("swing", AIR, {"landed": [0.3, 0.0, 0.0, 0.0], "contact": [True, False, False, False]} | MOVING, 0.0),
    ("swing", AIR, {"landed": 0.3} | MOVING, 0.0),
    ("swing", AIR, {"landed": [0.3, 0.0, 0.0, 0.0]}, 0.0),
    ("single_support", {"most": 0.4}, {}, 1.0),
    ("single_support", {"most": 0.4}, MOVING, 0.0),
    ("single_support", {"most": 0.4}, {"contact": ONE, "air_time": 0.3} | MOVING, 1.0),
    ("single_support", {"most": 0.4}, {"contact": ONE, "air_time": [0.0, 0.5, 0.1, 0.1]} | MOVING, 0.0),
    ("single_support", {"most": 0.4}, {"contact": ONE, "air_time": 0.3}, 0.0),
    ("single_support", {"most": 0.4}, {"contact": False, "air_time": 0.1} | MOVING, 0.0),
]


@pytest.mark.parametrize(("name", "params", "fields", "value"), REWARDS)
def test_reward_term_is_what_its_name_says(
    name: str, params: dict[str, float], fields: dict[str, Any], value: float
) -> None:
    view = changed(resting(), **fields)
    result = getattr(terms, name)(view, **params)
    assert result.shape == (1,)
    assert float(result) == pytest.approx(value, abs=1e-5)


def test_every_reward_term_of_every_task_has_a_hand_computed_value() -> None:
    named = {t.name for made in TASKS.values() for t in made.contract.rewards}
    assert named - {"gait"} == {name for name, *_ in REWARDS}


@pytest.mark.parametrize(
    ("phase", "command", "contact", "share"),
    [
        # FR and RL swing in the first half of the period, FL and RR in the second.
        (0.25, [0.5, 0, 0], [False, True, True, False], 1.0),
        (0.25, [0.5, 0, 0], [True, False, False, True], 0.0),
        (0.75, [0.5, 0, 0], [True, False, False, True], 1.0),
        (0.25, [0.5, 0, 0], [True, True, True, True], 0.5),
        (0.25, [0.0, 0.04, 0], [True, True, True, True], 1.0),  # in the dead zone: stand
        (0.25, [0.0, 0.04, 0], [False, True, True, False], 0.5),
    ],
)
def test_gait_is_the_share_of_feet_that_follow_the_clock(
    phase: float, command: list[float], contact: list[bool], share: float
) -> None:
    view = changed(resting(TROTTING), phase=phase, command=command, contact=contact)
    assert float(terms.gait(view)) == share


@pytest.mark.parametrize(
    ("name", "params", "fields", "ends"),
    [
        ("tilted", {"gravity_z": -0.6}, {"gravity": [0.8, 0.0, -0.59]}, True),
        ("tilted", {"gravity_z": -0.6}, {"gravity": [0.79, 0.0, -0.61]}, False),
        ("trunk_contact", {}, {"trunk_contact": True}, True),
        ("trunk_contact", {}, {}, False),
        ("sunk", {"height_m": 0.15}, {"base": 0.149}, True),
        (
            "sunk",
            {"height_m": 0.15},
            {"base": 0.151, "position": [0.0, 0.0, -3.0]},
            False,
        ),  # above low ground
    ],
)
def test_termination_is_what_its_name_says(
    name: str, params: dict[str, float], fields: dict[str, Any], ends: bool
) -> None:
    result = getattr(terms, name)(changed(resting(), **fields), **params)
    assert result.dtype == torch.bool
    assert result.tolist() == [ends]


@pytest.mark.parametrize("name", TASKS)
def test_a_robot_that_does_as_told_is_not_penalised_and_does_not_end(name: str) -> None:
    made = TASKS[name]
    view = resting(made)
    for t in made.contract.rewards:
        value = float(made.terms[t.name](view, **t.params))
        assert (value >= 0.99) if t.weight > 0 and t.name not in ("air", "swing") else (value == 0.0), t.name
    for t in made.contract.terminations:
        assert not bool(made.terms[t.name](view, **t.params)), t.name


# ---- observation terms


def test_joint_observations_are_offsets_from_the_default_pose() -> None:
    view = changed(resting(), joint_position=DEFAULT + 0.25)
    assert torch.allclose(terms.joint_position(view), torch.full((1, 12), 0.25))


def test_clock_turns_once_per_period_and_stops_when_standing() -> None:
    phases = torch.tensor([0.0, 0.25, 0.5])
    view = changed(resting(TROTTING, 3), phase=phases, command=[0.5, 0.0, 0.0])
    assert torch.allclose(terms.clock(view), torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, -1.0]]), atol=1e-6)
    assert not terms.clock(changed(view, command=0.0)).any()


def test_privileged_terms_read_parameters_and_ground() -> None:
    view = changed(resting(ROUGH), base=0.5, feet=0.1, scan=-0.2, air_time=0.3)
    view.params.strength[:], view.params.kp_scale[:], view.params.kd_scale[:], view.params.delay_s[:] = (
        1.1,
        0.9,
        1.2,
        0.01,
    )
    assert torch.allclose(terms.actuation(view), torch.tensor([[0.1, -0.1, 0.2, 0.01]]))
    assert float(terms.height(view)) == pytest.approx(0.5 - ROUGH.robot.stand_height_m)
    assert float(terms.friction(view)) == pytest.approx(0.8)
    assert terms.foot_height(view)[0].tolist() == pytest.approx([0.1] * 4)
    assert terms.height_scan(view).shape == (1, len(ROUGH.scan))
    assert terms.air_time(view)[0].tolist() == pytest.approx([0.3] * 4)


@pytest.mark.parametrize("name", TASKS)
def test_every_observation_term_has_its_declared_size(name: str) -> None:
    made = TASKS[name]
    view = resting(made, 3)
    for t in (*made.contract.observation, *made.contract.privileged):
        value = made.terms[t.name](view)
        assert value.shape == (3, t.size), t.name
        assert value.dtype == torch.float32, t.name


def test_walk_flat_has_no_clock_and_trot_flat_has_one() -> None:
    assert WALK.contract.prior is None
    assert "clock" not in {t.name for t in (*WALK.contract.observation, *WALK.contract.privileged)}
    assert WALK.contract.observation_size == 45
    assert TROTTING.contract.prior == TROT
    assert "clock" in {t.name for t in TROTTING.contract.observation}
    assert "gait" not in {t.name for t in WALK.contract.rewards}


def test_only_the_critic_sees_the_ground_on_rough_terrain() -> None:
    assert ROUGH.contract.observation == WALK.contract.observation
    assert {t.name for t in ROUGH.contract.privileged} - {t.name for t in WALK.contract.privileged} == {
        "height_scan"
    }


# ---- memory


def test_air_time_counts_from_lift_off_to_touchdown() -> None:
    view = resting()
    state, const = view.task, view.const
    air = changed(view, foot_force=0.0).robot
    action = torch.full((1, 12), 0.5)
    for k in range(3):
        state = advance(state, air, const, action)
        assert state.air_time[0].tolist() == pytest.approx([0.02 * (k + 1)] * 4)
        assert not bool(state.landed.any())
    state = advance(state, view.robot, const, action)
    assert state.landed[0].tolist() == pytest.approx([0.06] * 4)
    assert not bool(state.air_time.any())
    state = advance(state, view.robot, const, action)
    assert not bool(state.landed.any()), "a touchdown is an event of one step"


def test_memory_shifts_actions_and_advances_age_and_clock() -> None:
    view = resting(TROTTING)
    action = torch.full((1, 12), 0.5)
    state = changed(view, action=0.1, phase=0.99).task
    after = advance(state, view.robot, view.const, action)
    assert int(after.age) == int(state.age) + 1
    assert torch.equal(after.action, action)
    assert torch.equal(after.previous_action, state.action)
    assert float(after.phase) == pytest.approx((0.99 + 2.2 * 0.02) % 1.0, abs=1e-6)


def test_a_foot_with_the_weight_of_a_fly_is_not_in_contact() -> None:
    view = changed(resting(), foot_force=[[0.0, 0.0, f] for f in (0.5, 1.5, -40.0, 30.0)])
    assert advance(view.task, view.robot, view.const, view.task.action).contact.tolist() == [
        [False, True, False, True]
    ]


# ---- left and right


def random_view(of: Task, seed: int, n: int = 4) -> View:
    g = torch.Generator().manual_seed(seed)
    view = resting(of, n)
    for record in (view.robot, view.task, view.ground, view.params):
        for value in record.tensors().values():
            if value.dtype == torch.bool:
                value[:] = torch.rand(value.shape, generator=g) < 0.5
            elif value.is_floating_point():
                value += 0.4 * torch.randn(value.shape, generator=g)
    view.task.phase[:] = torch.rand(n, generator=g)
    return view


def mirrored(view: View, spec: RobotSpec, scan: tuple[tuple[float, float], ...]) -> View:
    """The view in a mirror in the x-z plane, from geometry alone."""
    assert spec.joint_mirror is not None
    assert spec.joint_mirror_sign is not None
    assert spec.foot_mirror is not None
    joints, sign, feet = list(spec.joint_mirror), torch.tensor(spec.joint_mirror_sign), list(spec.foot_mirror)
    flip, spin = torch.tensor([1.0, -1.0, 1.0]), torch.tensor([-1.0, 1.0, -1.0])
    r, t, p, g = view.robot, view.task, view.params, view.ground
    where = {(round(x, 6), round(y, 6)): k for k, (x, y) in enumerate(scan)}
    grid = [where[round(x, 6), round(-y, 6) + 0.0] for x, y in scan]
    robot = RobotState(
        position=r.position * flip,
        quaternion=r.quaternion * torch.tensor([1.0, -1.0, 1.0, -1.0]),
        linear_velocity=r.linear_velocity * flip,
        angular_velocity=r.angular_velocity * spin,
        gravity=r.gravity * flip,
        joint_position=r.joint_position[:, joints] * sign,
        joint_velocity=r.joint_velocity[:, joints] * sign,
        torque=r.torque[:, joints] * sign,
        foot_position=r.foot_position[:, feet] * flip,
        foot_velocity=r.foot_velocity[:, feet] * flip,
        foot_force=r.foot_force[:, feet] * flip,
        trunk_contact=r.trunk_contact,
        failed=r.failed,
    )
    memory = TaskState(
        age=t.age,
        command=t.command * torch.tensor([1.0, -1.0, -1.0]),
        action=t.action[:, joints] * sign,
        previous_action=t.previous_action[:, joints] * sign,
        phase=(t.phase + 0.5) % 1.0,  # a trot's diagonal pairs swap, half a period apart
        contact=t.contact[:, feet],
        air_time=t.air_time[:, feet],
        landed=t.landed[:, feet],
    )
    params = dataclasses.replace(p, com_m=p.com_m * flip)
    return View(robot, memory, params, Ground(g.base, g.feet[:, feet], g.scan[:, grid]), view.const)


def reflection(of: Task) -> Symmetry:
    found = symmetry(of.contract, of.robot, of.scan, CPU)
    assert found is not None
    return found


def critic(of: Task, view: View) -> Tensor:
    return torch.cat([of.terms[t.name](view) for t in (*of.contract.observation, *of.contract.privileged)], 1)


@pytest.mark.parametrize("name", TASKS)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_rewards_and_ends_do_not_know_left_from_right(name: str, seed: int) -> None:
    of = TASKS[name]
    view = random_view(of, seed)
    other = mirrored(view, of.robot, of.scan)
    for t in (*of.contract.rewards, *of.contract.terminations):
        a, b = (of.terms[t.name](v, **t.params) for v in (view, other))
        assert torch.allclose(a.float(), b.float(), rtol=1e-4, atol=1e-4), t.name


@pytest.mark.parametrize("name", TASKS)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_observations_of_a_mirrored_robot_are_the_reflected_observations(name: str, seed: int) -> None:
    of = TASKS[name]
    view = random_view(of, seed)
    flip, size = reflection(of), of.contract.observation_size
    seen, other = critic(of, view), critic(of, mirrored(view, of.robot, of.scan))
    assert torch.allclose(flip.critic(seen), other, atol=1e-5)
    assert torch.allclose(flip.observation(seen[:, :size]), other[:, :size], atol=1e-5)
    assert torch.equal(flip.critic(flip.critic(seen)), seen)
    assert not torch.allclose(flip.critic(seen), seen, atol=1e-2)


class MirroredPair(TrainSampler):
    """Environment 1 lives the mirror image of environment 0's episode, without sensor noise."""

    def draw(self, rows: Tensor, episode: Tensor, level: Tensor) -> Scenarios:
        s = super().draw(torch.zeros_like(rows), episode, level)
        assert self.robot.joint_mirror is not None
        assert self.robot.joint_mirror_sign is not None
        joints, sign = list(self.robot.joint_mirror), torch.tensor(self.robot.joint_mirror_sign)
        y = torch.tensor([1.0, -1.0, 1.0])
        s.script.noise_scale[:] = 0.0
        other = rows == 1
        s.script.commands[other] *= torch.tensor([1.0, -1.0, -1.0])
        s.script.push_velocity[other] *= y[:2]
        s.script.phase[other] = (s.script.phase[other] + 0.5) % 1.0
        s.start.position[other] *= y
        s.start.quaternion[other] *= torch.tensor([1.0, -1.0, 1.0, -1.0])
        s.start.linear_velocity[other] *= y
        s.start.angular_velocity[other] *= -y
        s.start.joint_position[other] = s.start.joint_position[other][:, joints] * sign
        s.parameters.com_m[other] *= y
        return s


@pytest.mark.parametrize("name", ["walk-flat", "trot-flat", "walk-anymal-flat", "walk-biped-flat"])
def test_a_mirrored_episode_is_lived_as_the_mirror_image(name: str) -> None:
    """Robot, physics, prior, pushes, observations, rewards and reflection at once: any error in one breaks
    it."""
    of = TASKS[name]
    # Converged, so that the order in which the solver meets the contacts does not matter.
    plant = of.on("mujoco").plant.model_copy(update={"iterations": 50, "ls_iterations": 50})
    sampler = MirroredPair(of.contract, of.robot, SeedPlan(root=3, families=2, envs=2), 50.0, None, CPU)
    env = VecEnv(of, sampler, plant, stagger=False)
    env.script.push_step[:, 0] = 10
    flip = reflection(of)
    g = torch.Generator().manual_seed(0)
    for k in range(30):
        assert torch.allclose(flip.critic(env.critic[0]), env.critic[1], atol=2e-3), f"step {k}"
        assert torch.allclose(flip.observation(env.obs[0]), env.obs[1], atol=2e-3), f"step {k}"
        action = 0.5 * torch.randn(12, generator=g)
        step = env.step(torch.stack([action, flip.action(action)]))
        assert torch.allclose(step.terms[0], step.terms[1], atol=1e-3), f"step {k}"
        assert step.terminated.tolist() == [False, False], "choose another seed: this one falls"
    assert float(env.critic[0].abs().max()) > 0.5
    env.close()


def test_a_bipeds_legs_swap_with_their_signs() -> None:
    """By hand: the right knee bends the other way round than the left, and a step to the left becomes one to
    the right."""
    names = BIPED.robot.joints
    pose = torch.zeros(12)
    pose[names.index("r_knee")], pose[names.index("l_hip_roll")] = -0.9, 0.2
    other = reflection(BIPED).action(pose)
    assert {n: x for n, x in zip(names, other.tolist(), strict=True) if x} == pytest.approx(
        {"l_knee": 0.9, "r_hip_roll": -0.2}
    )
    assert torch.equal(reflection(BIPED).action(other), pose)


# ---- contracts


@pytest.mark.parametrize("name", TASKS)
def test_a_contract_survives_json_with_its_digest(name: str) -> None:
    contract = TASKS[name].contract
    back = TaskContract.model_validate_json(contract.model_dump_json())
    assert back == contract
    assert back.digest == contract.digest
    shuffled = dict(sorted(json.loads(contract.model_dump_json()).items(), reverse=True))
    assert TaskContract.model_validate(shuffled).digest == contract.digest


def test_making_a_task_again_gives_the_same_contract() -> None:
    for name in task_names():
        assert task(name).contract.digest == task(name).contract.digest
    assert len({task(name).contract.digest for name in task_names()}) == len(task_names())


def test_any_change_of_a_contract_changes_its_digest() -> None:
    c = WALK.contract
    heavier = reweighted(c.rewards, tilt=-1.0001)
    for update in (
        {"rewards": heavier},
        {"episode_s": 20.5},
        {"source_digest": "0" * 64},
        {"reward_floor": None},
    ):
        assert c.model_copy(update=update).digest != c.digest, update


def module(folder: Path, text: str) -> ModuleType:
    """A module written to a file of its own and imported from there."""
    path = folder / f"terms_{abs(hash(text))}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


SOURCE = "def tilt(v):\n    return v.robot.gravity[:, 0]{}\n"


def with_tilt(term: Any) -> Task:
    return velocity_task("mine", robot=WALK.robot, panel="walk-flat-v1", terms={"tilt": term})


def test_the_contract_changes_with_the_source_of_a_term(tmp_path: Path) -> None:
    one, same, other = (module(tmp_path, SOURCE.format(e)).tilt for e in ("", "", " ** 2"))
    assert with_tilt(one).contract.source_digest == with_tilt(same).contract.source_digest
    assert with_tilt(one).contract.source_digest != with_tilt(other).contract.source_digest
    assert with_tilt(one).contract.digest != WALK.contract.digest
    assert with_tilt(one).terms["tilt"] is one


HELPED = """
WIDTH = {}

def _inner(x):
    return x{}

def tilt(v):
    return _inner(v.robot.gravity[:, 0]) * WIDTH
"""


def test_the_contract_changes_with_a_helper_or_constant_of_a_term(tmp_path: Path) -> None:
    made = [module(tmp_path, HELPED.format(*x)).tilt for x in ((1.0, ""), (1.0, " + 1"), (2.0, ""))]
    assert len({with_tilt(term).contract.source_digest for term in made}) == 3


def test_source_digest_depends_on_names_and_not_on_their_order() -> None:
    pair = {"a": terms.tilt, "b": terms.torque}
    assert source_digest(pair) == source_digest(dict(reversed(pair.items())))
    assert source_digest(pair) != source_digest({"a": terms.torque, "b": terms.tilt})


def test_a_term_without_readable_source_is_refused() -> None:
    with pytest.raises(SurefootError, match="cannot be read; define it with def in a file"):
        with_tilt(len)


def test_a_reward_without_a_function_is_refused_by_name() -> None:
    contract = WALK.contract.model_copy(
        update={
            "rewards": (*WALK.contract.rewards, WALK.contract.rewards[0].model_copy(update={"name": "jump"}))
        }
    )
    with pytest.raises(SurefootError, match="jump without a function"):
        dataclasses.replace(WALK, contract=contract)


def test_reweighting_changes_only_what_it_names() -> None:
    table = reweighted(WALK_REWARDS, drop=("air",), tilt=-3.0)
    assert [t.name for t in table] == [t.name for t in WALK_REWARDS if t.name != "air"]
    assert {t.name: t.weight for t in table} == {
        t.name: -3.0 if t.name == "tilt" else t.weight for t in WALK_REWARDS if t.name != "air"
    }


def test_the_training_plant_runs_at_the_recipes_control_rate() -> None:
    for made in TASKS.values():
        assert made.plant.control_hz == pytest.approx(made.recipe.control_hz)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "'pose' and the gait prior's lift expect hip, thigh and calf"),
        ({"rewards": BIPED.contract.rewards, "prior": TROT}, "lift expect hip, thigh and calf"),
        (
            {"rewards": BIPED.contract.rewards, "prior": TROT.model_copy(update={"lift_rad": 0.0})},
            "4 offsets and robot 'biped' 2 feet",
        ),
        (
            {"rewards": [RewardTerm(name="posture", weight=-1.0, params={"elbow": 1.0})]},
            "'posture' weighs 'elbow', and no joint of robot 'biped'",
        ),
        (
            {"rewards": BIPED.contract.rewards, "ranges": {"gravity": ((0.0, 1.0), (0.0, 1.0))}},
            "no factor gravity",
        ),
    ],
)
def test_a_task_that_does_not_fit_its_robot_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SurefootError, match=sentence):
        velocity_task("mine", robot=BIPED.robot, panel=BIPED.contract.panel, **options)


def test_a_clock_alone_leaves_any_legs_to_the_policy() -> None:
    clock = Prior(clock_hz=1.8, offsets=(0.0, 0.5), lift_rad=0.0)
    of = velocity_task(
        "march", robot=BIPED.robot, panel=BIPED.contract.panel, rewards=BIPED.contract.rewards, prior=clock
    )
    sampler = TrainSampler(of.contract, of.robot, SeedPlan(root=3, families=2, envs=2), 50.0, None, CPU)
    env = VecEnv(of, sampler, of.on("mujoco").plant)
    action = torch.randn(2, 12, generator=torch.Generator().manual_seed(0))
    assert torch.equal(env.joint_targets(action), env.const.default_pose + 0.3 * action)
    assert env.step(action).obs.shape == (2, of.contract.observation_size) == (2, 47)
    env.close()


# ---- registry


def test_tasks_are_found_by_name() -> None:
    assert set(BUILT_IN) <= set(task_names())
    assert all(task(name).contract.name == name for name in BUILT_IN)


def test_a_task_comes_from_any_module() -> None:
    assert task("surefoot.tasks.velocity:trot_flat").contract == TROTTING.contract


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("walk-flatt", "did you mean 'walk-flat'"),
        ("rough", "did you mean 'walk-rough'"),
        ("xyzzy", "choose one of: .*walk-flat"),
        ("no_such_package.tasks:jump", "module 'no_such_package' is not installed"),
        ("surefoot.tasks.velocity:jump", "has no 'jump'"),
        ("surefoot.tasks.velocity:LEVELS", "gave a int; it must be a surefoot Task"),
        (":jump", "write package.module:name"),
        ("mypkg:", "write package.module:name"),
        (".relative:jump", "write package.module:name"),
    ],
)
def test_an_unknown_task_is_refused_with_what_to_do(name: str, sentence: str) -> None:
    with pytest.raises(SurefootError, match=sentence):
        task(name)
