"""What a trainer steps and asks: `TrainingEnv`, and what comes out of it.

Three classes implement it: `VecEnv` (torch, on any engine), `CompiledEnv` (the same as kernels) and
`ExternalEnv` (somebody else's simulator). `surefoot.env.conformance` has checks that any of them, and any
other, can be put through.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import Contract
from surefoot.rollout import RolloutBlock
from surefoot.tasks import View

EPISODES_APART = 1_000_000
"""Episodes that an environment lives through at most before it is lost and begins anew."""


@dataclass(kw_only=True)
class Transition:
    """One control step of all environments, as rollouts read it. Environments that ended have already begun
    their next episode; what is here is of the step before that."""

    reward: Tensor  # [N] float32
    terms: Tensor  # [N, R] float32, the weighted reward terms that make it up (before the floor)
    terminated: Tensor  # [N] bool, never where `truncated` is
    truncated: Tensor  # [N] bool, ran out of time: what would have followed still counts
    reason: Tensor  # [N] uint8, index into the environments' `reasons`; 0 while alive
    final_critic: Tensor  # [N, C] float32, what the critic saw after the step, before any reset
    stratum: Tensor  # [N] int64, of the step


@dataclass(kw_only=True)
class Step(Transition):
    """The full record of one control step of a robot's environments. `obs` is what to act on next; for
    environments that ended it is already the first observation of their next episode, and `final_obs` holds
    the true last one."""

    obs: Tensor  # [N, O] noisy, scaled: what the policy sees
    critic: Tensor  # [N, C] clean, with privileged terms
    final_obs: Tensor  # [N, O] before any reset
    exploration: Tensor  # [N, A] standard normals keyed to the next step, for whoever explores
    view: View  # the state the reward was computed on, before any reset


class Finals(NamedTuple):
    """Episodes of a rollout that ran out of time. An environment has at most one, because a rollout is
    shorter than an episode; rows that hold none have step -1."""

    step: Tensor  # [K] int64, of the rollout; -1: none
    env: Tensor  # [K] int64
    critic: Tensor  # [K, C] what the critic saw last


@dataclass
class EpisodeStats:
    """Episodes that began and ended since `episode_stats` was last called."""

    ended: list[dict[str, np.ndarray]]
    """Columns of finished episodes, one dict per group of them; one row per episode."""
    failures: list[dict[str, np.ndarray]]
    """Columns of states that engines failed from, for replay."""
    resets: np.ndarray  # [strata] int64, episodes begun, by the stratum of their first step
    terrain_occupancy: dict[str, np.ndarray] = field(default_factory=dict)
    """Environments by terrain class, [levels] each, as they stand now; none on a plane."""

    @classmethod
    def of(cls, parts: Sequence[EpisodeStats]) -> EpisodeStats:
        """Joins what happened in the environments of several processes."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            [e for p in parts for e in p.ended],
            [f for p in parts for f in p.failures],
            np.sum([p.resets for p in parts], 0),
            {
                name: np.sum([p.terrain_occupancy[name] for p in parts], 0)
                for name in parts[0].terrain_occupancy
            },
        )


class Actor(Protocol):
    """A policy that explores, as rollouts ask it. Environments that are stepped call `act`; compiled ones
    draw the exploration themselves and ask for `mean` and `log_std`."""

    @property
    def log_std(self) -> Tensor:
        """[A] logarithms of the exploration's standard deviations, always the same memory."""

    def mean(self, obs: Tensor) -> Tensor:
        """Returns mean actions [N, A] for observations [N, O]."""

    def act(self, obs: Tensor, exploration: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns actions [N, A], their means [N, A] and their log probabilities [N], for observations [N, O]
        and standard normals [N, A]."""


class TrainingEnv(Protocol):
    """N environments that begin their next episode by themselves, in the step in which one ends.

    So `obs` after an end is the next episode's first, and the last observation of an episode that ran out of
    time is in what `rollout` and `step_into` return. Actions are clipped to the contract's range. All tensors
    are on `device`, and float32 where nothing else is stated.
    """

    @property
    def num_envs(self) -> int:
        """The number of environments, N."""

    @property
    def device(self) -> torch.device:
        """The device of every tensor that goes in or comes out."""

    @property
    def contract(self) -> Contract:
        """The task's promise; it has the widths O, C and A, and the reward terms."""

    @property
    def episode_steps(self) -> int:
        """Control steps after which an episode is truncated. Rollouts are shorter."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why episodes end, by the number in `Transition.reason`: 'alive', 'timeout', then others."""

    @property
    def reward_names(self) -> tuple[str, ...]:
        """Names of the R columns of `Transition.terms`."""

    @property
    def obs(self) -> Tensor:
        """[N, O] what to act on next. Within a block that `step_into` fills it may be stale: the block's next
        row has it then."""

    @property
    def critic(self) -> Tensor:
        """[N, C] what the critic sees with `obs`."""

    @property
    def asynchronous(self) -> bool:
        """Whether a rollout never waits for the host, so that it can be captured in a CUDA graph. Its results
        are then only in the queue when `rollout` returns."""

    @property
    def seconds(self) -> float:
        """Wall-clock spent in the environments on the host, `physics_seconds` left out."""

    @property
    def physics_seconds(self) -> float:
        """Wall-clock spent in the simulator. Compiled environments cannot tell it apart: there rollouts count
        in `seconds`."""

    def rollout(self, actor: Actor, block: RolloutBlock) -> tuple[float, Finals]:
        """Takes T steps under `actor` and writes them into `block`: all of it but values, advantages and
        returns. Returns the seconds of inference, and which episodes ran out of time."""

    def step_into(self, block: RolloutBlock, t: int, action: Tensor) -> Tensor:
        """Takes one control step with `action` [N, A] as it is and writes it into row `t` of `block`: for
        learners that explore by themselves. Rows come in order from 0 to T - 1.

        What to act on next is in row t + 1, after the last row in `obs` and `critic`. Returns [N, C]: what
        the critic saw last of episodes that ran out of time in this step; other rows mean nothing.
        """

    def age(self) -> Tensor:
        """Returns [N] int64, the control steps that each running episode has lasted; a copy."""

    def content(self) -> Tensor:
        """Returns [N, K], what tells the running episodes apart: equal rows are copies of one scenario."""

    def stats_tensors(self) -> dict[str, Tensor]:
        """Returns the tensors that `episode_stats` needs on the host, as they stand until the next step."""

    def episode_stats(self, host: Mapping[str, Tensor]) -> EpisodeStats:
        """Returns what happened since it was last called, from copies of `stats_tensors` on the host. Asked
        once after each rollout: compiled environments forget the one before."""

    def snapshot(self) -> dict[str, Tensor]:
        """Returns copies of all that the environments' future depends on, one row per environment (`SUMMED`
        excepted)."""

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        """Continues, to the bit, from where `snapshot` was taken. Raises SurefootError where that cannot be
        done: few other simulators can be asked for their state."""

    def close(self) -> None:
        """Frees threads and processes."""


class Stepwise(ABC):
    """Rollouts of environments that are stepped one control step at a time."""

    obs: Tensor  # [N, O]
    critic: Tensor  # [N, C]
    exploration: Tensor  # [N, A] standard normals keyed to the coming step

    @abstractmethod
    def step(self, action: Tensor) -> Transition:
        """Applies `action` [N, A] for one control step; environments that end begin their next episode."""

    @property
    def asynchronous(self) -> bool:
        """Is never true: the device has to say which environments ended."""
        return False

    def rollout(self, actor: Actor, block: RolloutBlock) -> tuple[float, Finals]:
        """Does what `TrainingEnv.rollout` says."""
        inference = 0.0
        finals: list[Finals] = []
        for t in range(len(block.reward)):
            begun = time.perf_counter()
            block.obs[t], block.critic[t] = self.obs, self.critic
            action, block.mean[t], block.log_prob[t] = actor.act(self.obs, self.exploration)
            block.action[t] = action
            inference += time.perf_counter() - begun
            step = self._write(block, t, action)
            rows = step.truncated.nonzero()[:, 0]
            finals.append(Finals(torch.full_like(rows, t), rows, step.final_critic[rows]))
        return inference, Finals(*(torch.cat(part) for part in zip(*finals, strict=True)))

    def step_into(self, block: RolloutBlock, t: int, action: Tensor) -> Tensor:
        """Does what `TrainingEnv.step_into` says."""
        block.obs[t], block.critic[t] = self.obs, self.critic
        block.mean[t], block.action[t] = action, action
        final = self._write(block, t, action).final_critic
        if t + 1 < len(block.reward):
            block.obs[t + 1], block.critic[t + 1] = self.obs, self.critic
        return final

    def _write(self, block: RolloutBlock, t: int, action: Tensor) -> Transition:
        step = self.step(action)
        for name in ("reward", "terms", "terminated", "truncated", "reason", "stratum"):
            getattr(block, name)[t] = getattr(step, name)
        return step
