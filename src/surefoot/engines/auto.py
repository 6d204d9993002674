"""What `--engine auto` means: the fastest engine that can simulate this robot here, and why it was taken."""

from __future__ import annotations

import importlib
import importlib.util

import torch

from surefoot.contract import Plant
from surefoot.robots import RobotSpec
from surefoot.terrain import Atlas

STRIDE = "surefoot.engines.stride"


def choose_engine(
    robot: RobotSpec, plant: Plant, atlas: Atlas | None = None, *, device: str = "cpu"
) -> tuple[str, str]:
    """The engine's name, and a sentence that says why it and not a faster one."""
    against = _against_stride(robot, plant, atlas)
    if against is None:
        return "stride", f"Engine stride: it can represent robot '{robot.name}'."
    if torch.device(device).type != "cuda":
        return "mujoco", f"Engine mujoco: {against}, and MuJoCo Warp is for CUDA devices."
    if importlib.util.find_spec("mujoco_warp") is None:
        return "mujoco", f"Engine mujoco: {against}, and MuJoCo Warp is not installed (surefoot[warp])."
    return "mujoco-warp", f"Engine mujoco-warp: {against}."


def _against_stride(robot: RobotSpec, plant: Plant, atlas: Atlas | None) -> str | None:
    if importlib.util.find_spec(STRIDE) is None:
        return "stride is not available"
    reason: str | None = importlib.import_module(STRIDE).refusal(robot, plant, atlas)
    return reason and f"stride cannot take robot '{robot.name}' ({reason.rstrip('.')})"
