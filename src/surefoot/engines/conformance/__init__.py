"""What every engine promises, as checks that any implementation can be put through.

    from surefoot.engines.conformance import CHECKS
    for check in CHECKS:
        check(lambda n: MyEngine(robot, plant, n))

`make(n)` builds an engine with n environments on ground that is level and at height 0 within 2 m of the
origin (a plane, or an atlas whose tile 0 is flat and at the origin). A check raises AssertionError with a
sentence that says which promise is broken. Checks compare an engine with itself, never with another
simulator, and build several engines each; the whole list takes about two seconds on native MuJoCo.
"""

from __future__ import annotations

from surefoot.engines.conformance import events, parameters, sameness, stance, state
from surefoot.engines.conformance.scaffold import (
    ALOFT_M,
    Check,
    assert_same,
    begin,
    default_targets,
    mask_of,
    moving_targets,
    run,
    standing,
)

__all__ = [
    "ALOFT_M",
    "CHECKS",
    "Check",
    "assert_same",
    "begin",
    "default_targets",
    "mask_of",
    "moving_targets",
    "run",
    "standing",
]


CHECKS: tuple[Check, ...] = (
    *state.CHECKS,
    *stance.CHECKS,
    *sameness.CHECKS,
    *parameters.CHECKS,
    *events.CHECKS,
)
