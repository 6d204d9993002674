"""Policies that act for a part of the environments, and for all of them, with the same bits.

A row of a matrix product can differ in its last bits with the number of rows. So inference is in tiles of a
fixed number of rows, with each environment at its own place, whoever else is there: an actor fills up the
tiles that its environments are in. Where all environments are one tile, that is what one process without a
fleet computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from surefoot.learners import Ppo
from surefoot.training import Plan

TILE = 64
"""Environments of a tile, or all of them where they are fewer."""
ACTING = ("actor.", "log_std")
"""What the names of the parameters that act begin with."""


class Tiles:
    """Computes by tiles for the environments `part` of all `envs`."""

    def __init__(self, part: range, envs: int) -> None:
        self.size = size = min(TILE, envs)
        first, last = part.start // size, -(-part.stop // size)
        self._rows = (last - first) * size
        self._begin, self._end = part.start - first * size, part.stop - first * size

    def __call__(self, compute: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """Returns `compute` of `x` [rows, ...], row by row, a tile at a time."""
        full = x
        if len(x) < self._rows:
            full = x.new_zeros(self._rows, *x.shape[1:])
            full[self._begin : self._end] = x
        return torch.cat([compute(tile) for tile in torch.split(full, self.size)])[self._begin : self._end]


def make_policy(plan: Plan, device: str = "cpu") -> Ppo:
    """Returns a learner that is asked for nothing but actions."""
    where = torch.device(device)
    return Ppo(plan.task.contract, plan.recipe, plan.mirror(where), plan.seeds, where)


def weights_of(policy: Ppo) -> dict[str, Tensor]:
    """Returns copies of what a policy acts with, weights and normaliser: they travel together."""
    out = {k: v.cpu() for k, v in policy.networks.state_dict().items() if k.startswith(ACTING)}
    out |= {f"normaliser.{k}": v.cpu() for k, v in policy.obs_normalizer.tensors().items()}
    return {k: v.detach().clone() for k, v in out.items()}


@torch.no_grad()
def take_weights(policy: Ppo, weights: Mapping[str, Tensor]) -> None:
    """Lets a policy act as the one that `weights` are of."""
    prefix = "normaliser."
    own = policy.networks.state_dict()
    for name, value in weights.items():
        if not name.startswith(prefix):
            own[name].copy_(value)
    policy.obs_normalizer.load(
        {k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)}
    )


class TiledPolicy:
    """Acts for a part of the environments: an `Actor` as rollouts ask it. `tiled`: to the bit as for all of
    them; else a large policy computes no rows that nobody needs."""

    def __init__(self, policy: Ppo, part: range, envs: int, tiled: bool = True) -> None:
        self.policy = policy
        self._tiles = Tiles(part, envs) if tiled else None
        self.version = 0
        """The policy's, as the learner counts them."""

    @property
    def log_std(self) -> Tensor:
        return self.policy.log_std

    def mean(self, obs: Tensor) -> Tensor:
        return self.policy.mean(obs) if self._tiles is None else self._tiles(self.policy.mean, obs)

    def act(self, obs: Tensor, exploration: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = self.mean(obs)
        action = mean + self.log_std.exp() * exploration
        return action, mean, self.policy.networks.log_prob(mean, action)

    def take_trips(self) -> list[float]:
        """Returns no seconds of round trips: there are none."""
        return []
