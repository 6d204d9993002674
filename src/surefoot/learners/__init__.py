"""Learners: what one is (`base`), PPO to be read (`reference`) and to be run (`ppo`, `update`, `kernels`)."""

from surefoot.learners.base import Learner, PpoMetrics
from surefoot.learners.normalizer import Normalizer
from surefoot.learners.ppo import Ppo
from surefoot.learners.ppo_reference import ReferencePpo, gru
from surefoot.learners.recall import Recall
from surefoot.learners.symmetry import Symmetry, symmetry

__all__ = [
    "Learner",
    "Normalizer",
    "Ppo",
    "PpoMetrics",
    "Recall",
    "ReferencePpo",
    "Symmetry",
    "gru",
    "symmetry",
]
