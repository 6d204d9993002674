"""What is recorded of a batch of episodes, step by step, in memory laid out once."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from surefoot.env import Step

ROBOT = (
    "position",
    "quaternion",
    "joint_position",
    "linear_velocity",
    "angular_velocity",
    "joint_velocity",
    "torque",
    "foot_position",
    "foot_velocity",
    "foot_force",
)
TASK = ("command", "action", "contact")
TRACED = (*ROBOT, *TASK)
"""What a trace keeps of an episode."""
JUDGED = ("gravity", "trunk_contact", "age", "terms", "reward", "reason")
"""What its metrics need besides."""


def observed(step: Step) -> dict[str, Tensor]:
    """Returns what is recorded of one control step, before any reset."""
    r, s = step.view.robot, step.view.task
    out = {k: getattr(r, k) for k in (*ROBOT, "gravity", "trunk_contact")}
    out |= {k: getattr(s, k) for k in (*TASK, "age")}
    return out | {k: getattr(step, k) for k in ("terms", "reward", "reason")}


class TrajectoryBuffer:
    """Holds tensors [T, N, ...] by name, filled one step at a time without waiting for the device."""

    def __init__(self, steps: int, device: torch.device) -> None:
        self.steps = steps
        self._at = torch.zeros(1, dtype=torch.int64, device=device)
        self._all: dict[str, Tensor] = {}

    def add(self, frame: Mapping[str, Tensor]) -> None:
        if not self._all:
            self._all = {k: v.new_empty((self.steps, *v.shape)) for k, v in frame.items()}
        for k, v in frame.items():
            self._all[k].index_copy_(0, self._at, v[None])
        self._at += 1

    def frames(self) -> dict[str, Tensor]:
        """Returns what was added, [steps added, N, ...]."""
        count = int(self._at)
        return {k: v[:count] for k, v in self._all.items()}
