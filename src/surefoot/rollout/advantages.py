"""Generalised advantage estimation with the two ways an episode can end kept apart."""

from __future__ import annotations

from torch import Tensor


def gae(
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    gamma: float,
    lam: float,
) -> Tensor:
    """Advantages [T, N].

    `next_value[t]` is the value of the observation that truly followed step t: where an episode was
    truncated, the final observation's, not that of the next episode's start. Termination cuts the bootstrap,
    truncation keeps it, and neither lets advantages of the next episode flow back.
    """
    alive = (~terminated).to(value.dtype)
    delta = reward + gamma * next_value * alive - value
    carry = gamma * lam * (~(terminated | truncated)).to(value.dtype)
    advantage = delta.clone()
    for t in range(len(delta) - 2, -1, -1):
        advantage[t] += carry[t] * advantage[t + 1]
    return advantage
