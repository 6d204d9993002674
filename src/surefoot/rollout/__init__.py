"""Rollouts: block storage, collection, advantages."""

from surefoot.rollout.advantages import gae
from surefoot.rollout.block import RolloutBlock
from surefoot.rollout.collect import Collector, collect

__all__ = ["Collector", "RolloutBlock", "collect", "gae"]
