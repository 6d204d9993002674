"""What a success is: limits of errors, of windows, of standing, and of metrics that a task lets decide."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer

from surefoot.contract.model import Frozen


class Standing(Frozen):
    """What standing means where the command is to stand (within its dead zone)."""

    drift_m: float = 0.5
    """Most distance between where the robot was when the settling time ended and where it is at the end. A
    push is in it: at 1 m/s it moves a robot by this much that needs a second to stop."""
    turn_rad: float = 0.35
    """Most change of heading over the same time."""
    speed_mps: float = 0.1
    """Most mean speed of the trunk in a window."""
    joint_speed_radps: float = 0.25
    """Most root mean square joint speed in a window: between a robot that holds its pose, below 0.07 but for
    the two seconds after a push, and a trot-flat policy that visibly shakes, 0.3 and more."""


class Windows(Frozen):
    """How closely a robot follows its command from window to window. An honest gait sways by 0.1 m/s within a
    stride, so what it is held to is the mean velocity over windows of about two strides.

    A window is as told when its mean velocity is within max(`velocity_mps`, `velocity_share` x the commanded
    speed) of the command, as a vector, and its mean yaw rate within max(`yaw_radps`, `yaw_share` x the
    commanded one); told to stand, when trunk and joints rest. An episode succeeds when `share` of its windows
    are: one slip of eight is forgiven, and a robot that rests every fourth second is not. Windows that a
    push falls into do not count, nor those that begin within `after_push_s` of it: they tell of the push.
    (Measured on policies far within the tolerances, benchmarks/success_rule.py: a push spoils the window that
    it falls into in 27 to 58% of episodes and the next one in 7 to 44%; any other is spoiled in 0 to 5%.) A
    share is held, and neither a mean nor a median over windows, so that both velocities must be right in the
    same ones."""

    length_s: float = 1.0
    share: float = 0.8
    after_push_s: float = 1.0
    velocity_mps: float = 0.06
    velocity_share: float = 0.2
    yaw_radps: float = 0.1
    yaw_share: float = 0.2
    standing: Standing = Standing()


Beside = Literal["foot_slip_per_m", "foot_clearance_m", "vibration_radps", "cost_of_transport"]
BESIDE: dict[str, str] = {
    "cost_of_transport": "cost of transport",
    "foot_slip_per_m": "foot slip m/m",
    "foot_clearance_m": "foot clearance m",
    "vibration_radps": "vibration rad/s",
}
"""Metrics that stand beside the verdict, and decide only where a task declares a limit: column of rows ->
title."""


class Limit(Frozen):
    """A metric that decides. Where it was not measured (no cost of transport without a distance) it does
    not."""

    metric: Beside
    at_least: float | None = None
    at_most: float | None = None

    @property
    def low(self) -> float:
        return -math.inf if self.at_least is None else self.at_least

    @property
    def high(self) -> float:
        return math.inf if self.at_most is None else self.at_most

    @property
    def doc(self) -> str:
        ends = ((">=", self.at_least), ("<=", self.at_most))
        return " and ".join(f"{self.metric} {sign} {x:g}" for sign, x in ends if x is not None)


class Success(Frozen):
    """An episode succeeds when it does not end early, both time-means of the instantaneous errors stay below
    the limits, `windows` are as told, and the declared `limits` are kept."""

    velocity_error_mps: float = 0.25
    yaw_error_radps: float = 0.3
    settle_s: float = 2.0
    """Seconds at the start of the episode that do not count: the robot gets up to speed."""
    windows: Windows | None = None
    """None: judged by the instantaneous errors alone, as in contracts of before there were windows."""
    limits: tuple[Limit, ...] = ()

    @model_serializer(mode="wrap")
    def _without_what_is_not_there(self, make: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leaves out what a contract does not ask for, whose digest is then what it was before it could."""
        fields: dict[str, Any] = make(self)
        return {k: v for k, v in fields.items() if k not in ("windows", "limits") or getattr(self, k)}

    @property
    def doc(self) -> str:
        """Says it in a sentence."""
        says = [
            f"no fall, mean velocity error < {self.velocity_error_mps:g} m/s and yaw error < "
            f"{self.yaw_error_radps:g} rad/s after {self.settle_s:g} s"
        ]
        if w := self.windows:
            stand = w.standing
            says.append(
                f"{100 * w.share:g}% of the windows of {w.length_s:g} s with a mean velocity within "
                f"max({w.velocity_mps:g} m/s, {100 * w.velocity_share:g}%) and a yaw rate within "
                f"max({w.yaw_radps:g} rad/s, {100 * w.yaw_share:g}%) of the command"
            )
            says.append(
                f"told to stand, that many below {stand.speed_mps:g} m/s and {stand.joint_speed_radps:g} "
                f"rad/s in the joints, and no more than {stand.drift_m:g} m and {stand.turn_rad:g} rad away"
            )
        return "; ".join([*says, *(limit.doc for limit in self.limits)])

    @property
    def brief(self) -> str:
        """Says it in a line or two, for a plan on one screen."""
        says = f"no fall, errors below {self.velocity_error_mps:g} m/s and {self.yaw_error_radps:g} rad/s"
        if w := self.windows:
            says += f"; {100 * w.share:g}% of seconds within max({w.velocity_mps:g} m/s, "
            says += f"{100 * w.velocity_share:g}%) on average; at rest where told to stand"
        return "; ".join([says, *(limit.doc for limit in self.limits)])
