# mypy: ignore-errors
"""Warp kernels of rollouts. Warp reads the annotations as values: they are not types and not strings here."""

from typing import Any

import warp as wp


@wp.kernel(enable_backward=False)
def gae(
    reward: wp.array2d(dtype=Any),
    value: wp.array2d(dtype=Any),
    next_value: wp.array2d(dtype=Any),
    terminated: wp.array2d(dtype=wp.bool),
    truncated: wp.array2d(dtype=wp.bool),
    gamma: wp.float64,
    lam: wp.float64,
    advantage: wp.array2d(dtype=Any),
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
