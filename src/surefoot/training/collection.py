"""Collection: T steps of all environments under one policy, then values and advantages."""

from __future__ import annotations

import time
from typing import Protocol

import torch
from torch import Tensor

from surefoot.env import Actor, TrainingEnv
from surefoot.rollout import RolloutBlock, gae


class Collector(Actor, Protocol):
    """An actor that also knows values: what collection needs of a learner."""

    def value(self, critic: Tensor) -> Tensor:
        """Returns values [B] of critic observations [B, C]."""


@torch.inference_mode()
def collect(env: TrainingEnv, learner: Collector, block: RolloutBlock, gamma: float, lam: float) -> float:
    """Fills `block`; returns the seconds spent in inference (policy, values, advantages)."""
    inference, finals = env.rollout(learner, block)
    begun = time.perf_counter()
    horizon, n = block.reward.shape
    step, row, critic = finals
    seen = torch.cat([block.critic.flatten(0, 1), env.critic, critic])
    values = learner.value(seen)
    block.value[:] = values[: horizon * n].view(horizon, n)
    block.next_value[:-1] = block.value[1:]
    block.next_value[-1] = values[horizon * n : (horizon + 1) * n]
    # Where an episode ran out of time, what followed is its own last observation.
    followed = block.next_value[step.clamp_min(0), row]
    block.next_value[step.clamp_min(0), row] = torch.where(step >= 0, values[(horizon + 1) * n :], followed)
    b = block
    gae(b.reward, b.value, b.next_value, b.terminated, b.truncated, gamma, lam, out=b.advantage)
    torch.add(b.advantage, b.value, out=b.returns)
    return inference + time.perf_counter() - begun
