"""Environments in torch, step by step: the definition that compiled ones are held to."""

from surefoot.env.rules import OBSERVATION_LIMIT, resting
from surefoot.env.snapshots import join_snapshots, part_of_snapshot
from surefoot.env.step import Harvest, Step
from surefoot.env.vec import VecEnv

__all__ = [
    "OBSERVATION_LIMIT",
    "Harvest",
    "Step",
    "VecEnv",
    "join_snapshots",
    "part_of_snapshot",
    "resting",
]
