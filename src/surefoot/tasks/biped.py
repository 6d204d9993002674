"""Velocity tracking with the biped: 3.1 kg, legs of 0.22 m with six joints each, soles of 11 x 8 cm.

Two feet make another problem of it than four: it must always be falling a little, one foot at a time. So
steps are paid in single support only, hops are not, and knees, trunk height and hips are held near the pose
that it can step from. Commands reach 0.6 m/s forwards, a Froude number of 0.17 (a human's usual walk has 0.2;
at 1 m/s it would have to run). A shove of 0.36 m/s is what soles of this length catch without a step.
"""

from __future__ import annotations

from surefoot.contract import Recipe, RewardTerm, Success, Windows
from surefoot.robots import robot
from surefoot.tasks.task import Task
from surefoot.tasks.velocity import Ranges, velocity_task

RANGES: Ranges = {
    "payload": (-0.25, 0.25),
    "com": (-0.01, 0.01),
    "push": (0.0, 0.4),
    "pose": (-0.05, 0.05),
    "velocity": (-0.1, 0.1),
    "vx": (-0.4, 0.6),
    "vy": (-0.25, 0.25),
    "wz": (-0.7, 0.7),
}

REWARDS = (
    RewardTerm(name="track_linear", weight=1.5, params={"width": 0.1}, doc="exp(-|v error|^2 / width)"),
    RewardTerm(name="track_yaw", weight=0.75, params={"width": 0.25}, doc="exp(-yaw rate error^2 / width)"),
    RewardTerm(name="linear_error", weight=-1.0, doc="|v error|: pulls where the exponential is flat"),
    RewardTerm(name="yaw_error", weight=-0.3),
    RewardTerm(
        name="single_support", weight=0.5, params={"most": 0.4}, doc="one foot at a time; both to stand"
    ),
    RewardTerm(
        name="swing",
        weight=1.0,
        params={"threshold": 0.1, "most": 0.3},
        doc="swing time at touchdown, in single support",
    ),
    RewardTerm(name="vertical_velocity", weight=-1.0),
    RewardTerm(name="roll_pitch_rate", weight=-0.02),
    RewardTerm(name="tilt", weight=-2.0),
    RewardTerm(name="trunk_height", weight=-5.0),
    RewardTerm(name="torque", weight=-1e-3),
    RewardTerm(name="torque_limits", weight=-3.0, params={"share": 0.8}),
    RewardTerm(name="action_rate", weight=-0.01),
    RewardTerm(
        name="posture",
        weight=-0.3,
        params={
            "hip_yaw": 1.0,
            "hip_roll": 1.0,
            "hip_pitch": 0.1,
            "knee": 0.1,
            "ank_pitch": 0.1,
            "ank_roll": 1.0,
        },
    ),
    RewardTerm(name="stand_still", weight=-0.1),
    RewardTerm(name="slip", weight=-0.25),
    RewardTerm(name="joint_limits", weight=-1.0, params={"margin": 0.05}),
)

SUCCESS = Success(velocity_error_mps=0.2, yaw_error_radps=0.4, windows=Windows())
"""The trunk of a biped sways and turns with every step, so its yaw rate may differ more at any instant; its
commands are slower, so its speed may differ less."""


def walk_biped_flat() -> Task:
    return velocity_task(
        "walk-biped-flat",
        robot=robot("biped"),
        panel="walk-biped-flat-v2",
        rewards=REWARDS,
        recipe=Recipe(init_std=0.5),
        ranges=RANGES,
        action_scale_rad=0.25,
        success=SUCCESS,
        until=0.95,
        minutes=20.0,
        cuda_minutes=1 / 6,
    )
