"""What `--engine auto` means: the fastest engine that can simulate this robot here, and why it was taken."""

from __future__ import annotations

import importlib.util

import torch

from surefoot.contract import Plant, SurefootError
from surefoot.engines.scene import build_scene
from surefoot.robots import RobotSpec


def fastest_engine(robot: RobotSpec, plant: Plant, device: str) -> tuple[str, str]:
    """The engine's name, and a sentence that says why it and not a faster one."""
    against = _against_stride(robot, plant)
    if against is None:
        return "stride", "compiled from the robot's MJCF; native MuJoCo confirms"
    if torch.device(device).type != "cuda":
        return "mujoco", f"{against} MuJoCo Warp is for CUDA devices."
    if importlib.util.find_spec("mujoco_warp") is None:
        raise SurefootError(
            f"{against} On {device} that leaves MuJoCo Warp, which is not installed; "
            "pip install 'surefoot[warp]', or use --device cpu."
        )
    return "mujoco-warp", against


def _against_stride(robot: RobotSpec, plant: Plant) -> str | None:
    from surefoot.engines.stride.description import describe
    from surefoot.engines.stride.layout import lay_out

    scene = build_scene(robot, plant)
    try:
        lay_out(describe(scene.model, scene.trunk, robot.feet), plant.heightfield is not None)
    except SurefootError as refusal:
        return str(refusal)
    return None
