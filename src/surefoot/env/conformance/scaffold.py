"""What checks are made of: actors, rollouts, and comparisons that say which promise is broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from surefoot.env.base import EpisodeStats, Finals, TrainingEnv
from surefoot.rollout import RolloutBlock

Make = Callable[[range], TrainingEnv]
Check = Callable[[Make], None]

ENVS = 8
"""Environments of the plan that checks are made on."""
HORIZON = 24
"""Steps of a rollout."""
EXPERIENCE = (
    "obs",
    "critic",
    "action",
    "mean",
    "log_prob",
    "reward",
    "terms",
    "terminated",
    "truncated",
    "reason",
    "stratum",
)
"""Fields of a block that a rollout fills; the learner fills the others."""


class Actor:
    """Actions that differ from environment to environment, with exploration on top. `size` 0 is calm: nearly
    zero actions; with larger ones robots fall.

    Only sums, products and remainders, which torch rounds alike wherever a row stands in its batch.
    """

    def __init__(self, env: TrainingEnv, size: float = 0.0) -> None:
        self._size, self._count = size, env.contract.action.size
        self.log_std = torch.full((self._count,), -2.0, device=env.device)

    def mean(self, obs: Tensor) -> Tensor:
        columns = torch.arange(self._count, device=obs.device)
        wave = (3.0 * obs[:, columns % obs.shape[1]] + columns) % 2.0 - 1.0
        return self._size * wave

    def act(self, obs: Tensor, exploration: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = self.mean(obs)
        return mean + self.log_std.exp() * exploration, mean, -0.5 * exploration.square().sum(1)


@dataclass
class Rolled:
    """One rollout, and what the environments said after it."""

    block: RolloutBlock
    finals: Finals
    obs: Tensor  # [N, O] to act on next
    critic: Tensor  # [N, C]
    age: Tensor  # [N]
    stats: EpisodeStats

    @property
    def ends(self) -> Tensor:
        """[T, N] bool, where an episode ended."""
        return self.block.terminated | self.block.truncated


def empty_block(env: TrainingEnv, steps: int = HORIZON) -> RolloutBlock:
    """A block in which whatever is not written shows: NaN where numbers may be, True where booleans."""
    c = env.contract
    widths = (c.observation_size, c.critic_size, c.action.size, len(c.rewards))
    block = RolloutBlock.empty(steps, env.num_envs, *widths, env.device)
    for name in EXPERIENCE:
        tensor = getattr(block, name)
        tensor.fill_(torch.nan if tensor.dtype.is_floating_point else 1)
    return block


@torch.inference_mode()
def roll(env: TrainingEnv, size: float = 0.0) -> Rolled:
    """Takes a rollout under an actor of `size`; all tensors are copies."""
    block = empty_block(env)
    _, finals = env.rollout(Actor(env, size), block)
    finals = Finals(*(x.clone() for x in finals))
    return Rolled(block, finals, env.obs.clone(), env.critic.clone(), env.age(), stats_of(env))


def live(env: TrainingEnv, size: float = 0.0) -> list[Rolled]:
    """Takes rollouts until every environment has taken a whole episode's steps."""
    return [roll(env, size) for _ in range(-(-env.episode_steps // HORIZON))]


def stats_of(env: TrainingEnv) -> EpisodeStats:
    """Returns what a trainer asks for after each rollout."""
    return env.episode_stats({k: v.cpu().clone() for k, v in env.stats_tensors().items()})


def column(rolled: list[Rolled], name: str) -> np.ndarray:
    """Returns a column of all episodes that ended."""
    return np.concatenate([e[name] for r in rolled for e in r.stats.ended] or [np.zeros(0)])


def assert_same(a: Rolled, b: Rolled, promise: str, rows: slice = slice(None)) -> None:
    """Fails with `promise` unless `b` is the environments `rows` of `a`, to the bit."""
    wrong = [n for n in EXPERIENCE if not same_bits(getattr(a.block, n)[:, rows], getattr(b.block, n))]
    wrong += [n for n in ("obs", "critic", "age") if not same_bits(getattr(a, n)[rows], getattr(b, n))]
    hold(not wrong, f"{promise}: {', '.join(wrong)} differ.")


def same_bits(a: Tensor, b: Tensor) -> bool:
    raw = [x.detach().contiguous().reshape(-1).view(torch.uint8) for x in (a, b)]
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(*raw)


def joined(rolled: list[Rolled], name: str) -> Tensor:
    """Returns a field of consecutive blocks, [steps, N, ...]."""
    return torch.cat([getattr(r.block, name) for r in rolled])


def hold(condition: Tensor | bool | np.bool_, promise: str) -> None:
    """An assertion that python -O does not remove."""
    if not bool(torch.as_tensor(condition).all()):
        raise AssertionError(promise)
