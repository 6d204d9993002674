"""Baselines: policies nobody trained, run on the same panel as those that somebody did.

`hold-pose` does nothing, `random` does anything, and `open-loop-trot` is what an afternoon of thought gives:
a trot that steps where the command points, blind to what the robot's body does.
"""

from __future__ import annotations

import math

import mujoco
import numpy as np
import torch
from torch import Tensor

from surefoot.contract import Channel, SeedPlan, SurefootError, TaskContract, unknown
from surefoot.keyed import Keyed
from surefoot.policy.bundle import HoldPose, Policy
from surefoot.robots import RobotSpec

BASELINES = ("hold-pose", "random", "open-loop-trot")
PREFIX = "baseline:"

TROT_HZ = 2.2
"""Steps per second of each foot; quadrupeds of a Go1's size trot at 2 to 3 Hz."""
TROT_LIFT_M = 0.05
RANDOM_STD = 1.0


def baseline(
    name: str, contract: TaskContract, robot: RobotSpec, control_hz: float, seeds: SeedPlan
) -> Policy:
    """The baseline called `name` (with or without `baseline:`); it is run as a policy bundle is."""
    name = name.removeprefix(PREFIX)
    if name == "hold-pose":
        return HoldPose(contract.action.size)
    if name == "random":
        return RandomActions(contract.action.size, seeds)
    if name == "open-loop-trot":
        if len(robot.joints) != 3 * len(robot.feet):
            raise SurefootError(
                f"Robot '{robot.name}' has {len(robot.joints)} joints for {len(robot.feet)} feet, and the "
                "open-loop trot is one of legs with hip, thigh and calf; leave that baseline out."
            )
        return OpenLoopTrot(contract, robot, control_hz)
    raise unknown("baseline", name, BASELINES)


class RandomActions:
    """Standard normal actions, keyed by scenario and step: the same ones every time."""

    def __init__(self, actions: int, seeds: SeedPlan) -> None:
        self.actions, self._seeds = actions, seeds
        self._keyed: dict[torch.device, Keyed] = {}
        """Draws where the episodes are, which may be on a GPU."""

    def start(self, family: Tensor, member: Tensor) -> Tensor:
        """Memory [N, 3]: family, member, step; float64 holds them exactly."""
        return torch.stack([family, member, torch.zeros_like(family)], 1).to(torch.float64)

    def __call__(self, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        family, member, step = state.long().unbind(1)
        wide = -(-self.actions // 4) * 4
        if state.device not in self._keyed:
            self._keyed[state.device] = Keyed(self._seeds, state.device)
        drawn = self._keyed[state.device].normals(family, member, 0, Channel.BASELINE, wide, step * wide)
        after = state.clone()
        after[:, 2] += 1
        return RANDOM_STD * drawn[:, : self.actions], after


class OpenLoopTrot:
    """Feet of one diagonal lift while those of the other push the ground backwards, as fast as commanded.

    Foot paths become joint targets through the Jacobian at the default pose, so any robot with three or more
    hinges per leg can do it. It reads the command from the observation, and nothing else.
    """

    def __init__(self, contract: TaskContract, robot: RobotSpec, control_hz: float) -> None:
        self.dt, self.scale = 1.0 / control_hz, contract.action.scale_rad
        self._command, self._unscale = _command_slice(contract)
        self.dead_zone = contract.command.dead_zone
        prior = contract.prior
        self.hz = prior.clock_hz if prior else TROT_HZ
        # Where the environment lifts the feet itself, only the stride is left to do.
        self.lift = 0.0 if prior else TROT_LIFT_M
        legs, feet = _jacobians(robot)
        offsets = prior.offsets if prior else tuple(0.5 * ((k // 2 + k % 2) % 2) for k in range(len(feet)))
        self._offsets = torch.tensor(offsets)
        self._inverse = torch.tensor(np.stack(legs), dtype=torch.float32)  # [F, J, 3]
        self._feet = torch.tensor(np.stack(feet), dtype=torch.float32)  # [F, 3] from the trunk
        self._on: dict[torch.device, list[Tensor]] = {}

    def start(self, family: Tensor, member: Tensor) -> Tensor:
        """Returns the memory [N, 1]: control steps taken."""
        return torch.zeros(len(family), 1, device=family.device)

    def __call__(self, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        command = obs[:, self._command] / self._unscale
        if obs.device not in self._on:
            self._on[obs.device] = [x.to(obs.device) for x in (self._offsets, self._feet, self._inverse)]
        offsets, feet, inverse = self._on[obs.device]
        phase = 2 * math.pi * (state * self.hz * self.dt + offsets)  # [N, F]
        moving = (command.abs().amax(1) > self.dead_zone).to(obs.dtype)[:, None]
        vx, vy, wz = (c[:, None] for c in command.unbind(1))
        speed = torch.stack([vx - wz * feet[:, 1], vy + wz * feet[:, 0]], 2)  # [N, F, 2]
        # A foot is on the ground for half a period and travels from +reach to -reach meanwhile.
        reach = speed / (4 * self.hz)
        path = -reach * phase.cos()[..., None] * moving[..., None]
        up = self.lift * phase.sin().clamp_min(0) * moving
        step = torch.cat([path, up[..., None]], 2)
        return torch.einsum("fjk,nfk->nj", inverse, step) / self.scale, state + 1


def _command_slice(contract: TaskContract) -> tuple[slice, float]:
    first = 0
    for t in contract.observation:
        if t.name == "command":
            return slice(first, first + t.size), t.scale
        first += t.size
    raise SurefootError(
        f"Task '{contract.name}' does not observe its command, so the open-loop trot cannot follow it; "
        "leave that baseline out."
    )


def _jacobians(robot: RobotSpec) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Returns for each foot how joints must move [J, 3] to move it in x, y, z, and where it is, from the
    trunk."""
    model = robot.compile()
    data = mujoco.MjData(model)
    joints = [model.joint(j) for j in robot.joints]
    for joint, angle in zip(joints, robot.default_pose, strict=True):
        data.qpos[joint.qposadr[0]] = angle
    mujoco.mj_forward(model, data)
    columns = np.array([j.dofadr[0] for j in joints])
    trunk = data.xpos[model.body(robot.trunk).id]
    legs, feet = [], []
    for name in robot.feet:
        geom, jacobian = model.geom(name).id, np.zeros((3, model.nv))
        mujoco.mj_jacGeom(model, data, jacobian, None, geom)
        by_joint = jacobian[:, columns]
        own = np.abs(by_joint).max(0) > 1e-9
        if own.sum() < 3:
            raise SurefootError(
                f"Foot '{name}' of robot '{robot.name}' has {own.sum()} joints, and an open-loop trot needs "
                "three to put it anywhere; leave that baseline out."
            )
        legs.append(np.linalg.pinv(by_joint, rcond=1e-3))
        feet.append(data.geom_xpos[geom] - trunk)
    return legs, feet
