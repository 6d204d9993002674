"""Engines: simulators behind one protocol."""

from __future__ import annotations

from surefoot.engines.mujoco import MujocoEngine, rotation_of
from surefoot.engines.mujoco_boxes import MujocoBoxesEngine
from surefoot.engines.protocol import Engine, Parameters, RobotState, Rows, Start
from surefoot.engines.registry import ENGINES, check_engine, choose_engine, make_engine
from surefoot.engines.surface import make_surface
from surefoot.engines.versions import engine_version, minor_version

__all__ = [
    "ENGINES",
    "Engine",
    "MujocoBoxesEngine",
    "MujocoEngine",
    "Parameters",
    "RobotState",
    "Rows",
    "Start",
    "check_engine",
    "choose_engine",
    "engine_version",
    "make_engine",
    "make_surface",
    "minor_version",
    "rotation_of",
]
