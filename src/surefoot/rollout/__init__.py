"""Rollouts: the block that holds one, what a policy remembers in it, and advantages."""

from surefoot.rollout.advantages import gae
from surefoot.rollout.block import RolloutBlock
from surefoot.rollout.memory import MemoryBlock, windows, with_memory

__all__ = [
    "MemoryBlock",
    "RolloutBlock",
    "gae",
    "windows",
    "with_memory",
]
