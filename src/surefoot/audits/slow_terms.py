"""Reward terms once more, in numpy and from what each is documented to be: slow, and shared with nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from surefoot.audits.lived import Lived
from surefoot.contract import TaskContract
from surefoot.robots import RobotSpec

CLOSE = 1e-3
"""Quantities this close to where a term jumps may fall on either side by rounding: such rows are left out."""


@dataclass
class Facts:
    """A lived step in numpy, double precision, with what a task remembers worked out anew."""

    step: Lived
    contract: TaskContract
    robot: RobotSpec
    dt: float

    def __post_init__(self) -> None:
        self.r = {k: v.astype(np.float64) for k, v in self.step.robot.items()}
        task = {k.removeprefix("task."): v for k, v in self.step.before.items() if k.startswith("task.")}
        clip = self.contract.action.clip
        self.action = np.clip(self.step.action.astype(np.float64), -clip, clip)
        self.action_before = task["action"].astype(np.float64)
        self.command = task["command"].astype(np.float64)
        self.size = np.abs(self.command).max(1)
        self.moving = self.size > self.contract.command.dead_zone
        load = self.r["foot_force"][..., 2]
        self.contact = load > 1.0
        was, aloft = task["contact"], task["air_time"].astype(np.float64)
        self.landed = np.where(self.contact & ~was, aloft, 0.0)
        self.air_time = np.where(self.contact, 0.0, aloft + self.dt)
        hz = self.contract.prior.clock_hz if self.contract.prior else 0.0
        self.phase = (task["phase"].astype(np.float64) + hz * self.dt) % 1.0
        self.offset = self.r["joint_position"] - np.asarray(self.robot.default_pose)
        self.sure = (np.abs(load - 1.0) > CLOSE).all(1)
        self.sure &= np.abs(self.size - self.contract.command.dead_zone) > 1e-6

    def linear_error(self) -> np.ndarray:
        gap = self.r["linear_velocity"][:, :2] - self.command[:, :2]
        return np.asarray((gap**2).sum(1))

    def yaw_error(self) -> np.ndarray:
        return np.asarray(self.r["angular_velocity"][:, 2] - self.command[:, 2])


def _pose(f: Facts, hip: float, thigh: float, calf: float) -> np.ndarray:
    return np.asarray(((f.offset.reshape(len(f.offset), -1, 3) ** 2) @ np.array([hip, thigh, calf])).sum(1))


def _posture(f: Facts, **weights: float) -> np.ndarray:
    by_joint = [sum(w for end, w in weights.items() if j.endswith(end)) for j in f.robot.joints]
    return np.asarray((f.offset**2) @ np.array(by_joint))


def _limits(f: Facts, margin: float) -> np.ndarray:
    q, low, high = f.r["joint_position"], np.asarray(f.robot.joint_low), np.asarray(f.robot.joint_high)
    return np.asarray((np.maximum(low + margin - q, 0) + np.maximum(q - high + margin, 0)).sum(1))


def _torque_limits(f: Facts, share: float) -> np.ndarray:
    used = np.abs(f.r["torque"]) / np.asarray(f.robot.torque_limit_nm)
    return np.asarray(np.maximum(used - share, 0).sum(1))


def _slip(f: Facts) -> np.ndarray:
    return np.asarray(((f.r["foot_velocity"][..., :2] ** 2).sum(2) * f.contact).sum(1))


def _air(f: Facts, threshold: float, most: float) -> np.ndarray:
    gain = np.where(f.landed > 0, np.minimum(f.landed, most) - threshold, 0.0).sum(1)
    return np.asarray(gain * f.moving / f.dt)


def _swing(f: Facts, threshold: float, most: float) -> np.ndarray:
    stood = (f.contact & (f.landed == 0)).any(1)
    return np.asarray(_air(f, threshold, most) * stood)


def _single_support(f: Facts, most: float) -> np.ndarray:
    aloft = f.air_time.max(1)
    stepping = (f.contact.sum(1) == 1) & (aloft <= most)
    value = np.where(f.moving, stepping, f.contact.all(1)).astype(float)
    return np.where(np.abs(aloft - most) < CLOSE, np.nan, value)


def _gait(f: Facts) -> np.ndarray:
    offsets = f.contract.prior.offsets if f.contract.prior else (0.0,) * len(f.robot.feet)
    height = np.sin(2 * np.pi * (f.phase[:, None] + np.asarray(offsets)))
    wanted = (height <= 0) | ~f.moving[:, None]
    value = (f.contact == wanted).mean(1)
    return np.where((np.abs(height) < CLOSE).any(1), np.nan, value)


SLOW: dict[str, Callable[..., np.ndarray]] = {
    "track_linear": lambda f, width: np.exp(-f.linear_error() / width),
    "track_yaw": lambda f, width: np.exp(-(f.yaw_error() ** 2) / width),
    "linear_error": lambda f: np.sqrt(f.linear_error()),
    "yaw_error": lambda f: np.abs(f.yaw_error()),
    "vertical_velocity": lambda f: f.r["linear_velocity"][:, 2] ** 2,
    "roll_pitch_rate": lambda f: (f.r["angular_velocity"][:, :2] ** 2).sum(1),
    "tilt": lambda f: (f.r["gravity"][:, :2] ** 2).sum(1),
    "torque": lambda f: (f.r["torque"] ** 2).sum(1),
    "action_rate": lambda f: ((f.action - f.action_before) ** 2).sum(1),
    "pose": _pose,
    "posture": _posture,
    "stand_still": lambda f: np.abs(f.offset).sum(1) * ~f.moving,
    "slip": _slip,
    "joint_limits": _limits,
    "torque_limits": _torque_limits,
    "air": _air,
    "swing": _swing,
    "single_support": _single_support,
    "gait": _gait,
    "fall": lambda f: np.zeros(len(f.action)),
}
"""What terms are, by name: magnitudes [N] of a step that ended no episode; NaN where rounding decides."""
