"""Control steps as a twin takes them: of a probe's environments, and of episodes that were recorded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from surefoot.audits.lived import Actions, Arrays, Lived, live, robot_now
from surefoot.audits.twin import PARAMETERS, Steps, lift_of, rotation
from surefoot.contract import TaskContract
from surefoot.env import VecEnv
from surefoot.env.compiled import CompiledEnv
from surefoot.terrain import SIZE_M, TileId


def doubles(x: Any) -> np.ndarray:
    """Returns numbers in double precision."""
    return np.asarray(x, np.float64)


def remembered(delay_s: np.ndarray, control_s: float) -> int:
    """Returns how many control steps' targets a delay can reach, the present one among them."""
    return 1 + math.ceil(float(np.max(delay_s, initial=0.0)) / control_s - 1e-9)


def wrapped(moved: np.ndarray) -> np.ndarray:
    """Returns displacements [M, 3 + J] without leaps from one side of a tile to the other."""
    out = moved.copy()
    out[:, :2] -= SIZE_M * np.rint(out[:, :2] / SIZE_M)
    return out


class Diary:
    """Steps that environments live, from a moment in which all of their episodes have just begun: then every
    target that is still to take effect is known. Ages may be set between them; nothing is restored."""

    def __init__(self, env: VecEnv | CompiledEnv, contract: TaskContract, tiles: Sequence[TileId]) -> None:
        self.env, self.contract, self._tiles = env, contract, tiles
        self._now = robot_now(env)
        n, joints = env.num_envs, env.contract.action.size
        self._fresh = np.ones(n, bool)
        self._past: list[tuple[np.ndarray, np.ndarray]] = []
        self._begun = np.zeros(n, int)  # steps since the episode began
        self.origins = _origins(env)
        self.parts: list[Steps] = []
        self.lived: list[Lived] = []
        self._joints = joints

    def set_ages(self, age: np.ndarray) -> None:
        """Makes episodes as old as `age` [N]; all else stays."""
        value = torch.from_numpy(np.asarray(age, np.int64))
        if isinstance(self.env, CompiledEnv):
            self.env.memory.integers("age").copy_(value)
        else:
            self.env.state.age = value.clone()

    def live(self, actions: Actions, steps: int, control_s: float) -> list[Lived]:
        """Lives some steps and writes them down."""
        lived = live(self.env, actions, steps)
        for one in lived:
            self._add(one, control_s)
        self.lived += lived
        return lived

    def _add(self, one: Lived, control_s: float) -> None:
        b, was, now = one.before, self._now, one.robot
        joints = self._joints
        lift = lift_of(self.contract, joints, doubles(b["task.phase"]), doubles(b["task.command"]))
        self._past.insert(0, (doubles(one.action), lift))
        depth = remembered(b["parameters.delay_s"], control_s)
        nothing = np.zeros_like(lift)
        acts, lifts = [], []
        for h in range(depth):
            there = (self._begun >= h)[:, None]
            a, up = self._past[h] if h < len(self._past) else (nothing, nothing)
            acts.append(np.where(there, a, 0.0))
            lifts.append(np.where(there, up, 0.0))
        due = b["script.push_step"] == b["task.age"][:, None]
        rows = np.flatnonzero(one.going & ~now["failed"].astype(bool) & ~was["failed"].astype(bool))
        tile = b["script.tile"]
        steps = Steps(
            env=np.arange(len(tile)),
            **began(was, self.origins[tile]),
            actions=np.stack(acts, 1),
            lift=np.stack(lifts, 1),
            push=(doubles(b["script.push_velocity"]) * due[..., None]).sum(1),
            **{k: doubles(b[f"parameters.{k}"]) for k in PARAMETERS},
            **came(was, now),
            ground=[self._tiles[k] for k in tile.tolist()] if self._tiles else [],
        )
        self.parts.append(steps.take(rows))
        self._begun = np.where(one.going, self._begun + 1, 0)
        self._now = now

    def steps(self) -> Steps:
        """Returns all that was written down, environment by environment."""
        every = Steps.join(self.parts)
        return every.take(np.argsort(every.env, kind="stable"))


def _origins(env: VecEnv | CompiledEnv) -> np.ndarray:
    """Returns [K, 2] the middles of all tiles; the world's on a plane."""
    plain = env.plain if isinstance(env, CompiledEnv) else env
    field = plain.height_field
    return np.zeros((1, 2)) if field is None else doubles(field.origins.cpu().numpy())


def began(state: Mapping[str, np.ndarray], origin: np.ndarray) -> Arrays:
    """Returns the state [M] that steps begin in as `Steps` has it; `origin` [M, 2] is their tiles'."""
    position = doubles(state["position"]).copy()
    position[:, :2] -= origin
    turn = rotation(state["quaternion"])
    return {
        "position": position,
        "quaternion": doubles(state["quaternion"]),
        "linear": np.einsum("nij,nj->ni", turn, doubles(state["linear_velocity"])),
        "angular": doubles(state["angular_velocity"]),
        "joints": doubles(state["joint_position"]),
        "speeds": doubles(state["joint_velocity"]),
    }


def came(was: Mapping[str, np.ndarray], now: Mapping[str, np.ndarray]) -> Arrays:
    """Returns what steps [M] led to as `Steps` has it."""
    turn = rotation(now["quaternion"])
    linear = np.einsum("nij,nj->ni", turn, doubles(now["linear_velocity"]))
    moved = [doubles(now[k]) - doubles(was[k]) for k in ("position", "joint_position")]
    return {
        "after": np.concatenate(
            [linear, doubles(now["angular_velocity"]), doubles(now["joint_velocity"])], 1
        ),
        "moved": wrapped(np.concatenate(moved, 1)),
        "torque": doubles(now["torque"]),
    }


def of_episode(
    trace: Mapping[str, np.ndarray], contract: TaskContract, at: np.ndarray, number: int, *, tiles: bool
) -> Steps:
    """Returns the control steps `at` of a recorded episode, with the parameters and pushes that the record
    itself states; whoever knows better replaces them. A step's own state must be recorded: `at` >= 1.
    `tiles`: whether it was played on terrain; a plane has no end."""
    before = {k: trace[k][at - 1] for k in STATE}
    now = {k: trace[k][at] for k in STATE} | {"torque": trace["torque"][at]}
    hz, count = float(trace["control_hz"]), len(at)
    depth = remembered(doubles(trace["delay_s"]), 1.0 / hz)
    joints = trace["action"].shape[1]
    clock = contract.prior.clock_hz if contract.prior else 0.0
    every = np.arange(len(trace["action"]))
    lift = lift_of(
        contract, joints, (float(trace["phase"]) + clock / hz * every) % 1.0, doubles(trace["command"])
    )
    acts, lifts = [], []
    for h in range(depth):
        there = (at >= h)[:, None]
        acts.append(np.where(there, doubles(trace["action"])[np.maximum(at - h, 0)], 0.0))
        lifts.append(np.where(there, lift[np.maximum(at - h, 0)], 0.0))
    push = np.zeros((count, 2))
    for step, kick in zip(trace["push_step"].tolist(), doubles(trace["push_velocity"]), strict=True):
        push[at == step] += kick
    given = {k: np.repeat(doubles(trace[k])[None], count, 0) for k in PARAMETERS}
    cls = str(trace["terrain_class"])
    where = TileId(cls, int(trace["terrain_level"]), int(trace["terrain_key"]))
    return Steps(
        env=np.full(count, number),
        **began(before, np.repeat(doubles(trace["tile_origin"])[None], count, 0)),
        actions=np.stack(acts, 1),
        lift=np.stack(lifts, 1),
        push=push,
        **given,
        **came(before, now),
        ground=[where] * count if tiles else [],
    )


STATE = ("position", "quaternion", "linear_velocity", "angular_velocity", "joint_position", "joint_velocity")
