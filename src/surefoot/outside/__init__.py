"""Environments from outside: Gymnasium's, EnvPool's and mjlab's, trained and judged as Surefoot's own are."""

from surefoot.outside.env import OutsideEnv
from surefoot.outside.panel import BASELINES, SeedEvaluator, evaluate_seeds, outside_baseline
from surefoot.outside.task import OutsideTask, is_outside, outside_task

__all__ = [
    "BASELINES",
    "OutsideEnv",
    "OutsideTask",
    "SeedEvaluator",
    "evaluate_seeds",
    "is_outside",
    "outside_baseline",
    "outside_task",
]
