"""Left-right reflection of observations and actions, derived from what the contract says about each term."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.contract import ObservationTerm, TaskContract
from surefoot.robots import RobotSpec

SIGNS = {
    "vector": (1.0, -1.0, 1.0),
    "pseudovector": (-1.0, 1.0, -1.0),
    "command": (1.0, -1.0, -1.0),
    "clock": (-1.0, -1.0),
}


@dataclass(frozen=True)
class Reflection:
    """Reflects vectors: x -> x[..., index] * sign."""

    index: Tensor  # [D] int64
    sign: Tensor  # [D]

    def __call__(self, x: Tensor) -> Tensor:
        return x[..., self.index] * self.sign


@dataclass(frozen=True)
class Symmetry:
    """Reflects a task's samples left to right: what the policy sees, what the critic sees, what is done."""

    observation: Reflection
    critic: Reflection
    action: Reflection


def symmetry(
    contract: TaskContract, robot: RobotSpec, scan: tuple[tuple[float, float], ...], device: torch.device
) -> Symmetry | None:
    """Returns the task's reflection, or None for a robot whose left and right could not be told apart."""
    if robot.joint_mirror is None or robot.joint_mirror_sign is None or robot.foot_mirror is None:
        return None
    joints = (list(robot.joint_mirror), list(robot.joint_mirror_sign))
    feet = (list(robot.foot_mirror), [1.0] * len(robot.feet))
    points = [(round(x, 6), round(y, 6)) for x, y in scan]
    grid = ([points.index((x, round(-y, 6))) for x, y in points], [1.0] * len(points))

    def of(terms: tuple[ObservationTerm, ...]) -> Reflection:
        index: list[int] = []
        sign: list[float] = []
        for t in terms:
            plain = (list(range(t.size)), list(SIGNS.get(t.mirror, (1.0,) * t.size)))
            where, flip = {"joints": joints, "feet": feet, "grid": grid}.get(t.mirror, plain)
            index += [len(sign) + i for i in where]
            sign += flip
        return Reflection(torch.tensor(index, device=device), torch.tensor(sign, device=device))

    act = Reflection(torch.tensor(joints[0], device=device), torch.tensor(joints[1], device=device))
    return Symmetry(of(contract.observation), of((*contract.observation, *contract.privileged)), act)
