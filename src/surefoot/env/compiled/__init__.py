"""The compiled environment: what a rollout does besides physics, as kernels generated from the task's own
functions."""

from surefoot.env.compiled.env import CompiledEnv
from surefoot.env.compiled.panel import CompiledPanel

__all__ = [
    "CompiledEnv",
    "CompiledPanel",
]
