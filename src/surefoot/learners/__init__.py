"""Learners: PPO, its networks and normaliser, checkpoints."""

from surefoot.learners.base import Learner, PpoMetrics
from surefoot.learners.normalizer import Normalizer
from surefoot.learners.ppo import Ppo
from surefoot.learners.symmetry import Symmetry, symmetry

__all__ = [
    "Learner",
    "Normalizer",
    "Ppo",
    "PpoMetrics",
    "Symmetry",
    "symmetry",
]
