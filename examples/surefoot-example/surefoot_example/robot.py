"""The prancer: an invented quadruped, smaller than a Go1, from an MJCF of its own."""

from __future__ import annotations

from importlib.resources import as_file, files

from surefoot.robots import RobotSpec


def prancer() -> RobotSpec:
    """Torque limits come from the file's actuators, joint ranges and masses from its joints and geoms."""
    with as_file(files(__package__) / "prancer.xml") as path:
        return RobotSpec.from_mjcf(
            path,
            feet=("FR_foot", "FL_foot", "RR_foot", "RL_foot"),
            default_pose=(0.0, 0.8, -1.5) * 4,  # rad: hip, thigh, calf
            kp=25.0,
            kd=0.6,
        )
