"""The one protocol behind which every simulator stands: engines know robots and physics, nothing of rewards
or tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from surefoot.contract import Plant
from surefoot.robots import RobotSpec

T = TypeVar("T", bound="Rows")


@dataclass
class Rows:
    """Named tensors that all have one row per environment."""

    def take(self: T, rows: Tensor) -> T:
        """The same record for a selection of environments (a copy)."""
        return type(self)(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def put(self: T, rows: Tensor, other: T) -> None:
        """Writes `other` (one row per entry of `rows`) into the selected environments, in place."""
        for f in fields(self):
            getattr(self, f.name)[rows] = getattr(other, f.name)

    def blend(self: T, mask: Tensor, other: T) -> None:
        """Writes `other` (one row) into the environments in `mask` [N] bool, in place."""
        for f in fields(self):
            tensor = getattr(self, f.name)
            wide = mask.view(-1, *(1,) * (tensor.ndim - 1))
            tensor.copy_(torch.where(wide, getattr(other, f.name), tensor))

    def tensors(self) -> dict[str, Tensor]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def to(self: T, device: torch.device) -> T:
        return type(self)(**{k: v.to(device) for k, v in self.tensors().items()})

    def clone(self: T) -> T:
        return type(self)(**{k: v.clone() for k, v in self.tensors().items()})


@dataclass
class RobotState(Rows):
    """What a robot is doing at the end of a control step. World frame z is up; quaternions are w, x, y, z.

    Base and joint quantities are those after the last physics step. Foot quantities, torque and trunk contact
    are those that acted during the last physics step (native MuJoCo evaluates its sensors at its start: one
    dt_s old).
    """

    position: Tensor  # [N, 3] world, of the trunk body's origin
    quaternion: Tensor  # [N, 4]
    linear_velocity: Tensor  # [N, 3] body frame
    angular_velocity: Tensor  # [N, 3] body frame
    gravity: Tensor  # [N, 3] unit gravity direction in the body frame; (0, 0, -1) when level
    joint_position: Tensor  # [N, J]
    joint_velocity: Tensor  # [N, J]
    torque: Tensor  # [N, J] applied by the actuators, N m
    foot_position: Tensor  # [N, F, 3] world
    foot_velocity: Tensor  # [N, F, 3] world
    foot_force: Tensor  # [N, F, 3] ground reaction in the world frame, N
    trunk_contact: Tensor  # [N] bool, trunk touches the ground
    failed: Tensor
    """[N] bool, the state was non-finite, exploding or reset by the simulator: the row is void."""


@dataclass
class Parameters(Rows):
    """Per-environment physical parameters, applied to the model at reset."""

    friction: Tensor  # [N] sliding friction of every contact
    payload_kg: Tensor  # [N] added to the trunk's mass (its inertia scales along)
    com_m: Tensor  # [N, 3] shift of the trunk's centre of mass
    strength: Tensor  # [N] scales delivered torque: gains and torque limits
    kp_scale: Tensor  # [N]
    kd_scale: Tensor  # [N]
    delay_s: Tensor  # [N] from a new target to its effect, rounded to whole physics steps

    @classmethod
    def nominal(cls, n: int, device: torch.device | str = "cpu") -> Parameters:
        one, zero = torch.ones(n, device=device), torch.zeros(n, device=device)
        return cls(
            one * 0.8, zero, torch.zeros(n, 3, device=device), one, one.clone(), one.clone(), zero.clone()
        )


@dataclass
class Start(Rows):
    """The state that an episode starts from."""

    position: Tensor  # [N, 3] world
    quaternion: Tensor  # [N, 4]
    linear_velocity: Tensor  # [N, 3] world frame
    angular_velocity: Tensor  # [N, 3] body frame
    joint_position: Tensor  # [N, J]
    tile: Tensor  # [N] int64, which tile of the atlas; 0 on a plane


class Engine(Protocol):
    """A simulator of `num_envs` copies of one robot, each with its own physical parameters."""

    name: str
    robot: RobotSpec
    plant: Plant
    num_envs: int
    device: torch.device
    seconds: float
    """Wall-clock spent in physics so far."""

    def reset(self, mask: Tensor, start: Start, parameters: Parameters) -> None:
        """Puts the environments in `mask` [N] bool into `start` with `parameters`; rows outside the mask are
        not read.

        The delay line is filled with the starting joint positions' default-pose target.
        """

    def step(self, targets: Tensor) -> RobotState:
        """Advances every environment by one control step towards joint position `targets` [N, J], in radians.

        A target takes effect `delay_s` after the step begins; until then earlier targets stay in force.
        The returned tensors are valid until the next call.
        """

    def state(self, rows: Tensor | None = None) -> RobotState:
        """Returns the current state, of the environments numbered in `rows` or of all; environments that were
        just reset show their starting state with zero torque."""

    def push(self, mask: Tensor, velocity: Tensor) -> None:
        """Adds `velocity` [N, 2] (world xy, m/s) to the base of the environments in `mask`."""

    def translate(self, mask: Tensor, offset: Tensor) -> None:
        """Moves the environments in `mask` by `offset` [N, 2] in world xy, all else unchanged."""

    def failures(self) -> dict[str, Tensor]:
        """Returns what the environments that failed in the last step failed from, in their order, for
        replay."""

    def parameters(self) -> Parameters:
        """Returns the physical parameters, read back from the models that are simulated."""

    def snapshot(self) -> dict[str, Tensor]:
        """Returns everything that the future depends on, as tensors; `restore` continues to the bit."""

    def restore(self, snapshot: Mapping[str, Tensor]) -> None: ...

    def close(self) -> None:
        """Frees threads and device memory."""
