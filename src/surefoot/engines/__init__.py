"""Engines: simulators behind one protocol."""

from __future__ import annotations

from typing import Any

import torch

from surefoot.contract import Plant, SurefootError, unknown
from surefoot.engines.mujoco import MujocoEngine
from surefoot.engines.protocol import Engine, Parameters, RobotState, Rows, Start
from surefoot.robots import RobotSpec
from surefoot.terrain import Atlas

__all__ = ["ENGINES", "Engine", "MujocoEngine", "Parameters", "RobotState", "Rows", "Start", "make_engine"]

ENGINES = ("mujoco",)


def make_engine(
    name: str, robot: RobotSpec, plant: Plant, num_envs: int, *, atlas: Atlas | None = None, device: str = "cpu", **options: Any
) -> Engine:
    """The engine called `name` with `num_envs` robots on flat ground or on an atlas."""
    if name not in ENGINES:
        raise unknown("engine", name, ENGINES)
    if torch.device(device).type != "cpu":
        raise SurefootError("Engine 'mujoco' runs on the CPU; use --device cpu.")
    return MujocoEngine(robot, plant, num_envs, atlas=atlas, **options)
