"""An example trace of every failure label, made up to show its rule and nothing else. For tests and docs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from surefoot.contract import Windows

HZ = 50.0
JOINTS, FEET = 12, 4
Trace = dict[str, Any]


def walking(seconds: float = 10.0, command: tuple[float, float, float] = (0.5, 0.0, 0.0)) -> Trace:
    """A robot that does as it was told, stands on all feet and lasts: no failure."""
    n = round(seconds * HZ)
    force = np.zeros((n, FEET, 3))
    force[..., 2] = 30.0
    still = np.zeros((n, 3))
    return {
        "position": still.copy(),
        "quaternion": np.tile([1.0, 0.0, 0.0, 0.0], (n, 1)),
        "linear_velocity": np.tile([command[0], command[1], 0.0], (n, 1)),
        "angular_velocity": np.tile([0.0, 0.0, command[2]], (n, 1)),
        "joint_velocity": np.full((n, JOINTS), 1.0),
        "torque": np.full((n, JOINTS), 5.0),
        "torque_limit": np.full(JOINTS, 23.7),
        "foot_velocity": np.zeros((n, FEET, 3)),
        "foot_force": force,
        "command": np.tile(np.asarray(command), (n, 1)),
        "push_step": np.zeros(0, np.int64),
        "delay_s": 0.0,
        "terrain_class": "flat",
        "reason": "timeout",
        "control_hz": HZ,
        "settle_s": 2.0,
        "velocity_limit": 0.25,
        "yaw_limit": 0.3,
        "contact": np.ones((n, FEET), bool),
    }


def standing() -> Trace:
    """A robot that was told to stand, and does, under a contract that says what standing is."""
    t = walking(command=(0.0, 0.0, 0.0))
    t["joint_velocity"][:] = 0.01
    w = Windows()
    t |= {f"window_{k}": v for k, v in w.model_dump(exclude={"standing"}).items()}
    t |= {f"standing_{k}": v for k, v in w.standing.model_dump().items()}
    names = ("stand_drift_m", "stand_turn_rad", "stand_speed_mps", "stand_joint_speed_radps")
    return t | dict.fromkeys(names, 0.01) | {"windows_as_told": 1.0}


def falling(seconds: float = 4.0) -> Trace:
    """A robot that walks, leans within its last 0.3 s and falls; nothing before tells why."""
    t = walking(seconds)
    lean = np.linspace(0.4, 1.0, round(0.3 * HZ))
    t["quaternion"][-len(lean) :] = np.stack(
        [np.cos(lean / 2), np.sin(lean / 2), np.zeros_like(lean), np.zeros_like(lean)], 1
    )
    t["reason"] = "tilted"
    return t


def _non_finite() -> Trace:
    return falling() | {"reason": "nonfinite"}


def _tripped_at_start() -> Trace:
    return falling(0.8)


def _fell_after_push() -> Trace:
    return falling(4.0) | {"push_step": np.array([round(2.8 * HZ)])}


def _stumbled_on_edge() -> Trace:
    """A foot meets 60 N from ahead and 10 N from below, 0.1 s before the trunk leans."""
    t = falling() | {"terrain_class": "curbs"}
    t["foot_force"][-20, 1] = [-60.0, 0.0, 10.0]
    return t


def _slipped() -> Trace:
    """A foot that carries 30 N slides at 0.9 m/s for 0.1 s."""
    t = falling()
    t["foot_velocity"][-22:-17, 2, 0] = 0.9
    return t


def _acted_late() -> Trace:
    """Targets take effect 0.12 s late; the trunk rolls to and fro at 2 Hz, ever faster, up to 6 rad/s."""
    t = falling() | {"delay_s": 0.12}
    n = round(1.5 * HZ)
    t["angular_velocity"][-n:, 0] = np.linspace(0.5, 6.0, n) * np.sin(2 * np.pi * 2.0 * np.arange(n) / HZ)
    return t


def _torque_saturated() -> Trace:
    t = falling()
    t["torque"][-40:, 5] = 23.7
    return t


def _marched() -> Trace:
    """Diagonal pairs of feet are up in turn, for 0.2 s each; joints move at 4.5 rad/s."""
    t = standing() | {"stand_joint_speed_radps": 4.5, "windows_as_told": 0.0}
    pair = np.arange(len(t["position"])) // round(0.2 * HZ) % 2 == 0
    t["contact"][:] = np.where(pair[:, None], [True, False, False, True], [False, True, True, False])
    return t


def _trembled() -> Trace:
    """Feet stand, joints shake at 0.4 rad/s."""
    return standing() | {"stand_joint_speed_radps": 0.4, "windows_as_told": 0.0}


def _limit_broken() -> Trace:
    """As told, on legs that vibrate more than its task allows."""
    return walking() | {"vibration_radps": 4.0, "limit_vibration_radps": (-np.inf, 3.5)}


def _stood_still() -> Trace:
    t = walking()
    t["linear_velocity"][:], t["joint_velocity"][:] = 0.0, 0.05
    return t


def _oscillated_in_place() -> Trace:
    t = _stood_still()
    t["joint_velocity"][:] = 4.0 * np.sin(2 * np.pi * 5.0 * np.arange(len(t["position"])) / HZ)[:, None]
    return t


def _wrong_direction() -> Trace:
    t = walking()
    t["linear_velocity"][:, 0] = -0.3
    return t


def _drifted() -> Trace:
    """Forward as told, and 0.35 m/s sideways."""
    t = walking()
    t["linear_velocity"][:, 1] = 0.35
    return t


def _off_course() -> Trace:
    """Half as fast as told, in the right direction: nothing but too slow."""
    t = walking(command=(1.0, 0.0, 0.0))
    t["linear_velocity"][:, 0] = 0.5
    return t


EXAMPLES: dict[str, Callable[[], Trace]] = {
    "non_finite": _non_finite,
    "tripped_at_start": _tripped_at_start,
    "fell_after_push": _fell_after_push,
    "stumbled_on_edge": _stumbled_on_edge,
    "slipped": _slipped,
    "acted_late": _acted_late,
    "torque_saturated": _torque_saturated,
    "marched": _marched,
    "trembled": _trembled,
    "stood_still": _stood_still,
    "oscillated_in_place": _oscillated_in_place,
    "wrong_direction": _wrong_direction,
    "drifted": _drifted,
    "off_course": _off_course,
    "limit_broken": _limit_broken,
    "unknown": falling,
}
"""Label -> a function that makes up a trace which has it."""


def example_trace(label: str) -> Trace:
    return EXAMPLES[label]()
