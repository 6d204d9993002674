"""Environments in torch, step by step: the definition that compiled ones are held to."""

from surefoot.env.rules import OBSERVATION_LIMIT
from surefoot.env.scenarios import NEVER, PanelSampler, Scenarios, Script, TrainSampler
from surefoot.env.snapshots import join_snapshots, part_of_snapshot
from surefoot.env.step import EpisodeStats, Step
from surefoot.env.vec_env import VecEnv

__all__ = [
    "NEVER",
    "OBSERVATION_LIMIT",
    "EpisodeStats",
    "PanelSampler",
    "Scenarios",
    "Script",
    "Step",
    "TrainSampler",
    "VecEnv",
    "join_snapshots",
    "part_of_snapshot",
]
