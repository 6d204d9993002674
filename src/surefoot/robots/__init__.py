"""Robots: legged robots as MJCF built from published figures, and any legged MJCF a user brings.

On the floor of the world: stands on `contract` and `artifacts`. MuJoCo is imported when a model is compiled,
not before. Main names: `RobotSpec`, `robot`, `Skeleton`.
"""

from __future__ import annotations

from surefoot.robots.anymal import anymal
from surefoot.robots.biped import biped
from surefoot.robots.drawing import make_skeleton, save_skeleton
from surefoot.robots.go1 import go1
from surefoot.robots.hexapod import hexapod
from surefoot.robots.kinematics import lowest_point, posed
from surefoot.robots.registry import ROBOTS, robot
from surefoot.robots.skeleton import FILE as SKELETON_FILE
from surefoot.robots.skeleton import Shape, Skeleton
from surefoot.robots.spec import RobotSpec

__all__ = [
    "ROBOTS",
    "SKELETON_FILE",
    "RobotSpec",
    "Shape",
    "Skeleton",
    "anymal",
    "biped",
    "go1",
    "hexapod",
    "lowest_point",
    "make_skeleton",
    "posed",
    "robot",
    "save_skeleton",
]
