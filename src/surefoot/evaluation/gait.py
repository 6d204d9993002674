"""How a robot moves, beside whether it gets where it is told: foot clearance and vibration."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from surefoot.evaluation.sums import step_speeds, total

SWING_S = 0.1
"""A foot that is off the ground for less has bounced or trembled, not swung; walks have 0.15 to 0.35 s."""
SMOOTH_S = 0.1
"""Joint speeds are compared with their mean over this long: one period at 10 Hz, several of what is faster. A
gait has 2 to 3 strides a second, and its mean over this long is nearly itself."""
_APART_M = 1e3
"""Further than any ground is high."""


def foot_clearance(frames: Mapping[str, Tensor], live: Tensor, dt: float) -> tuple[Tensor, Tensor]:
    """Returns [N] (metres, number of swings): how far a foot rose on average above the higher of the two
    places that it swung between. So steps up and down are measured alike, on any ground."""
    height = frames["foot_position"][..., 2].double()  # [T, N, F]
    contact = frames["contact"].bool()
    steps = torch.arange(len(height), device=height.device)[:, None, None].expand(height.shape)
    last = torch.where(contact, steps, -1).cummax(0).values  # the step in which it last touched the ground
    group = (
        contact.long().cumsum(0).double()
    )  # what belongs to one swing, its take-off included, has one number
    apex = (height + _APART_M * group).cummax(0).values - _APART_M * group
    lifted = height.gather(0, last.clamp(min=0))
    landed = torch.zeros_like(contact)
    landed[1:] = contact[1:] & ~contact[:-1] & (last[:-1] >= 0)
    landed[1:] &= (steps[1:] - last[:-1] - 1) * dt >= SWING_S - 1e-9
    rose = torch.zeros_like(height)
    rose[1:] = apex[:-1] - torch.maximum(lifted[:-1], height[1:])
    counted = landed * live[..., None]
    metres, swings = total(torch.stack([(counted * rose.clamp(min=0)).sum(-1), counted.sum(-1)]))
    return metres / swings, swings


def vibration(frames: Mapping[str, Tensor], live: Tensor, dt: float) -> Tensor:
    """Returns [N] the root mean square (rad/s) of the joints' speeds less their means over the SMOOTH_S
    around: what is faster than about 10 Hz. NaN for an episode shorter than that.

    Of the two speeds that a joint has in a step (`step_speeds`) the squares are averaged."""
    speed, moved = step_speeds(frames, dt)
    half = max(1, round(SMOOTH_S / dt / 2 - 0.5))
    width = 2 * half + 1
    if len(speed) < width + 1:
        return torch.full_like(live[0], torch.nan)
    fast = (_fast(speed[1:], half) + _fast(moved[1:], half)) / 2
    whole = live[width:]  # the last step around it was still lived
    squares, steps = total(torch.stack([whole * fast, whole]))
    mean_square: Tensor = squares / steps
    return mean_square.sqrt()


def _fast(speed: Tensor, half: int) -> Tensor:
    """Returns [T - 2 half, N] the mean square over joints of speeds less their means over steps around."""
    width = 2 * half + 1
    count = len(speed) - width + 1
    mean = speed[:count].clone()
    for k in range(1, width):
        mean += speed[k : k + count]
    squares: Tensor = (speed[half : half + count] - mean / width).double().square().mean(-1)
    return squares
