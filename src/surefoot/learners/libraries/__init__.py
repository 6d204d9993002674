"""Maintained learners on Surefoot's environments, each in one file and each in a process of its own.

Nothing here imports a library before it is asked to train with it: rl_games changes torch's global settings
and others take hold of signals, so a process that has imported one is its own.
"""

from surefoot.learners.libraries.env import LibraryEnv, LibraryStep
from surefoot.learners.libraries.names import LIBRARIES, find_learner
from surefoot.learners.libraries.session import LibraryNotes, Trained, TrainingDone

__all__ = [
    "LIBRARIES",
    "LibraryEnv",
    "LibraryNotes",
    "LibraryStep",
    "Trained",
    "TrainingDone",
    "find_learner",
]
