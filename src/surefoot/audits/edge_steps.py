"""Steps from states at the edges of what ends an episode: just inside and just outside of every threshold, at
the last steps of its time, and into failure. Every environment takes each of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from surefoot.audits.case import Case
from surefoot.audits.lived import NEVER, edited
from surefoot.audits.whole_steps import (
    Env,
    Whole,
    everybody,
    ground_below,
    live_wholly,
    middles,
    put,
    robot_of,
)

APART = (0.02, 0.08)
"""How far from a threshold robots are put, as a share of it: a threshold 10% off is on the other side."""
ALOFT_M = 1.0
"""Height at which no robot touches the ground."""
DROP_MPS = 0.4
"""Speed at which robots sink past a height; what they touch on their way pushes them up."""
LEAST_M, DEEPEST_M, DEEPER_M = 0.15, -0.6, 0.02
"""Heights of trunks between which every robot's begins to touch the ground; how much lower it surely does."""
TOO_FAST = 1e6
"""m/s, a push that no engine computes with."""


@dataclass
class Edge:
    """One step of all environments, and what was meant by it."""

    name: str
    whole: Whole
    height: np.ndarray  # [N] of the trunk above the ground before it


def edge_steps(case: Case) -> list[Edge]:
    """Returns them, made once for all who ask."""
    return case.once("edge-steps", lambda: _edge_steps(case))


def _edge_steps(case: Case) -> list[Edge]:
    env, contract = everybody(case), case.robot.task.contract
    numbers, start = case.numbers("edge-steps"), env.snapshot()
    n, steps = env.num_envs, round(contract.episode_s * case.robot.recipe.control_hz)
    calm = edited(start, script__push_step=NEVER)
    middle = middles(env, start)
    floor = ground_below(case, env, middle)
    params = {t.name: t.params for t in contract.terminations}
    out: list[Edge] = []

    def take(name: str, age: np.ndarray, snapshot: dict[str, Tensor], **where: np.ndarray) -> None:
        ready = edited(snapshot, task__age=torch.from_numpy(age))
        put(env, ready, **where)
        towards = where.get("joint_position", pose) - pose  # servos hold what they find
        action = torch.from_numpy((towards / contract.action.scale_rad).astype(np.float32))
        height = where["position"][:, 2] - floor
        whole = live_wholly(case, env, lambda _: action.expand(n, -1), 1)[0]
        out.append(Edge(name, whole, height))
        env.restore(start)

    def some_age() -> np.ndarray:
        """Any age, and in a quarter of the environments the very last."""
        age = numbers.integers(10, steps - 10, n)
        return np.where(numbers.random(n) < 0.25, steps - 1, age)

    def at(height: np.ndarray) -> np.ndarray:
        return np.column_stack([middle, floor + height])

    low, high = APART
    folded = _folded(case, env, calm, at(np.full(n, 3.0)))
    stand, pose = robot_of(env).stand_height_m, np.asarray(robot_of(env).default_pose)[None]
    for side in (1, -1):
        by = 1 + side * numbers.uniform(low, high, n)
        if (gz := params.get("tilted", {}).get("gravity_z")) is not None:
            tilt, way = np.arccos(np.clip(-gz * by, -1, 1)), numbers.uniform(0, 2 * np.pi, n)
            q = np.column_stack(
                [np.cos(tilt / 2), *(np.sin(tilt / 2) * x for x in (np.cos(way), np.sin(way)))]
            )
            where = {"position": at(np.full(n, ALOFT_M)), "quaternion": np.column_stack([q, np.zeros(n)])}
            take("tilted", some_age(), calm, **where)
        by = 1 + side * numbers.uniform(low, high, n)
        if (height := params.get("sunk", {}).get("height_m")) is not None:
            down = np.column_stack([np.zeros((n, 2)), np.full(n, -DROP_MPS if side < 0 else 0.0)])
            where = {"position": at(height * by), "linear_velocity": down}
            take("sunk", some_age(), calm, joint_position=folded, **where)
    if "trunk_contact" in params:
        depths = np.linspace(LEAST_M, DEEPEST_M, n)
        take("depth", some_age(), calm, position=at(depths), joint_position=folded)
        there = out.pop().whole.led["trunk_contact"]
        touching = (float(depths[there.argmax()]) if there.any() else DEEPEST_M) - DEEPER_M
        take("trunk_contact", some_age(), calm, position=at(np.full(n, touching)), joint_position=folded)
    for last in (steps - 2, steps - 1):
        take("time", np.full(n, last), calm, position=at(np.full(n, stand + 0.02)))
    pushed = edited(start, script__push_velocity=TOO_FAST)
    whom = torch.from_numpy(numbers.random(n) < 0.5)[:, None]
    age = numbers.integers(10, steps - 10, n)
    now = (
        torch.where(whom, torch.from_numpy(age)[:, None], NEVER).expand_as(start["script.push_step"]).clone()
    )
    now[:, 1:] = NEVER
    take("failure", age, pushed | {"script.push_step": now}, position=at(np.full(n, stand + 0.02)))
    return out


def _folded(case: Case, env: Env, snapshot: dict[str, Tensor], position: np.ndarray) -> np.ndarray:
    """Returns the pose [J] whose feet are nearest below the trunk, of as many random ones as there are
    environments: a robot that can lie low."""
    spec, n = robot_of(env), env.num_envs
    low, high = (np.clip(x, -np.pi, np.pi) for x in (np.asarray(spec.joint_low), np.asarray(spec.joint_high)))
    pose = case.numbers("folded").uniform(low, high, (n, len(low)))
    put(env, snapshot, position=position, joint_position=pose)
    state = env.engine.state()
    drop = (state.position[:, 2] - state.foot_position[..., 2].amin(1)).numpy()
    return np.broadcast_to(pose[int(drop.argmin())], pose.shape).copy()
