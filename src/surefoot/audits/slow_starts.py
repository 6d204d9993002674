"""How episodes begin, once more: starts, phases, ages and commands in numpy, from the draws that the seed
plan addresses to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surefoot.contract import Channel, SeedPlan, TaskContract
from surefoot.robots import RobotSpec
from surefoot.terrain import Atlas

ABOVE_M, UP_TO_M = 0.01, 0.02
"""Height of the lowest foot above the ground at the start: the least, and what a draw adds to it."""


@dataclass(frozen=True)
class Beginnings:
    """The task and the robot that episodes are of, and where their draws come from."""

    contract: TaskContract
    robot: RobotSpec
    seeds: SeedPlan
    hz: float
    atlas: Atlas | None

    @property
    def episode_steps(self) -> int:
        return round(self.contract.episode_s * self.hz)

    @property
    def segment_steps(self) -> int:
        return round(self.contract.command.resample_s * self.hz)

    def between(self, factor: str, u: np.ndarray) -> np.ndarray:
        low, high = self.contract.factor(factor).train
        return np.asarray(low + (high - low) * u.astype(np.float64))

    def drawn(self, env: np.ndarray, episode: np.ndarray, channel: Channel, count: int) -> np.ndarray:
        return np.asarray(self.seeds.uniforms(env, episode, channel, count), np.float64)

    # ---- starts

    def first_ages(self, env: np.ndarray) -> np.ndarray:
        """Returns the ages [M] at which first episodes begin."""
        u = self.seeds.env_uniforms(env, Channel.AGE, 1)[:, 0].astype(np.float32)
        return np.asarray(np.floor(u * np.float32(self.episode_steps)), np.int64)

    def starts(self, env: np.ndarray, episode: np.ndarray, level: np.ndarray) -> dict[str, np.ndarray]:
        """Returns robots as they begin: in the world, velocities in the body's frame."""
        motion = self.drawn(env, episode, Channel.VELOCITY, 7)
        yaw = 2 * np.pi * self.drawn(env, episode, Channel.YAW, 1)[:, 0]
        pose = self.between("pose", self.drawn(env, episode, Channel.POSE, len(self.robot.joints)))
        speed = self.between("velocity", motion[:, :6])
        cos, sin, none = np.cos(yaw), np.sin(yaw), np.zeros(len(env))
        x, y = speed[:, 0], speed[:, 1]
        position = np.zeros((len(env), 3))
        position[:, 2] = self.robot.stand_height_m + ABOVE_M + UP_TO_M * motion[:, 6]
        tile = self.tiles(env, episode, level)
        if self.atlas is not None:
            position[:, :2] += self.atlas.origins[tile]
            position[:, 2] += self.atlas.spawn_height[tile]
        return {
            "position": position,
            "quaternion": np.column_stack([np.cos(yaw / 2), none, none, np.sin(yaw / 2)]),
            "linear_velocity": np.column_stack([cos * x + sin * y, cos * y - sin * x, speed[:, 2]]),
            "angular_velocity": speed[:, 3:6],
            "joint_position": np.asarray(self.robot.default_pose) + pose,
            "joint_velocity": np.zeros_like(pose),
            "torque": np.zeros_like(pose),
            "tile": tile,
        }

    def phases(self, env: np.ndarray, episode: np.ndarray) -> np.ndarray:
        return self.drawn(env, episode, Channel.LATENT, 1)[:, 0]

    def tiles(self, env: np.ndarray, episode: np.ndarray, level: np.ndarray) -> np.ndarray:
        """Returns the tiles [M] of the dealt class and the given level, any of them by a draw."""
        if self.atlas is None:
            return np.zeros(len(env), np.int64)
        family, member = self.seeds.family_of(env), self.seeds.member_of(env)
        names = self.contract.factor("terrain").categories
        dealt = self.contract.strata.deal("terrain", family, member, env, episode)
        u = self.drawn(env, episode, Channel.TERRAIN, 2)[:, 1]
        by_cell: dict[tuple[str, int], list[int]] = {}
        for k, t in enumerate(self.atlas.tiles):
            by_cell.setdefault((t.cls, t.level), []).append(k)
        cells = [by_cell[names[c], int(lv)] for c, lv in zip(dealt, level, strict=True)]
        return np.array([cell[int(x * len(cell))] for cell, x in zip(cells, u, strict=True)])

    def next_levels(
        self, env: np.ndarray, episode: np.ndarray, level: np.ndarray, progress: np.ndarray
    ) -> np.ndarray:
        """Returns the level after `episode` [M]: one up after 70% of what was commanded, one down below 40%,
        where more than a metre was; past the top anywhere."""
        walked, commanded = progress.T
        far, top = commanded > 1.0, self.contract.terrain_levels
        moved = level + (far & (walked > 0.7 * commanded)) - (far & (walked < 0.4 * commanded)).astype(int)
        anywhere = np.floor(self.drawn(env, episode, Channel.TERRAIN, 1)[:, 0] * top).astype(np.int64)
        return np.asarray(np.where(moved >= top, anywhere, np.maximum(moved, 0)))

    # ---- commands

    def commands(self, env: np.ndarray, episode: np.ndarray) -> np.ndarray:
        """Returns commands [M, S, 3], one for each stretch between resamplings."""
        c = self.contract
        count = -(-self.episode_steps // self.segment_steps)
        u = self.drawn(env, episode, Channel.COMMAND, 4 * count).reshape(len(env), count, 4)
        unit = np.clip(c.command.gain * (2 * u[..., :3] - 1), -1, 1)
        names = np.array(c.factor("command").categories)
        mode = np.stack([names[self._modes(env, episode, k)] for k in range(count)], 1)
        axis = np.minimum(np.floor(3 * u[..., 3]), 2)[..., None] == np.arange(3)
        ahead = np.concatenate([np.abs(unit[..., :1]), unit[..., 1:]], -1)
        back = np.concatenate([-np.abs(unit[..., :1]), unit[..., 1:]], -1)
        share = np.zeros_like(unit)
        for name, part in (("axis", unit * axis), ("forward", ahead), ("backward", back)):
            share = np.where((mode == name)[..., None], part, share)
        low, high = np.array([c.factor(n).train for n in ("vx", "vy", "wz")]).T
        return np.asarray(np.where(share > 0, share * high, share * -low))

    def _modes(self, env: np.ndarray, episode: np.ndarray, segment: int) -> np.ndarray:
        strata = self.contract.strata
        if "command" in strata.names:
            family, member = self.seeds.family_of(env), self.seeds.member_of(env)
            return strata.deal("command", family, member, env, episode, segment)
        deck = np.asarray(self.contract.factor("command").deck)
        return np.asarray(deck[(env + 7 * episode + 3 * segment) % len(deck)])
