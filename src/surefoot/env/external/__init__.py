"""Environments from outside: Gymnasium's, EnvPool's and mjlab's, trained and judged as Surefoot's own are."""

from surefoot.env.external.env import ALIVE, NONFINITE, REASONS, TERMINATED, TIMEOUT, ActionScale, OutsideEnv
from surefoot.env.external.task import OutsideTask, is_outside, outside_task

__all__ = [
    "ALIVE",
    "NONFINITE",
    "REASONS",
    "TERMINATED",
    "TIMEOUT",
    "ActionScale",
    "OutsideEnv",
    "OutsideTask",
    "is_outside",
    "outside_task",
]
