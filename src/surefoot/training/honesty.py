"""Batch honesty: is a rollout block as many independent samples as it looks, spread as it should be?

All of it is tensor operations on the block's device, ending in one transfer to the host. It reads the block
and what the environments were doing, and changes neither.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from surefoot.rollout import RolloutBlock

EVERY = 10
"""Updates between two looks at the batch."""


def honesty_figures(
    block: RolloutBlock,
    start_age: Tensor,
    content: Tensor,
    *,
    families: int,
    strata: Sequence[int],
) -> Tensor:
    """Returns all figures as one vector, computed without asking the device; `honesty_row` names them.

    `start_age` [N] is the age of each episode, in steps, before the block's first step; `content` [N, K] what
    was drawn for the episodes that run at its end; `strata` is the number of bins of each stratified factor.
    """
    done = block.terminated | block.truncated
    resets = done.sum(1, dtype=torch.float64)  # [T]
    icc_return, n_eff_return = family_worth(block.returns, families)
    icc_advantage, n_eff_advantage = family_worth(block.advantage, families)
    member = block.stratum.flatten()[:, None] == torch.arange(math.prod(strata), device=done.device)
    count = member.sum(0)
    total = torch.where(member, block.returns.flatten()[:, None], 0.0).sum(0, dtype=torch.float64)
    age = ages(start_age, done)
    single = torch.stack(
        [
            sync_index(age),
            resets.var() / resets.mean(),  # nan without a reset or with one step
            duplicates(content).double(),
            two_way_coverage(count, strata),
            icc_return,
            n_eff_return,
            icc_advantage,
            n_eff_advantage,
            lockstep(age),
        ]
    )
    return torch.cat([single, total / count])


NAMES = (
    "reset_sync_index",
    "reset_fano",
    "duplicate_scenarios",
    "coverage_two_way",
    "icc_return",
    "n_eff_return",
    "icc_advantage",
    "n_eff_advantage",
    "lockstep",
)


def honesty_row(figures: Tensor, samples: int) -> dict[str, Any]:
    """Returns the `honesty.*` and `stratum_return.*` entries of a ledger row."""
    host: list[float] = figures.tolist()
    finite = [x if math.isfinite(x) else None for x in host]
    row: dict[str, Any] = {f"honesty.{k}": v for k, v in zip(NAMES, finite, strict=False)}
    row["honesty.duplicate_scenarios"] = int(host[2])
    row["honesty.n"] = samples
    return row | {f"stratum_return.{k}": v for k, v in enumerate(finite[len(NAMES) :])}


def ages(start: Tensor, done: Tensor) -> Tensor:
    """Returns the steps that each episode had taken before each step [T, N], from the ages at the start and
    the ends."""
    step = torch.arange(len(done), device=done.device)[:, None]
    ended = torch.where(done, step + 1, torch.zeros_like(step))  # step at which the next episode begins
    begun = torch.cat([torch.zeros_like(ended[:1]), ended[:-1].cummax(0).values])
    return torch.where(begun > 0, step - begun, step + start)


def sync_index(age: Tensor) -> Tensor:
    """Returns how much of the variance of ages [T, N] is between steps: 1 when all environments are equally
    old at every step, about 0 when they are staggered.

    The one-way ANOVA estimator of the ICC with steps as groups, clipped to 0..1. Equal ages in two or three
    clumps are not 1; the Fano factor of resets shows those.
    """
    x = age.double()
    steps, envs = x.shape
    mean = x.mean(1)
    within = ((x - mean[:, None]) ** 2).sum() / max(steps * (envs - 1), 1)
    between = envs * ((mean - mean.mean()) ** 2).sum() / max(steps - 1, 1)
    value = (between - within) / (between + (envs - 1) * within)
    return torch.where(within == 0, torch.ones_like(value), value.clamp(0, 1))


def lockstep(age: Tensor) -> Tensor:
    """Returns the share of environments that are as old as most others are, of ages [T, N]: at each step the
    largest group of equal age but one, over all but one; the mean over steps.

    1 when all environments are equally old, 0.9 when 90% of them are, 1 / (N - 1) or so when they are
    staggered: then a few meet by chance.
    """
    x = age.sort(1).values
    place = torch.arange(x.shape[1], device=x.device).expand_as(x)
    begins = torch.ones_like(x, dtype=torch.bool)
    begins[:, 1:] = x[:, 1:] != x[:, :-1]
    earlier = place - torch.where(begins, place, 0).cummax(1).values  # how many of its age stand before it
    return (earlier.max(1).values.double() / max(x.shape[1] - 1, 1)).mean()


def family_worth(values: Tensor, families: int) -> tuple[Tensor, Tensor]:
    """Returns the ICC over families of per-sample values [T, N], and the independent samples they are worth.

    Environments of a family are neighbours. n / (1 + (m - 1) icc) with m samples in a family: from n down to
    the number of families.
    """
    n = values.numel()
    x = values.double().view(len(values), families, -1).transpose(0, 1).flatten(1)  # [F, m]
    m = x.shape[1]
    mean = x.mean(1)
    within = ((x - mean[:, None]) ** 2).sum() / max(n - families, 1)
    between = m * ((mean - mean.mean()) ** 2).sum() / max(families - 1, 1)
    whole = between + (m - 1) * within
    icc = torch.where(whole > 0, (between - within) / whole, torch.zeros_like(whole)).clamp(0, 1)
    if families == 1:  # nothing shows that one family is more than one draw
        icc = torch.ones_like(icc)
    return icc, n / (1 + (m - 1) * icc)


def duplicates(content: Tensor) -> Tensor:
    """Counts the environments whose episode is a copy of another's: not the label, the drawn content [N, K]
    decides.

    It is hashed by its bits; n less the number of different hashes. Two different ones meet by a chance of
    about 2^-64.
    """
    bits = content.float().contiguous().view(torch.int32).long()
    # A multiply-xorshift mix of each word, then a sum weighted by odd numbers; int64 wraps around.
    place = torch.arange(1, bits.shape[1] + 1, device=bits.device)
    mixed = (bits + place * 0x9E3779B97F4A7C1) * -0x61C8864680B583EB
    mixed = (mixed ^ (mixed >> 29)) * 0x3F58476D1CE4E5B9
    key = ((mixed ^ (mixed >> 32)) * (2 * place + 1)).sum(1).sort().values
    return (key[1:] == key[:-1]).sum()


def two_way_coverage(count: Tensor, strata: Sequence[int]) -> Tensor:
    """Returns the share of the pairs of cells, over all pairs of stratified factors, that have a sample.

    `count` [S] are samples by stratum. With one factor: the share of its cells.
    """
    seen = (count > 0).view(*strata)
    axes = range(len(strata))
    pairs = list(combinations(axes, min(2, len(strata))))
    hit = torch.zeros((), dtype=torch.float64, device=count.device)
    cells = 0
    for pair in pairs:
        others = [a for a in axes if a not in pair]
        table = seen.sum(others) > 0 if others else seen
        hit = hit + table.sum()
        cells += table.numel()
    return hit / max(cells, 1)
