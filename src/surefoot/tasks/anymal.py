"""Velocity tracking with the ANYmal-class robot: `walk-flat` and `walk-rough` for 52 kg on longer legs.

What its size changes: payloads and centre-of-mass offsets grow with the body, joint torques with weight times
leg length (so their price falls with the square), and a longer leg swings more slowly.
"""

from __future__ import annotations

from surefoot.contract import RewardTerm
from surefoot.robots import robot
from surefoot.tasks.task import CUDA_RECIPE, Task
from surefoot.tasks.velocity import WALK_REWARDS, Ranges, reweighted, velocity_task

RANGES: Ranges = {
    "payload": (-5.0, 5.0),
    "com": (-0.04, 0.04),
}

REWARDS = (
    *reweighted(WALK_REWARDS, drop=("air",), torque=-1e-5),
    RewardTerm(name="torque_limits", weight=-1.0, params={"share": 0.9}),
    RewardTerm(
        name="air", weight=0.5, params={"threshold": 0.1, "most": 0.45}, doc="swing time at touchdown"
    ),
)


def walk_anymal_flat() -> Task:
    return velocity_task(
        "walk-anymal-flat",
        robot=robot("anymal"),
        panel="walk-anymal-flat-v2",
        rewards=REWARDS,
        ranges=RANGES,
        cuda_minutes=1 / 6,
    )


def walk_anymal_rough() -> Task:
    """Makes the task by the recipe of `walk-rough`; its panel stands two levels higher. Torques near their
    limits cost more than on the plane: at that price they were at them in 2 to 3% of steps, on stairs and
    stones above all."""
    rewards = (
        *reweighted(REWARDS, drop=("torque_limits",), vertical_velocity=-0.5, tilt=-0.5),
        RewardTerm(name="torque_limits", weight=-10.0, params={"share": 0.8}),
    )
    return velocity_task(
        "walk-anymal-rough",
        robot=robot("anymal"),
        panel="walk-anymal-rough-v2",
        rewards=rewards,
        ranges=RANGES,
        rough=True,
        minutes=20.0,
        cuda=CUDA_RECIPE | {"hidden": (256, 128), "evaluate_every": 50, "checkpoint_every": 250},
        cuda_minutes=0.5,
    )
