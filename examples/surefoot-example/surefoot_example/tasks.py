"""The task `prance-flat`: follow the commanded velocity on flat ground, with high steps."""

from __future__ import annotations

from surefoot.contract import RewardTerm
from surefoot.tasks import WALK_REWARDS, Task, reweighted, velocity_task
from surefoot_example.robot import prancer
from surefoot_example.terms import prance


def prance_flat() -> Task:
    """walk-flat's rewards, vertical motion at half the price, plus `prance`; judged on walk-flat's panel."""
    return velocity_task(
        "prance-flat",
        robot=prancer(),
        panel="walk-flat-v1",
        rewards=(
            *reweighted(WALK_REWARDS, vertical_velocity=-0.5),
            RewardTerm(
                name="prance", weight=0.5, params={"height_m": 0.08}, doc="feet carried high in swing"
            ),
        ),
        terms={"prance": prance},
    )
