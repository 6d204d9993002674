"""A rollout block of a policy that remembers: what its memory held is in the block."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from surefoot.contract import Memory
from surefoot.rollout.block import RolloutBlock


@dataclass
class MemoryBlock(RolloutBlock):
    """A block with what a policy remembered in it (docs/internals/memory.md)."""

    since: Tensor  # [T, N] int32 steps of the episode that are remembered beside this one
    earlier: (
        Tensor  # window: [K - 1 + T, N, O], `obs` being its last T rows; gru: [R, N, H] at the block's start
    )


def windows(block: MemoryBlock, size: int) -> Tensor:
    """Returns the last `size` observations of every sample's episode [T, N, size, O], the newest first, and
    its first one in place of those before it."""
    horizon, envs = block.since.shape
    back = torch.minimum(torch.arange(size), block.since[..., None].long())
    at = torch.arange(horizon)[:, None, None] + size - 1 - back
    return block.earlier[at, torch.arange(envs)[:, None]]


def with_memory(block: RolloutBlock, memory: Memory, mirrored: bool) -> RolloutBlock:
    """Returns a block with room for what a policy remembers; the same one where that is nothing. `mirrored`:
    whether samples are learned from in their mirror image too."""
    if not memory:
        return block
    own = {f.name: getattr(block, f.name) for f in fields(block)}
    horizon, envs, size = block.obs.shape
    if memory.kind == "window":
        earlier = block.obs.new_zeros(memory.size - 1 + horizon, envs, size)
        own["obs"] = earlier[memory.size - 1 :]
    else:
        earlier = block.obs.new_zeros(1 + mirrored, envs, memory.size)
    since = torch.zeros(horizon, envs, dtype=torch.int32, device=block.obs.device)
    return MemoryBlock(**own, since=since, earlier=earlier)
