"""Collection: T steps of all environments under one policy, then values and advantages."""

from __future__ import annotations

import time
from typing import Protocol

import torch
from torch import Tensor

from surefoot.env import VecEnv
from surefoot.rollout.advantages import gae
from surefoot.rollout.block import RolloutBlock


class Collector(Protocol):
    """What collection needs of a learner."""

    def act(self, obs: Tensor, exploration: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Action, its mean and its log probability, for observations [N, O] and standard normals [N, A]."""

    def value(self, critic: Tensor) -> Tensor:
        """[B] values of critic observations [B, C]."""


@torch.inference_mode()
def collect(env: VecEnv, learner: Collector, block: RolloutBlock, gamma: float, lam: float) -> float:
    """Fills `block`; returns the seconds spent in inference (policy, values, advantages)."""
    inference = 0.0
    horizon = len(block.reward)
    finals: list[tuple[int, Tensor, Tensor]] = []
    for t in range(horizon):
        begun = time.perf_counter()
        block.obs[t], block.critic[t] = env.obs, env.critic
        action, block.mean[t], block.log_prob[t] = learner.act(env.obs, env.exploration)
        block.action[t] = action
        inference += time.perf_counter() - begun
        step = env.step(action)
        block.reward[t], block.terms[t] = step.reward, step.terms
        block.terminated[t], block.truncated[t], block.reason[t] = (
            step.terminated,
            step.truncated,
            step.reason,
        )
        block.stratum[t] = step.stratum
        if bool(step.truncated.any()):
            rows = step.truncated.nonzero()[:, 0]
            finals.append((t, rows, step.final_critic[rows]))
    begun = time.perf_counter()
    critic = torch.cat([block.critic.flatten(0, 1), env.critic, *(f for _, _, f in finals)])
    values = learner.value(critic)
    n = block.reward.shape[1]
    block.value[:] = values[: horizon * n].view(horizon, n)
    block.next_value[:-1] = block.value[1:]
    block.next_value[-1] = values[horizon * n : (horizon + 1) * n]
    at = (horizon + 1) * n
    for t, rows, _ in finals:
        block.next_value[t, rows] = values[at : at + len(rows)]
        at += len(rows)
    b = block
    gae(b.reward, b.value, b.next_value, b.terminated, b.truncated, gamma, lam, out=b.advantage)
    torch.add(b.advantage, b.value, out=b.returns)
    return inference + time.perf_counter() - begun
