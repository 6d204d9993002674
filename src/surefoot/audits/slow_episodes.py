"""Episodes once more: what the draws of a key become, in numpy and double precision, from the contract's
factors and the prose about them. Slow, and shared with nothing that trains.

Where a draw decides between whole numbers and lies so near to the edge that rounding could decide, the entry
is NaN: nothing is expected there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from surefoot.audits.slow_deal import Who, dealt, stratum
from surefoot.audits.slow_philox import ALL, TRAIN, uniforms
from surefoot.contract import TaskContract
from surefoot.robots import RobotSpec

PUSH_WINDOW_S = 5.0
"""Training pushes once in every window of this length."""
EDGE = 1e-4
SPAWN_M = (0.01, 0.02)
"""Episodes begin so high above standing, and up to so much higher."""

Columns = dict[str, np.ndarray]
Tiles = Mapping[tuple[str, int], Sequence[int]]
"""Numbers of the tiles of a class at a level, in the order of the task's list."""


class SlowEpisodes:
    """What follows from a contract, a control rate, a root seed and a split."""

    def __init__(self, contract: TaskContract, control_hz: float, root: int, split: int = TRAIN) -> None:
        self.contract, self.control_hz, self.root, self.split = contract, control_hz, root, split
        self.steps = round(contract.episode_s * control_hz)
        self.segment = round(contract.command.resample_s * control_hz)
        self.segments = math.ceil(self.steps / self.segment)
        self.window = round(PUSH_WINDOW_S * control_hz)
        self.pushes = math.ceil(self.steps / self.window)

    def from_seeds(self, root: int, split: int) -> SlowEpisodes:
        """Returns what would be drawn from other seeds."""
        return SlowEpisodes(self.contract, self.control_hz, root, split)

    def _u(self, who: Who, channel: str, count: int) -> np.ndarray:
        """Returns draws of an episode."""
        return uniforms(self.root, self.split, who.family, who.member, who.episode, channel, count)

    def _for_life(self, who: Who, channel: str, count: int) -> np.ndarray:
        return uniforms(self.root, self.split, who.family, who.member, ALL, channel, count)

    def _range(self, name: str, u: np.ndarray) -> np.ndarray:
        low, high = self.contract.factor(name).train
        return low + (high - low) * u

    def _in_bin(self, name: str, u: np.ndarray, who: Who) -> np.ndarray:
        """Returns a value inside the bin that was dealt, where the factor is stratified."""
        if name in self.contract.stratify:
            u = (dealt(self.contract, name, who) + u) / self.contract.factor(name).bins
        return self._range(name, u)

    def for_life(self, who: Who) -> Columns:
        """Returns what a family shares and what an environment keeps, by name of the robot's parameter."""
        friction = uniforms(self.root, self.split, who.family, ALL, ALL, "friction", 1)[:, 0]
        gains = self._range("gains", self._for_life(who, "gains", 2))
        return {
            "friction": self._in_bin("friction", friction, who),
            "payload_kg": self._in_bin("payload", self._for_life(who, "payload", 1)[:, 0], who),
            "com_m": self._range("com", self._for_life(who, "com", 3)),
            "strength": self._range("strength", self._for_life(who, "strength", 1)[:, 0]),
            "kp_scale": gains[:, 0],
            "kd_scale": gains[:, 1],
        }

    def delay_s(self, who: Who) -> np.ndarray:
        return self._range("delay", self._u(who, "delay", 1)[:, 0])

    def script(self, who: Who) -> Columns:
        """Returns what will happen in episodes: pushes, noise, clock, commands and strata by segment."""
        u = self._u(who, "push", 4 * self.pushes).reshape(-1, self.pushes, 4)
        angle, size = 2 * np.pi * u[..., 1], self._range("push", u[..., 2])
        return {
            "push_step": whole(u[..., 0] * self.window) + self.window * np.arange(self.pushes),
            "push_velocity": size[..., None] * np.stack([np.cos(angle), np.sin(angle)], -1),
            "noise_scale": self._range("noise", self._u(who, "noise scale", 1)[:, 0]),
            "phase": self._u(who, "phase", 1)[:, 0],
            "commands": self.commands(who),
            "stratum": np.stack([stratum(self.contract, who, k) for k in range(self.segments)], 1),
        }

    def commands(self, who: Who) -> np.ndarray:
        """Returns [rows, segments, 3]. A mode is dealt: to stand; one axis alone; forward or backward, with
        whatever sideways and turning. Draws reach a little beyond the range and are cut to it."""
        c = self.contract
        u = self._u(who, "command", 4 * self.segments).reshape(-1, self.segments, 4)
        unit = np.clip(c.command.gain * (2 * u[..., :3] - 1), -1, 1)
        axis = whole(3 * u[..., 3])
        modes = c.factor("command").categories
        mode = np.stack([dealt(c, "command", who, k) for k in range(self.segments)], 1)
        share = np.full_like(unit, np.nan)
        for k, name in enumerate(modes):
            here = mode == k
            if name == "stand":
                share[here] = 0.0
            elif name == "axis":
                alone = np.where(np.arange(3) == axis[..., None], unit, 0.0)
                share[here] = np.where(np.isnan(axis)[..., None], np.nan, alone)[here]
            else:
                ahead = 1.0 if name == "forward" else -1.0
                first = ahead * np.abs(unit[..., :1])
                share[here] = np.concatenate([first, unit[..., 1:]], -1)[here]
        low, high = np.array([c.factor(n).train for n in ("vx", "vy", "wz")]).T
        return np.asarray(np.where(share > 0, share * high, -share * low))

    def start(self, who: Who, robot: RobotSpec) -> Columns:
        """Returns the states that episodes begin in, on ground at height 0: upright, heading anywhere."""
        motion = self._range("velocity", self._u(who, "velocity", 8)[:, :6])
        lift = self._u(who, "velocity", 8)[:, 6]
        half = np.pi * self._u(who, "yaw", 1)[:, 0]
        none = np.zeros_like(half)
        joints = self._range("pose", self._u(who, "pose", len(robot.joints)))
        return {
            "height": robot.stand_height_m + SPAWN_M[0] + SPAWN_M[1] * lift,
            "quaternion": np.stack([np.cos(half), none, none, np.sin(half)], 1),
            "velocity": motion[:, :3],
            "angular_velocity": motion[:, 3:],
            "joint_position": np.asarray(robot.default_pose) + joints,
        }

    def tile(self, who: Who, level: np.ndarray, tiles: Tiles) -> np.ndarray:
        """Returns the number of the tile that episodes at `level` begin on, of the class that was dealt."""
        names = self.contract.factor("terrain").categories
        cls, u = dealt(self.contract, "terrain", who), self._u(who, "terrain", 2)[:, 1]
        out = np.full(len(u), np.nan)
        for row, (c, at) in enumerate(zip(cls, level, strict=True)):
            here = tiles.get((names[c], int(at)), ())
            k = whole(np.array([u[row] * len(here)]))[0]
            out[row] = here[int(k)] if len(here) and np.isfinite(k) else np.nan
        return out

    def next_level(self, who: Who, level: np.ndarray, walked: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """Returns the level after episodes that ended: one up for 70% of the way that was commanded, one down
        for less than 40%, as they are where that was a metre or less; past the top, anywhere."""
        top = self.contract.terrain_levels
        far = asked > 1.0
        up, down = far & (walked > 0.7 * asked), far & (walked < 0.4 * asked)
        after = np.maximum(level + up.astype(int) - down.astype(int), 0).astype(float)
        anywhere = whole(self._u(who, "terrain", 1)[:, 0] * top)
        after = np.where(after >= top, anywhere, after)
        edges = (asked - 1.0, walked - 0.7 * asked, walked - 0.4 * asked)
        return np.where(np.any([np.abs(e) < EDGE for e in edges], 0), np.nan, after)

    def first_age(self, who: Who) -> np.ndarray:
        """Returns the age, in steps, at which an environment's first episode begins: anywhere in it."""
        u = self._for_life(who, "age", 1)[:, 0]
        # Draws are exact in single precision, in which a product is rounded everywhere alike.
        return np.asarray(np.floor(u.astype(np.float32) * np.float32(self.steps)), np.float64)


def whole(x: np.ndarray) -> np.ndarray:
    """Rounds down; NaN where rounding in single precision could have decided."""
    return np.where(np.abs(x - np.round(x)) < EDGE, np.nan, np.floor(x))
