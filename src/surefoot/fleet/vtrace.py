"""V-trace: values and advantages of what another policy did, corrected once.

The behaviour acted with the weights that it had; rho_t = pi(a_t | s_t) / mu(a_t | s_t) is how much likelier
the policy at the start of the update would have done the same. With rho_t cut at rho_bar, c_t = lambda
min(c_bar, rho_t), and delta_t = min(rho_bar, rho_t) (r_t + gamma V_{t+1} - V_t), targets are

    v_t = V_t + delta_t + gamma c_t (v_{t+1} - V_{t+1}),

and advantages min(rho_bar, rho_t) (r_t + gamma [lambda v_{t+1} + (1 - lambda) V_{t+1}] - V_t), which is
GAE(lambda) where rho is 1. An episode that was terminated is worth nothing afterwards; of one that ran out of
time V_{t+1} is that of its own last observation, and nothing of the next episode flows back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]


class Corrected(NamedTuple):
    """What an update learns from."""

    target: Tensor  # [T, N] what values are fitted to
    advantage: Tensor  # [T, N]


class Steps(NamedTuple):
    """What happened, and what it is worth to the policy at the start of the update; all [T, N]."""

    reward: Tensor
    value: Tensor
    next_value: Tensor
    """The value of what truly followed: the final observation's where the episode ran out of time."""
    terminated: Tensor
    truncated: Tensor


def vtrace(
    steps: Steps, rho: Tensor, gamma: float, lam: float, rho_bar: float = 1.0, c_bar: float = 1.0
) -> Corrected:
    """Corrects `steps` for `rho` [T, N], backwards in time, all environments at once."""
    reward, value, following, terminated, truncated = steps
    weight = rho.clamp(max=rho_bar)
    carried = gamma * lam * rho.clamp(max=c_bar)
    goes_on = (~terminated).to(value.dtype)
    bootstrapped = gamma * goes_on * following
    flows = goes_on * (~truncated).to(value.dtype)
    gain = weight * (reward + bootstrapped - value)
    excess = torch.zeros_like(gain)  # v_t - V_t
    later = torch.zeros_like(gain[0])
    for t in range(len(reward) - 1, -1, -1):
        if t + 1 == len(reward):
            excess[t] = gain[t]
        else:
            excess[t] = gain[t] + carried[t] * flows[t] * later
        later = excess[t]
    beyond = torch.cat([excess[1:], torch.zeros_like(excess[:1])]) * flows  # v_{t+1} - V_{t+1}
    advantage = gain + weight * gamma * lam * beyond
    return Corrected(value + excess, advantage)


def slow_vtrace(
    steps: tuple[Array, Array, Array, Array, Array],
    rho: Array,
    gamma: float,
    lam: float,
    bars: tuple[float, float] = (1.0, 1.0),
) -> tuple[Array, Array]:
    """Returns the same, written down from the definition: one environment and one step at a time, a target as
    a sum over the steps that follow it, in float64."""
    reward, value, following, terminated, truncated = (np.asarray(x, np.float64) for x in steps)
    horizon, envs = reward.shape
    target, advantage = np.zeros((2, horizon, envs))
    weight, trace = np.minimum(bars[0], rho), lam * np.minimum(bars[1], rho)
    for n in range(envs):
        for s in range(horizon):
            total, reach = 0.0, 1.0
            for t in range(s, horizon):
                after = 0.0 if terminated[t, n] else gamma * following[t, n]
                total += reach * weight[t, n] * (reward[t, n] + after - value[t, n])
                if terminated[t, n] or truncated[t, n]:
                    break
                reach *= gamma * trace[t, n]
            target[s, n] = value[s, n] + total
        for s in range(horizon):
            v = following[s, n]
            if s + 1 < horizon and not (terminated[s, n] or truncated[s, n]):
                v = lam * target[s + 1, n] + (1 - lam) * following[s, n]
            after = 0.0 if terminated[s, n] else gamma * v
            advantage[s, n] = weight[s, n] * (reward[s, n] + after - value[s, n])
    return target, advantage
