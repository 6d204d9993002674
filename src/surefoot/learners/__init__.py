"""Learners: PPO, its networks and normaliser, checkpoints."""

from surefoot.learners.normalizer import Normalizer
from surefoot.learners.ppo import Ppo, PpoMetrics
from surefoot.learners.symmetry import Symmetry, symmetry

__all__ = [
    "Normalizer",
    "Ppo",
    "PpoMetrics",
    "Symmetry",
    "symmetry",
]
