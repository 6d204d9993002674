"""Stride: MuJoCo's physics for legged robots, compiled from a model into one kernel per control step."""

from __future__ import annotations

from surefoot.engines.stride.engine import StrideEngine
from surefoot.engines.stride.refusals import CAPABILITIES

__all__ = ["CAPABILITIES", "StrideEngine"]
