"""Observations once more, in numpy and from what the contract says of each: slow, and shared with nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from surefoot.contract import ObservationTerm, TaskContract
from surefoot.robots import RobotSpec
from surefoot.terrain import RESOLUTION_M, Atlas

Arrays = dict[str, np.ndarray]
LIMIT = 10.0
"""What scaled observations are clipped to, either side."""
HOVER = 1e-3
"""N: forces this close to where a foot counts as standing may fall on either side by rounding."""


@dataclass
class Sight:
    """What there is to see of N robots at one instant, in double precision: the state of each, what its task
    remembers, its parameters, and the ground."""

    contract: TaskContract
    spec: RobotSpec
    robot: Arrays  # position, quaternion, velocities, joints, feet
    command: np.ndarray  # [N, 3] of the coming step
    action: np.ndarray  # [N, A] the last one, clipped
    phase: np.ndarray  # [N]
    contact: np.ndarray  # [N, F]
    air_time: np.ndarray  # [N, F]
    parameters: Arrays
    atlas: Atlas | None = None
    scan: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        self.robot = {k: np.asarray(v, np.float64) for k, v in self.robot.items()}
        self.parameters = {k: np.asarray(v, np.float64) for k, v in self.parameters.items()}

    @property
    def moving(self) -> np.ndarray:
        """Returns [N] whether a motion is commanded."""
        return np.asarray(np.abs(self.command).max(1) > self.contract.command.dead_zone)

    def ground(self, xy: np.ndarray) -> np.ndarray:
        """Returns the height of the ground [...] below world positions [..., 2]."""
        if self.atlas is None:
            return np.zeros(xy.shape[:-1])
        return surface(self.atlas, xy)

    def down(self) -> np.ndarray:
        """Returns [N, 3], the world's downward direction as the trunk's axes see it."""
        w, x, y, z = (self.robot["quaternion"] / self._length()).T
        up = [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]
        return np.asarray(-np.stack(up, 1))

    def heading(self) -> np.ndarray:
        w, x, y, z = (self.robot["quaternion"] / self._length()).T
        return np.asarray(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))

    def _length(self) -> np.ndarray:
        return np.asarray(np.linalg.norm(self.robot["quaternion"], axis=1, keepdims=True))


def surface(atlas: Atlas, xy: np.ndarray) -> np.ndarray:
    """Returns heights [...] at positions [..., 2]: samples are 0.1 m apart, and every cell is two triangles
    that meet on the diagonal from its corner at (-x, -y) to that at (+x, +y)."""
    rows, cols = atlas.heights.shape
    u, v = (xy[..., 0] - atlas.x0) / RESOLUTION_M, (xy[..., 1] - atlas.y0) / RESOLUTION_M
    i = np.clip(np.floor(np.nan_to_num(u)).astype(int), 0, rows - 2)
    j = np.clip(np.floor(np.nan_to_num(v)).astype(int), 0, cols - 2)
    a, b = np.clip(u - i, 0, 1), np.clip(v - j, 0, 1)
    h = atlas.heights.astype(np.float64)
    near, far = h[i, j], h[i + 1, j + 1]
    along_x, along_y = h[i + 1, j], h[i, j + 1]
    first = near + a * (along_x - near) + b * (far - along_x)
    second = near + b * (along_y - near) + a * (far - along_y)
    return np.asarray(np.where(a >= b, first, second))


def _clock(s: Sight) -> np.ndarray:
    angle = 2 * np.pi * s.phase
    return np.asarray(np.stack([np.sin(angle), np.cos(angle)], 1) * s.moving[:, None])


def _actuation(s: Sight) -> np.ndarray:
    p = s.parameters
    return np.stack([p["strength"] - 1, p["kp_scale"] - 1, p["kd_scale"] - 1, p["delay_s"]], 1)


def _height(s: Sight) -> np.ndarray:
    trunk = s.robot["position"]
    return np.asarray(trunk[:, 2] - s.ground(trunk[:, :2]) - s.spec.stand_height_m)[:, None]


def _foot_height(s: Sight) -> np.ndarray:
    feet = s.robot["foot_position"]
    return np.asarray(feet[..., 2] - s.ground(feet[..., :2]))


def _height_scan(s: Sight) -> np.ndarray:
    """The ground at points that turn with the heading, relative to where a trunk at stand height has it."""
    trunk, yaw = s.robot["position"], s.heading()[:, None]
    x, y = np.asarray(s.scan).T
    there = np.stack([np.cos(yaw) * x - np.sin(yaw) * y, np.sin(yaw) * x + np.cos(yaw) * y], 2)
    return np.asarray(s.ground(trunk[:, None, :2] + there) - trunk[:, 2:] + s.spec.stand_height_m)


SLOW: dict[str, Callable[[Sight], np.ndarray]] = {
    "angular_velocity": lambda s: s.robot["angular_velocity"],
    "gravity": Sight.down,
    "command": lambda s: s.command,
    "joint_position": lambda s: s.robot["joint_position"] - np.asarray(s.spec.default_pose),
    "joint_velocity": lambda s: s.robot["joint_velocity"],
    "last_action": lambda s: s.action,
    "clock": _clock,
    "linear_velocity": lambda s: s.robot["linear_velocity"],
    "contact": lambda s: s.contact.astype(float),
    "friction": lambda s: s.parameters["friction"][:, None],
    "payload": lambda s: s.parameters["payload_kg"][:, None],
    "com": lambda s: s.parameters["com_m"],
    "actuation": _actuation,
    "height": _height,
    "air_time": lambda s: s.air_time,
    "foot_height": _foot_height,
    "height_scan": _height_scan,
}
"""What terms are, by name: [N, size] without noise, in their own units."""


def slices(terms: tuple[ObservationTerm, ...]) -> dict[str, slice]:
    """Returns where each term stands in a vector of them."""
    ends = np.cumsum([t.size for t in terms]).tolist()
    return {t.name: slice(end - t.size, end) for t, end in zip(terms, ends, strict=True)}


def clean(s: Sight, terms: tuple[ObservationTerm, ...], known: frozenset[str]) -> np.ndarray:
    """Returns terms [N, O] without noise, not scaled; NaN for those that are not `known`."""
    unknown = np.full(len(s.command), np.nan)
    parts = [
        SLOW[t.name](s) if t.name in known and t.name in SLOW else np.repeat(unknown[:, None], t.size, 1)
        for t in terms
    ]
    return np.concatenate(parts, 1)


def seen(values: np.ndarray, terms: tuple[ObservationTerm, ...], noise: np.ndarray | None) -> np.ndarray:
    """Returns what is shown of `values` [N, O]: with `noise` [N, O] in half-widths, scaled and clipped."""
    width = np.concatenate([np.full(t.size, t.noise) for t in terms])
    scale = np.concatenate([np.full(t.size, t.scale) for t in terms])
    noisy = values if noise is None else values + np.where(width > 0, width * noise, 0.0)
    return np.asarray(np.clip(noisy * scale, -LIMIT, LIMIT))
