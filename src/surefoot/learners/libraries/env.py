"""Surefoot's training environments as a library steps them: an action in, a control step out, and every
update's experience kept for the ledger on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor

from surefoot.env import OBSERVATION_LIMIT, TrainingEnv
from surefoot.rollout import RolloutBlock

Value = Callable[[Tensor, Tensor], Tensor]
"""Returns a library's values [B] of observations [B, O] and critic observations [B, C]."""


@dataclass(frozen=True)
class LibraryStep:
    """One control step of all environments. Fresh tensors: a library may do with them what it likes."""

    obs: Tensor  # [N, O] to act on next; the first of a new episode where one ended
    critic: Tensor  # [N, C]
    reward: Tensor  # [N]
    terminated: Tensor  # [N] bool
    truncated: Tensor  # [N] bool
    final_obs: (
        Tensor  # [N, O] as `obs`, but the last of its episode where that ran out of time, without noise
    )
    final_critic: Tensor  # [N, C]

    @property
    def done(self) -> Tensor:
        return self.terminated | self.truncated

    def corrected(self, gamma: float, value: Value) -> Tensor:
        """Returns rewards [N] with the value of what was still to come, where an episode ran out of time.
        With the end then taken for a termination this bootstraps as it should, whatever the library does."""
        reward, cut = self.reward.clone(), self.truncated
        if bool(cut.any()):
            reward[cut] += gamma * value(self.final_obs[cut], self.final_critic[cut]).detach().reshape(-1)
        return reward


class LibraryEnv:
    """Steps environments for a library and keeps what came of it: `horizon` steps fill `block`, then it is
    filled anew."""

    def __init__(self, env: TrainingEnv, horizon: int, gamma: float) -> None:
        c = env.contract
        self.env, self.contract, self.gamma = env, c, gamma
        self.num_envs, self.device = env.num_envs, env.device
        self.observations, self.critics, self.actions = c.observation_size, c.critic_size, c.action.size
        self.clip, self.episode_steps = c.action.clip, env.episode_steps
        widths = (self.observations, self.critics, self.actions, len(c.rewards))
        self.block = RolloutBlock.empty(horizon, env.num_envs, *widths, env.device)
        self.steps = 0
        self.seconds = 0.0
        """Wall-clock in here, physics included."""
        self.begun_at = 0.0
        """When the first step began."""
        self.rolled_at = 0.0
        """When the last block was full."""

    def spaces(self) -> tuple[Box, Box, Box]:
        """Returns the spaces of one observation, one critic observation and one action."""
        limit = OBSERVATION_LIMIT
        return (
            Box(-limit, limit, (self.observations,), np.float32),
            Box(-limit, limit, (self.critics,), np.float32),
            Box(-self.clip, self.clip, (self.actions,), np.float32),
        )

    @property
    def obs(self) -> Tensor:
        """[N, O] what to act on next; a copy."""
        return (self.env.obs if self._at == 0 else self.block.obs[self._at]).clone()

    @property
    def critic(self) -> Tensor:
        """[N, C] what the critic sees with it; a copy."""
        return (self.env.critic if self._at == 0 else self.block.critic[self._at]).clone()

    @property
    def _at(self) -> int:
        """The row of the block that the coming step fills."""
        return self.steps % len(self.block.reward)

    @torch.no_grad()
    def step(self, action: Tensor) -> LibraryStep:
        """Takes a step with `action` [N, A], in the contract's units; the environment clips it."""
        begun = time.perf_counter()
        self.begun_at = self.begun_at or begun
        t, b = self._at, self.block
        given = action.detach().to(self.device, torch.float32).view(self.num_envs, self.actions)
        final = self.env.step_into(b, t, given)
        self.steps += 1
        obs, critic, cut = self.obs, self.critic, b.truncated[t][:, None]
        # A critic's observation begins with the policy's, without noise.
        clean = final[:, : self.observations]
        step = LibraryStep(
            obs,
            critic,
            b.reward[t].clone(),
            b.terminated[t].clone(),
            b.truncated[t].clone(),
            torch.where(cut, clean, obs),
            torch.where(cut, final, critic),
        )
        self.seconds += time.perf_counter() - begun
        if self._at == 0:
            self.rolled_at = time.perf_counter()
        return step
