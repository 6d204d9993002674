"""What every `TrainingEnv` promises, as checks that any implementation can be put through.

    from surefoot.env.conformance import check
    check(lambda part: MyEnv(plan, part))

`make(part)` builds the environments `part` of one plan of `ENVS` environments, so `make(range(ENVS))` builds
all of them; first episodes are staggered, as in training. Episodes last at least 40 steps, and some run out
of time when actions are nearly zero. A check raises AssertionError with a sentence that says which promise is
broken. Checks compare environments with themselves and with what they say, never with another implementation;
each takes the steps of an episode or two, so short episodes make them fast.
"""

from __future__ import annotations

from surefoot.env.conformance import episodes, sameness, steps
from surefoot.env.conformance.scaffold import ENVS, Check, Make

__all__ = ["CHECKS", "ENVS", "Check", "check"]


CHECKS: tuple[Check, ...] = (*steps.CHECKS, *episodes.CHECKS, *sameness.CHECKS)


def check(make: Make) -> None:
    """Puts environments through all checks, in order."""
    for one in CHECKS:
        one(make)
