"""Collection: T steps of all environments under one policy, then values and advantages."""

from __future__ import annotations

import time
from typing import Protocol

import torch
from torch import Tensor

from surefoot.env.compiled import CompiledEnv
from surefoot.rollout import RolloutBlock, gae


class Transition(Protocol):
    """What collection reads of a step: of Surefoot's own environments, or of a simulator from outside."""

    reward: Tensor  # [N]
    terms: Tensor  # [N, R]
    terminated: Tensor  # [N] bool
    truncated: Tensor  # [N] bool
    reason: Tensor  # [N] uint8
    final_critic: Tensor  # [N, C]
    stratum: Tensor  # [N] int64


class Steps(Protocol):
    """Environments that are stepped one control step at a time; ended ones have begun their next episode."""

    obs: Tensor  # [N, O]
    critic: Tensor  # [N, C]
    exploration: Tensor  # [N, A]

    def step(self, action: Tensor) -> Transition: ...


class Collector(Protocol):
    """What collection needs of a learner."""

    @property
    def log_std(self) -> Tensor:
        """[A] of the policy, always the same memory."""

    def mean(self, obs: Tensor) -> Tensor:
        """[N, A] mean actions for observations [N, O]."""

    def act(self, obs: Tensor, exploration: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Action, its mean and its log probability, for observations [N, O] and standard normals [N, A]."""

    def value(self, critic: Tensor) -> Tensor:
        """[B] values of critic observations [B, C]."""


@torch.inference_mode()
def collect(
    env: Steps | CompiledEnv, learner: Collector, block: RolloutBlock, gamma: float, lam: float
) -> float:
    """Fills `block`; returns the seconds spent in inference (policy, values, advantages)."""
    if isinstance(env, CompiledEnv):
        inference, finals = env.rollout(learner, block), env.finals
    else:
        inference, finals = _step_by_step(env, learner, block)
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


Finals = tuple[Tensor, Tensor, Tensor]
"""Steps at which episodes ran out of time (-1: none), their environments, and what the critic saw then."""


def _step_by_step(env: Steps, learner: Collector, block: RolloutBlock) -> tuple[float, Finals]:
    inference = 0.0
    finals: list[Finals] = []
    for t in range(len(block.reward)):
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
        rows = step.truncated.nonzero()[:, 0]
        finals.append((torch.full_like(rows, t), rows, step.final_critic[rows]))
    steps, envs, critics = (torch.cat(part) for part in zip(*finals, strict=True))
    return inference, (steps, envs, critics)
