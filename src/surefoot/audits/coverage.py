"""Does training see contact with every foot?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.iterated import iterated

NEVER, OFTEN = 0.002, 0.2
"""Shares of steps with a foot on the ground: a foot that is not used, and one that is. Clean runs:
above 0.3 for every foot."""


def look(case: Case) -> list[Found]:
    """Counts the steps of two iterations in which each foot is on the ground."""
    down = np.concatenate([s.after["task.contact"] for it in iterated(case) for s in it.steps])
    return unused_feet(down, case.robot.task.robot.feet)


def unused_feet(down: np.ndarray, feet: Sequence[str]) -> list[Found]:
    """Says which feet are hardly ever on the ground, of `down` [steps, feet] bool."""
    share = down.mean(0)
    unused = [name for name, x in zip(feet, share, strict=True) if x < NEVER]
    if not unused or share.max() < OFTEN:
        return []
    return [
        Found(
            f"{', '.join(unused)} hardly touch{'es' * (len(unused) == 1)} the ground: in at most "
            f"{100 * share[share < NEVER].max():.1f}% of {len(down)} steps, other feet in up to "
            f"{100 * share.max():.0f}%."
        )
    ]


DETECTORS = (
    Detector(
        name="unused-feet",
        kind="behaviour",
        cause="behaviour",
        asks="Does training see contact with every foot?",
        statistic="share of steps with each foot on the ground, in two iterations of up to 256 environments",
        threshold="one foot below 0.2% of steps where another is above 20%; a remark, not a test",
        means="The robot limps: what it would take to use that foot is not in the batch.",
        remedy="Watch a replay, and look for a reward that is better earned on fewer feet.",
        look=look,
        needs=("robot", "ppo"),
    ),
)
