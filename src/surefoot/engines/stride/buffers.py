"""Where every number of every environment is: rows of a few arrays [rows, environments].

Columns are environments, so that neighbours in memory are neighbours in a SIMD register or a warp.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from surefoot.compiler import RowLayout
from surefoot.engines.stride.heightfield import tile_heights
from surefoot.engines.stride.layout import Layout
from surefoot.engines.stride.step import CHAIN_STATE, PARAMETERS, STATE
from surefoot.terrain import Atlas


@dataclass(frozen=True)
class Buffers:
    """Names the rows of the arrays."""

    state: RowLayout
    """Rows of what goes from step to step."""
    parameters: RowLayout
    """Rows of what a reset sets."""
    outputs: RowLayout
    """Rows of the fields of RobotState."""
    staging: RowLayout
    """Columns of what a reset reads."""
    joints: int


@dataclass(frozen=True)
class Arrays:
    """The engine's memory on its device, always in the same place; E environments, padding included."""

    state: Tensor  # [rows, E] float32
    parameters: Tensor  # [rows, E] float32
    outputs: Tensor  # [rows, E] float32
    history: Tensor  # [control steps x depth x chains, E] float32, targets of the last control steps, a ring
    flags: Tensor  # [2, E] uint8: FAILED, TRUNK_CONTACT
    integers: Tensor  # [3, E] int32: HEAD of the ring, DELAY in physics steps, TILE
    mask: Tensor  # [E] uint8, whom a reset or a look is for
    targets: Tensor  # [E, joints] float32, of the coming control step
    staging: Tensor  # [E, columns] float32, what a reset reads
    tiles: Tensor  # float32, heights of the atlas; a zero on a plane
    origins: Tensor  # [tiles, 2] float32, world xy of tiles

    def of_a_step(self) -> list[Tensor]:
        """Returns the arguments of the kernel that takes a control step, in its order."""
        moving = [self.state, self.parameters, self.outputs, self.history, self.targets]
        return [*moving, self.flags, self.integers, self.mask, self.tiles]

    def of_a_reset(self) -> list[Tensor]:
        """Returns the arguments of the kernel that resets, in its order."""
        inputs = [self.mask, self.staging, self.origins]
        return [self.state, self.parameters, self.history, self.flags, self.integers, *inputs]


def allocate(b: Buffers, count: int, history: int, atlas: Atlas | None, device: torch.device) -> Arrays:
    """Returns zeroed memory for `count` environments that remember `history` numbers of earlier targets."""
    heights = np.zeros(1, np.float32) if atlas is None else tile_heights(atlas).reshape(-1)
    origins = np.zeros((1, 2), np.float32) if atlas is None else atlas.origins
    return Arrays(
        state=torch.zeros(b.state.count, count, device=device),
        parameters=torch.zeros(b.parameters.count, count, device=device),
        outputs=torch.zeros(b.outputs.count, count, device=device),
        history=torch.zeros(history, count, device=device),
        flags=torch.zeros(2, count, dtype=torch.uint8, device=device),
        integers=torch.zeros(3, count, dtype=torch.int32, device=device),
        mask=torch.zeros(count, dtype=torch.uint8, device=device),
        targets=torch.zeros(count, b.joints, device=device),
        staging=torch.zeros(count, b.staging.count, device=device),
        tiles=torch.tensor(heights, device=device),
        origins=torch.tensor(np.ascontiguousarray(origins), device=device),
    )


def arrange(layout: Layout, joints: int, feet: int) -> Buffers:
    """Returns where everything is, for a robot of so many joints and feet."""
    size = layout.depth * layout.chains
    state, parameters, outputs, staging = RowLayout(), RowLayout(), RowLayout(), RowLayout()
    for name, count in STATE.items():
        state.add(name, count)
    for name in CHAIN_STATE:
        state.add(name, size)
    for name, count in PARAMETERS.items():
        parameters.add(name, count)
    parameters.add("com", 3)
    parameters.add("origin", 2)
    parameters.add("body_weight", len(layout.description.weights.body_constant))
    parameters.add("dof_weight", size)
    for name, count in (
        ("position", 3),
        ("quaternion", 4),
        ("linear_velocity", 3),
        ("angular_velocity", 3),
        ("gravity", 3),
        ("joint_position", joints),
        ("joint_velocity", joints),
        ("torque", joints),
        ("foot_position", 3 * feet),
        ("foot_velocity", 3 * feet),
        ("foot_force", 3 * feet),
    ):
        outputs.add(name, count)
    for name, count in (
        ("position", 3),
        ("quaternion", 4),
        ("linear_velocity", 3),
        ("angular_velocity", 3),
        ("joint_position", joints),
        ("friction", 1),
        ("payload_kg", 1),
        ("com_m", 3),
        ("strength", 1),
        ("kp_scale", 1),
        ("kd_scale", 1),
        ("delay_s", 1),
        ("tile", 1),
    ):
        staging.add(name, count)
    return Buffers(state, parameters, outputs, staging, joints)
