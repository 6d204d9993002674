"""Generalised advantage estimation with the two ways an episode can end kept apart."""

from typing import Any

import torch
import warp as wp
from torch import Tensor

from surefoot.compute.warp import Launch


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
    Launch(gae_kernel, reward.shape[1], inputs, value.device)()
    return advantage


# Warp reads the annotations as values: they are neither types nor strings here.
@wp.kernel(enable_backward=False)  # type: ignore[untyped-decorator]
def gae_kernel(  # type: ignore[no-untyped-def]
    reward: wp.array2d(dtype=Any),  # type: ignore[valid-type]
    value: wp.array2d(dtype=Any),  # type: ignore[valid-type]
    next_value: wp.array2d(dtype=Any),  # type: ignore[valid-type]
    terminated: wp.array2d(dtype=wp.bool),  # type: ignore[valid-type]
    truncated: wp.array2d(dtype=wp.bool),  # type: ignore[valid-type]
    gamma: wp.float64,
    lam: wp.float64,
    advantage: wp.array2d(dtype=Any),  # type: ignore[valid-type]
):
    """A thread per environment, backwards in time."""
    n = wp.tid()
    one_step = reward.dtype(gamma)
    carried = reward.dtype(gamma * lam)
    last = reward.shape[0] - 1
    for k in range(reward.shape[0]):
        t = last - k
        gain = reward[t, n] - value[t, n]
        if not terminated[t, n]:
            gain = gain + one_step * next_value[t, n]
            if t < last and not truncated[t, n]:
                gain = gain + carried * advantage[t + 1, n]
        advantage[t, n] = gain
