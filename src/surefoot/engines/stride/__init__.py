"""Stride: MuJoCo's physics for legged robots, compiled from a model into one kernel per control step."""

from __future__ import annotations

from surefoot.engines.stride.engine import WIDTH, StrideEngine
from surefoot.engines.stride.kernel import FAILED, TRUNK_CONTACT
from surefoot.engines.stride.refusals import CAPABILITIES

__all__ = ["CAPABILITIES", "FAILED", "TRUNK_CONTACT", "WIDTH", "StrideEngine"]
