"""Steps of many environments with the states that they led to, also where an episode ended and the next one
has begun: the engine alone takes each step once more. And robots put where a probe wants them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from surefoot.audits.case import Case
from surefoot.audits.forms import hold, robot_form
from surefoot.audits.lived import Actions, Arrays, Lived, live, robots
from surefoot.contract import TaskContract
from surefoot.engines import Parameters, RobotState, Start
from surefoot.env import VecEnv
from surefoot.env.compiled import CompiledEnv
from surefoot.robots import RobotSpec
from surefoot.tasks import TaskState, View

Env = VecEnv | CompiledEnv


@dataclass
class Whole:
    """One control step, and the robots that it led to before anything began again."""

    lived: Lived
    led: Arrays  # robot after the step, by the engine alone

    @property
    def ended(self) -> Lived:
        """The step with the robots that it led to, whoever has begun again."""
        x = self.lived
        return Lived(x.action, x.before, self.led, x.after, x.outcome, x.obs, x.critic)


ASTRAY = {"position": 1e-4, "joint_position": 1e-3, "joint_velocity": 0.1}
"""How far apart a step and the engine alone may lead: targets differ by rounding, which contacts enlarge."""


def astray(whole: Whole) -> np.ndarray:
    """Returns [N] where a step that went on led elsewhere than the engine alone does."""
    bad = np.zeros(len(whole.lived.going), bool)
    for name, most in ASTRAY.items():
        gap = np.abs(whole.led[name].astype(np.float64) - whole.lived.robot[name])
        gap = np.where(gap > 7.9, 0.0, gap) if name == "position" else gap  # a tile was left
        bad |= ~(gap.max(1) <= most)
    return np.asarray(bad & whole.lived.going & ~whole.led["failed"].astype(bool))


def everybody(case: Case) -> Env:
    """Returns all environments of a small run, and many of a large one."""
    return robots(case)


def joint_targets(contract: TaskContract, robot: RobotSpec, task: Arrays, action: np.ndarray) -> np.ndarray:
    """Returns what the contract says that servos are told: pose + scale x clipped action + the prior's
    lift."""
    single = np.float32
    act = np.clip(action.astype(single), single(-contract.action.clip), single(contract.action.clip))
    told = np.asarray(robot.default_pose, single) + single(contract.action.scale_rad) * act
    prior = contract.prior
    if prior is None or prior.lift_rad == 0:
        return told
    moving = np.abs(task["task.command"]).max(1) > contract.command.dead_zone
    height = np.sin(2 * np.pi * (task["task.phase"].astype(float)[:, None] + np.asarray(prior.offsets)))
    lift = np.maximum(height, 0) * prior.lift_rad * moving[:, None]
    per_leg = np.stack([np.zeros_like(lift), lift, -2 * lift], 2)
    return np.asarray(told + per_leg.reshape(told.shape), single)


def engine_alone(case: Case, env: Env, before: dict[str, Tensor], action: np.ndarray) -> Arrays:
    """Returns the robots that a step leads to from a snapshot, with its pushes, by the engine and nothing
    else."""
    env.engine.restore({k.removeprefix("engine."): v for k, v in before.items() if k.startswith("engine.")})
    due = before["script.push_step"] == before["task.age"][:, None]
    if bool(due.any()):
        env.engine.push(due.any(1), (before["script.push_velocity"] * due[..., None]).sum(1))
    task = {k: v.numpy() for k, v in before.items() if k.startswith("task.")}
    told = joint_targets(case.robot.task.contract, case.robot.task.robot, task, action)
    state = env.engine.step(torch.from_numpy(told))
    led = {k: v.cpu().numpy().copy() for k, v in state.tensors().items()}
    hold("The state of robots", led, robot_form(case.robot.task.robot), "physics")
    return led


def live_wholly(case: Case, env: Env, actions: Actions, steps: int) -> list[Whole]:
    """Takes `steps` steps from where the environments stand, each one also by the engine alone."""
    out = []
    for t in range(steps):
        before, action = env.snapshot(), actions(t)
        lived = live(env, lambda _, a=action: a, 1)[0]  # type: ignore[misc]
        after = env.snapshot()
        led = engine_alone(case, env, before, lived.action)
        env.restore(after)
        out.append(Whole(lived, led))
    return out


def put(env: Env, snapshot: dict[str, Tensor], **changes: np.ndarray) -> None:
    """Puts robots where `changes` say, by field of `Start`; standing still in the default pose, level and at
    the middle of their tiles where they say nothing. The task remembers what `snapshot` says."""
    put_some(env, snapshot, torch.ones(env.num_envs, dtype=torch.bool), **changes)


def put_some(env: Env, snapshot: dict[str, Tensor], who: Tensor, **changes: np.ndarray) -> None:
    """Puts some robots where `changes` say, as `put`: those `who` [N] says; the others are as in the
    snapshot."""
    env.restore(snapshot)
    n, spec = env.num_envs, robot_of(env)
    start = Start(
        position=torch.zeros(n, 3),
        quaternion=torch.tensor([1.0, 0, 0, 0]).repeat(n, 1),
        linear_velocity=torch.zeros(n, 3),
        angular_velocity=torch.zeros(n, 3),
        joint_position=torch.tensor(spec.default_pose, dtype=torch.float32).repeat(n, 1),
        tile=snapshot["script.tile"].clone(),
    )
    for name, value in changes.items():
        setattr(start, name, torch.from_numpy(np.asarray(value, np.float32)))
    whose = {k.removeprefix("parameters."): v for k, v in snapshot.items() if k.startswith("parameters.")}
    env.engine.reset(who, start, Parameters(**whose))


def robot_of(env: Env) -> RobotSpec:
    return plain(env).task.robot


def plain(env: Env) -> VecEnv:
    """Returns the definition that compiled environments were made from."""
    return env.plain if isinstance(env, CompiledEnv) else env


def ground_below(case: Case, env: Env, xy: np.ndarray) -> np.ndarray:
    """Returns the height of the ground [N] at world positions [N, 2], from the atlas's own heights."""
    if plain(env).height_field is None:
        return np.zeros(len(xy))
    atlas = case.once("atlas", case.robot.atlas)
    assert atlas is not None
    return np.asarray(atlas.height(xy))


def middles(env: Env, snapshot: dict[str, Tensor]) -> np.ndarray:
    """Returns the middles [N, 2] of the tiles that the environments of a snapshot are on."""
    env.restore(snapshot)
    if isinstance(env, CompiledEnv):
        env.memory.give(env.plain)
    return np.asarray(plain(env).origins(), np.float64)


def view_of(case: Case, whole: Whole) -> View:
    """Returns what terms look at after a step, from what the task remembered before it and the robots that it
    led to."""
    env, contract = plain(everybody(case)), case.robot.task.contract
    led, before = whole.led, whole.lived.before
    robot = RobotState(**{k: torch.from_numpy(v.copy()) for k, v in led.items()})
    was = {k.removeprefix("task."): torch.from_numpy(v.copy()) for k, v in before.items() if k[:5] == "task."}
    clip = contract.action.clip
    act = torch.from_numpy(np.clip(np.nan_to_num(whole.lived.action), -clip, clip).astype(np.float32))
    down = robot.foot_force[..., 2] > 1.0
    hz = contract.prior.clock_hz if contract.prior else 0.0
    now = was | {
        "age": was["age"] + 1,
        "action": act,
        "previous_action": was["action"],
        "phase": (was["phase"] + hz * env.dt) % 1.0,
        "contact": down,
        "landed": was["air_time"] * (down & ~was["contact"]),
        "air_time": (was["air_time"] + env.dt) * ~down,
    }
    whose = {k[11:]: torch.from_numpy(v.copy()) for k, v in before.items() if k.startswith("parameters.")}
    return View(robot, TaskState(**now), Parameters(**whose), env.ground(robot), env.const)
