"""The compiled environment: what a rollout does besides physics, as kernels generated from the task's own
functions."""

from surefoot.env.compiled.env import FusedEnv
from surefoot.env.compiled.panel import FusedPanel

__all__ = [
    "FusedEnv",
    "FusedPanel",
]
