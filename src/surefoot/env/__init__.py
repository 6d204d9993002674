"""Environments: what a trainer steps (`TrainingEnv`), and the definition of a control step in torch
(`VecEnv`), to which the compiled ones are held."""

from surefoot.env.base import Actor, EpisodeStats, Finals, Step, Stepwise, TrainingEnv, Transition
from surefoot.env.faults import FAULT_NAMES, Faults
from surefoot.env.rules import OBSERVATION_LIMIT
from surefoot.env.scenarios import NEVER, PanelSampler, Scenarios, Script, TrainSampler
from surefoot.env.snapshots import join_snapshots, part_of_snapshot
from surefoot.env.vec_env import VecEnv

__all__ = [
    "FAULT_NAMES",
    "NEVER",
    "OBSERVATION_LIMIT",
    "Actor",
    "EpisodeStats",
    "Faults",
    "Finals",
    "PanelSampler",
    "Scenarios",
    "Script",
    "Step",
    "Stepwise",
    "TrainSampler",
    "TrainingEnv",
    "Transition",
    "VecEnv",
    "join_snapshots",
    "part_of_snapshot",
]
