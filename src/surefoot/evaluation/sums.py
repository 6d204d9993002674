"""Sums over the steps of episodes, with the same bits for an episode alone and among others."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def total(x: Tensor) -> Tensor:
    """Sums [K, T, N] over time, one step after the other: the same bits for an episode alone and among
    others."""
    return x.cumsum(1)[:, -1]


def length(x: Tensor) -> Tensor:
    """Returns the length of the first two components."""
    return (x[..., 0] ** 2 + x[..., 1] ** 2).sqrt()


def step_speeds(frames: Mapping[str, Tensor], dt: float) -> tuple[Tensor, Tensor]:
    """Returns the joints' speeds [T, N, J] at the end of each step, and their means over it (0 in the first).

    Neither tells all at half the control rate: targets that jump to and fro at every step turn a joint round
    where the step ends, with no speed at all, and others would have it pass the same place there."""
    position = frames["joint_position"]
    moved = torch.cat([torch.zeros_like(position[:1]), (position[1:] - position[:-1]) / dt])
    return frames["joint_velocity"], moved
