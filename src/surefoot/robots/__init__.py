"""Robots: legged robots as MJCF built from published figures, and any legged MJCF a user brings."""

from __future__ import annotations

from surefoot.robots.anymal import anymal
from surefoot.robots.biped import biped
from surefoot.robots.go1 import go1
from surefoot.robots.hexapod import hexapod
from surefoot.robots.registry import ROBOTS, robot
from surefoot.robots.spec import RobotSpec

__all__ = [
    "ROBOTS",
    "RobotSpec",
    "anymal",
    "biped",
    "go1",
    "hexapod",
    "robot",
]
