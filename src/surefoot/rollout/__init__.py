"""Rollouts: the block that holds one, and advantages."""

from surefoot.rollout.advantages import gae
from surefoot.rollout.block import RolloutBlock

__all__ = [
    "RolloutBlock",
    "gae",
]
