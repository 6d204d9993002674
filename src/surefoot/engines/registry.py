"""Engines by name: which there are, which is the fastest for a robot, and one made.

A new engine of ours has its line in `ENGINES` and its case in `make_engine`; another package's is an entry
point of the group `surefoot.engines`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import torch

from surefoot.contract import Plant, SurefootError, unknown
from surefoot.engines.auto import fastest_engine
from surefoot.engines.mujoco import MujocoEngine
from surefoot.engines.mujoco_boxes import MujocoBoxesEngine
from surefoot.engines.protocol import Engine
from surefoot.robots import RobotSpec
from surefoot.terrain import Atlas

if TYPE_CHECKING:
    from surefoot.engines.mujoco_warp import MujocoWarpEngine

ENGINES = {
    "stride": "MuJoCo's contact model and solver compiled from the robot's MJCF, one kernel a control step; "
    "CPU and CUDA",
    "mujoco": "native MuJoCo on CPU threads, float64: the reference that results are stated on",
    "mujoco-boxes": "native MuJoCo in a box world: its own contact with boxes and planes in place of "
    "heightfields; to confirm, on the CPU",
    "mujoco-warp": "MuJoCo Warp, for robots that stride refuses; CUDA (on a CPU only to test it)",
}
BUILT_IN = tuple(ENGINES)
ON_CPU: dict[str, type[MujocoEngine]] = {e.name: e for e in (MujocoEngine, MujocoBoxesEngine)}


def choose_engine(name: str, robot: RobotSpec, plant: Plant, device: str) -> tuple[str, str]:
    """The engine that `name` stands for (`auto`: the fastest that can take the robot), and why."""
    if name == "auto":
        return fastest_engine(robot, plant, device)
    check_engine(name)
    if name in ON_CPU:
        _on_cpu(name, device)
    return name, "asked for"


def check_engine(name: str) -> None:
    """Refuses a name that is neither built in nor an entry point of the group surefoot.engines."""
    if name in BUILT_IN:
        return
    known = [*BUILT_IN, *(e.name for e in entry_points(group="surefoot.engines"))]
    if name not in known:
        raise unknown("engine", name, known)


def make_engine(
    name: str,
    robot: RobotSpec,
    plant: Plant,
    num_envs: int,
    *,
    atlas: Atlas | None = None,
    device: str = "cpu",
    **options: Any,
) -> Engine:
    """The engine called `name` with `num_envs` robots on flat ground or on an atlas."""
    check_engine(name)
    if name not in BUILT_IN:
        make = next(e for e in entry_points(group="surefoot.engines") if e.name == name).load()
        engine: Engine = make(robot, plant, num_envs, atlas=atlas, device=device, **options)
        return engine
    if name == "mujoco-warp":
        return _mujoco_warp()(robot, plant, num_envs, atlas=atlas, device=device, **options)
    if name == "stride":
        # Imported here because Warp takes a second to import, and not every command needs it.
        from surefoot.engines.stride.engine import StrideEngine

        return StrideEngine(robot, plant, num_envs, atlas=atlas, device=device, **options)
    _on_cpu(name, device)
    return ON_CPU[name](robot, plant, num_envs, atlas=atlas, **options)


def _on_cpu(name: str, device: str) -> None:
    if torch.device(device).type != "cpu":
        raise SurefootError(f"Engine '{name}' runs on the CPU; use --device cpu.")


def _mujoco_warp() -> type[MujocoWarpEngine]:
    """Imports the engine at the first use: it is an optional extra, and loading Warp takes a second."""
    version = importlib.metadata.version("mujoco-warp") if importlib.util.find_spec("mujoco_warp") else "4"
    if int(version.split(".")[0]) < 4:
        raise SurefootError(
            f"Engine 'mujoco-warp' needs MuJoCo Warp 4 and this environment has {version}, which mjlab pins; "
            "install Surefoot apart from mjlab: pip install 'surefoot[warp]'."
        )
    try:
        from surefoot.engines.mujoco_warp import MujocoWarpEngine
    except ModuleNotFoundError as error:
        if error.name not in ("warp", "mujoco_warp"):
            raise
        raise SurefootError(
            f"Engine 'mujoco-warp' needs the package {error.name}; "
            "install it with: pip install 'surefoot[warp]'."
        ) from error
    return MujocoWarpEngine
