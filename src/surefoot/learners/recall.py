"""Acting with a memory: the actor that a rollout asks where the policy remembers its episode.

A recall goes with one block. Which episodes ended it reads from the row of the block that was written last,
and begins their memory anew by masks, so any environment that fills blocks can be acted in. What follows
from one environment is in its own row of every tensor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from surefoot.rollout import MemoryBlock

if TYPE_CHECKING:
    from surefoot.learners.ppo import Ppo


class Recall(ABC):
    """Acts for one rollout after the other into `block`: an `Actor` between `begin` and `end`."""

    def __init__(self, learner: Ppo, block: MemoryBlock, most: int) -> None:
        """`most`: where the count of remembered steps stops."""
        self.learner, self.block, self._most = learner, block, most
        self._step = 0
        self.since = torch.zeros_like(block.since[0])
        """[N] of the step to come: 0 where an episode begins, or its memory does."""

    # ---- a rollout

    def begin(self) -> None:
        """Begins a rollout with the memory that the last one left."""
        self._step = 0
        self.block.since[0].copy_(self.since)

    @abstractmethod
    def features(self, obs: Tensor) -> Tensor:
        """Returns what the actor's layers read [N, inputs] at this step, of which `block.since` is known, and
        remembers the step."""

    def end(self) -> None:
        """Keeps what the next rollout begins with."""
        self.since.copy_(self._next(len(self.block.since) - 1))

    def _next(self, t: int) -> Tensor:
        """Returns [N], the steps that are remembered after step `t`."""
        b = self.block
        over = b.terminated[t] | b.truncated[t]
        return torch.where(over, 0, (b.since[t] + 1).clamp_max(self._most))

    # ---- an actor

    @property
    def log_std(self) -> Tensor:
        return self.learner.log_std

    def mean(self, obs: Tensor) -> Tensor:
        """Returns mean actions [N, A]; asked once for every step of the block, in order."""
        if self._step:
            self.block.since[self._step].copy_(self._next(self._step - 1))
        out = self.learner.mean_of(self.features(obs))
        self._step += 1
        return out

    def act(self, obs: Tensor, exploration: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = self.mean(obs)
        action = mean + self.log_std.exp() * exploration
        return action, mean, self.learner.networks.log_prob(mean, action)

    # ---- exact resume

    @abstractmethod
    def kept(self) -> Tensor:
        """Returns what is remembered between rollouts, [N, ...] and in its own memory."""

    def snapshot(self) -> dict[str, Tensor]:
        """Returns copies of all that the next rollout depends on, a row per environment."""
        return {"memory.since": self.since.clone(), "memory.kept": self.kept().clone()}

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        """Goes on from where `snapshot` was taken."""
        self.since.copy_(snapshot["memory.since"])
        self.kept().copy_(snapshot["memory.kept"])


class GruRecall(Recall):
    """Remembers the state of a gated recurrent unit; where samples are learned from in their mirror image
    too, also the state that it would have in the mirrored episode."""

    def __init__(self, learner: Ppo, block: MemoryBlock) -> None:
        super().__init__(learner, block, 1)
        self._state = torch.zeros_like(block.earlier)  # [R, N, H]

    def begin(self) -> None:
        super().begin()
        self.block.earlier.copy_(self._state)

    def features(self, obs: Tensor) -> Tensor:
        learner, copies = self.learner, len(self._state)
        goes_on = (self.block.since[self._step] > 0)[None, :, None]
        before = torch.where(goes_on, self._state, 0.0)
        x = learner.normal(obs)
        seen = x
        if copies > 1:
            assert learner.symmetry is not None
            seen = torch.cat([x, learner.normal(learner.symmetry.observation(obs))])
        self._state.copy_(learner.remember(seen, before.flatten(0, 1)).view(before.shape))
        return torch.cat([x, self._state[0]], 1)

    def kept(self) -> Tensor:
        return self._state.movedim(1, 0)


class WindowRecall(Recall):
    """Remembers the last K observations; before an episode's first one it saw that one."""

    def __init__(self, learner: Ppo, block: MemoryBlock, size: int) -> None:
        super().__init__(learner, block, size - 1)
        self._kept = torch.zeros_like(block.earlier[: size - 1])
        self._seen = torch.zeros_like(block.earlier)
        """[K - 1 + T, N, O] of the block, normalised: once, since the normaliser stays as it is meanwhile."""
        self._lag = torch.arange(size, device=block.obs.device)
        self._envs = torch.arange(block.obs.shape[1], device=block.obs.device)[:, None]

    def begin(self) -> None:
        super().begin()
        self.block.earlier[: self._most].copy_(self._kept)
        self._seen[: self._most].copy_(self.learner.normal(self._kept))

    def features(self, obs: Tensor) -> Tensor:
        now = self._most + self._step
        self._seen[now].copy_(self.learner.normal(obs))
        back = torch.minimum(self._lag, self.block.since[self._step][:, None])  # [N, K]
        rows = (now - back) * len(self._envs) + self._envs  # the newest first
        return self._seen.flatten(0, 1).index_select(0, rows.flatten()).view(len(obs), -1)

    def end(self) -> None:
        super().end()
        self._kept.copy_(self.block.earlier[-self._most :])

    def kept(self) -> Tensor:
        return self._kept.movedim(1, 0)
