"""The compiled environment: what a rollout does besides physics, as kernels generated from the task's own
functions."""

from surefoot.fused.env import FusedEnv
from surefoot.fused.panel import FusedPanel
from surefoot.fused.symbols import Untraceable

__all__ = ["FusedEnv", "FusedPanel", "Untraceable"]
