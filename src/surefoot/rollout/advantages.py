"""Generalised advantage estimation with the two ways an episode can end kept apart."""

from __future__ import annotations

import torch
import warp as wp
from torch import Tensor

from surefoot.compute.warp import Launch
from surefoot.rollout import kernels


def gae(
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    gamma: float,
    lam: float,
    out: Tensor | None = None,
) -> Tensor:
    """Advantages [T, N], in one kernel on torch's current stream.

    `next_value[t]` is the value of the observation that truly followed step t: where an episode was
    truncated, the final observation's, not that of the next episode's start. Termination cuts the bootstrap,
    truncation keeps it, and neither lets advantages of the next episode flow back.
    """
    advantage = torch.empty_like(value) if out is None else out
    inputs = [reward, value, next_value, terminated, truncated, wp.float64(gamma), wp.float64(lam), advantage]
    Launch(kernels.gae, reward.shape[1], inputs, value.device)()
    return advantage
