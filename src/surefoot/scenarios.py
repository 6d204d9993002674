"""Where episodes come from: a training sampler that draws scenarios by key, and a panel that hands out frozen
ones.

Everything random about an episode is drawn here, at its reset, as a pure function of (root, split, family,
member, episode); only sensor and exploration noise is drawn later, step by step, from the same key. So a
scenario is the same on every engine and can be replayed from its key.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import Channel, Panel, Scenario, SeedPlan, TaskContract
from surefoot.engines import Parameters, Rows, Start
from surefoot.keyed import Keyed
from surefoot.robots import RobotSpec
from surefoot.terrain import Atlas, TileId

NEVER = 1 << 30
PUSH_EVERY_S = 5.0
"""Training pushes once in every window of this length."""


@dataclass
class Script(Rows):
    """What will happen in an episode, besides physics."""

    family: Tensor  # [N] int64
    member: Tensor  # [N] int64, environment within the family
    episode: Tensor  # [N] int64
    commands: Tensor  # [N, S, 3] one per segment of the episode
    stratum: Tensor  # [N, S] int64
    push_step: Tensor  # [N, P] int64, control step before which the push acts
    push_velocity: Tensor  # [N, P, 2] m/s, world xy
    noise_scale: Tensor  # [N] multiplies the observation noise of the contract
    phase: Tensor  # [N] of the gait clock at the start
    level: Tensor  # [N] int64, of the terrain
    tile: Tensor  # [N] int64, of the atlas


@dataclass
class Scenarios:
    """Complete episodes for some environments."""

    script: Script
    start: Start
    parameters: Parameters

    def take(self, rows: Tensor) -> Scenarios:
        return Scenarios(self.script.take(rows), self.start.take(rows), self.parameters.take(rows))

    def put(self, rows: Tensor, other: Scenarios) -> None:
        self.script.put(rows, other.script)
        self.start.put(rows, other.start)
        self.parameters.put(rows, other.parameters)


class Sampler(Protocol):
    """Gives environments their episodes."""

    seeds: SeedPlan
    count: int
    """Environments served."""
    episode_steps: int
    segment_steps: int
    strata: int
    dropout: Tensor | None
    """[count] chance that a sensor's reading is lost in a step; None: none ever is."""

    def draw(self, rows: Tensor, episode: Tensor, level: Tensor) -> Scenarios:
        """Scenarios for environments `rows` [M] in their `episode` [M]; `level` [M] is the curriculum's."""


class TrainSampler:
    """Stratified, keyed training scenarios over the contract's training ranges."""

    def __init__(
        self,
        contract: TaskContract,
        robot: RobotSpec,
        seeds: SeedPlan,
        control_hz: float,
        atlas: Atlas | None,
        device: torch.device,
    ) -> None:
        self.contract, self.robot, self.seeds, self.device = contract, robot, seeds, device
        self.count = seeds.envs
        self.episode_steps = round(contract.episode_s * control_hz)
        self.segment_steps = round(contract.command.resample_s * control_hz)
        self.segments = math.ceil(self.episode_steps / self.segment_steps)
        self.push_steps = round(PUSH_EVERY_S * control_hz)
        self.pushes = math.ceil(self.episode_steps / self.push_steps)
        self.strata = contract.strata.count
        self.dropout: Tensor | None = None
        self._strata = contract.strata
        self._keyed = Keyed(seeds, device)
        self._atlas = atlas
        env = np.arange(seeds.envs)
        self._family, self._member = seeds.family_of(env), seeds.member_of(env)
        self._fixed = self._draw_fixed(env)
        self._ahead: Scenarios | None = None
        self._ready = torch.full((self.count,), -1, dtype=torch.int64, device=device)  # episode drawn ahead
        self._wanted = torch.zeros_like(self._ready)  # episode that comes next
        self._tiles: dict[tuple[str, int], list[int]] = {}
        for k, t in enumerate(atlas.tiles if atlas else ()):
            self._tiles.setdefault((t.cls, t.level), []).append(k)

    def _draw_fixed(self, env: np.ndarray) -> dict[str, np.ndarray]:
        """Family- and environment-level factors: drawn once, kept for life."""
        seeds = self.seeds
        return {
            "friction": self._value(
                "friction", seeds.family_uniforms(self._family, Channel.FRICTION, 1)[..., 0], env
            ),
            "payload": self._value("payload", seeds.env_uniforms(env, Channel.PAYLOAD, 1)[..., 0], env),
            "com": self._range("com", seeds.env_uniforms(env, Channel.COM, 3)),
            "strength": self._range("strength", seeds.env_uniforms(env, Channel.STRENGTH, 1)[..., 0]),
            "gains": self._range("gains", seeds.env_uniforms(env, Channel.GAINS, 2)),
        }

    def _range(self, name: str, u: np.ndarray) -> np.ndarray:
        low, high = self.contract.factor(name).train
        return np.asarray(low + (high - low) * u, np.float32)

    def _cell(self, name: str, env: np.ndarray, episode: np.ndarray, segment: int = 0) -> np.ndarray:
        return self._strata.deal(name, self._family[env], self._member[env], env, episode, segment)

    def _value(self, name: str, u: np.ndarray, env: np.ndarray) -> np.ndarray:
        """A continuous value: inside its dealt bin if the factor is stratified, else anywhere in its
        range."""
        if name not in self._strata.names:
            return self._range(name, u)
        factor = self.contract.factor(name)
        cell = self._cell(name, env, np.zeros_like(env))
        return self._range(name, (cell + u) / factor.bins)

    def draw(self, rows: Tensor, episode: Tensor, level: Tensor) -> Scenarios:
        """Scenarios are drawn ahead for every environment that has used its last one, all in one go: a draw
        costs about the same for one as for a hundred. On terrain the level is only known at the reset, so not
        there."""
        if self._atlas is not None:
            return self._draw(rows, episode, level)
        if not bool((self._ready[rows] == episode).all()):
            self._wanted[rows] = episode
            stale = (self._ready != self._wanted).nonzero()[:, 0]
            drawn = self._draw(stale, self._wanted[stale], torch.zeros_like(stale))
            if self._ahead is None:  # the first time everybody's is stale
                self._ahead = drawn
            else:
                self._ahead.put(stale, drawn)
            self._ready[stale] = self._wanted[stale]
        assert self._ahead is not None
        self._wanted[rows] = episode + 1
        out = self._ahead.take(rows)
        out.script.level[:] = level
        return out

    def _draw(self, rows: Tensor, episode: Tensor, level: Tensor) -> Scenarios:
        robot, segments, pushes = self.robot, self.segments, self.pushes
        env, ep = rows.cpu().numpy(), episode.cpu().numpy()
        family, member = torch.from_numpy(self._family[env]), torch.from_numpy(self._member[env])
        joints = len(robot.joints)
        channels = [
            (Channel.DELAY, 1, 0),
            (Channel.NOISE_SCALE, 1, 0),
            (Channel.COMMAND, 4 * segments, 0),
            (Channel.PUSH, 4 * pushes, 0),
            (Channel.POSE, joints, 0),
            (Channel.VELOCITY, 8, 0),
            (Channel.YAW, 1, 0),
            (Channel.LATENT, 1, 0),
            (Channel.TERRAIN, 1, 1),
        ]
        drawn = self._keyed.uniforms_many(family.to(self.device), member.to(self.device), episode, channels)
        delay, noise, command, push, pose, motion, yaw, phase, which = (x.cpu().numpy() for x in drawn)
        commands, stratum = self._commands(env, ep, command.reshape(-1, segments, 4))
        tile = self._tile(env, ep, level.cpu().numpy(), which[:, 0])
        push = push.reshape(-1, pushes, 4)
        window = np.arange(pushes) * self.push_steps
        angle = 2 * np.pi * push[..., 1]
        speed = self._range("push", push[..., 2])
        script = Script(
            family=family,
            member=member,
            episode=episode.cpu(),
            commands=torch.from_numpy(commands),
            stratum=torch.from_numpy(stratum),
            push_step=torch.from_numpy((window + push[..., 0] * self.push_steps).astype(np.int64)),
            push_velocity=torch.from_numpy(
                np.stack([speed * np.cos(angle), speed * np.sin(angle)], -1).astype(np.float32)
            ),
            noise_scale=torch.from_numpy(self._range("noise", noise[:, 0])),
            phase=torch.from_numpy(phase[:, 0]),
            level=level.cpu(),
            tile=torch.from_numpy(tile),
        )
        velocity, lift = self._range("velocity", motion[:, :6]), 0.02 * motion[:, 6]
        start = _start(
            robot,
            self._atlas,
            tile,
            2 * np.pi * yaw[:, 0],
            self._range("pose", pose),
            lift,
            velocity[:, :3],
            velocity[:, 3:],
        )
        f = self._fixed
        fixed = (
            f["friction"][env],
            f["payload"][env],
            f["com"][env],
            f["strength"][env],
            f["gains"][env, 0],
            f["gains"][env, 1],
        )
        parameters = Parameters(*(torch.from_numpy(x) for x in (*fixed, self._range("delay", delay[:, 0]))))
        return _to(Scenarios(script, start, parameters), self.device)

    def _commands(self, env: np.ndarray, episode: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Commands [M, S, 3] and strata [M, S]."""
        c = self.contract
        unit = np.clip(c.command.gain * (2 * u[..., :3] - 1), -1, 1)
        low = np.array([c.factor(n).train[0] for n in ("vx", "vy", "wz")])
        high = np.array([c.factor(n).train[1] for n in ("vx", "vy", "wz")])
        names, factor = self._strata.names, c.factor("command")
        if "command" in names:
            mode = np.stack([self._cell("command", env, episode, k) for k in range(u.shape[1])], 1)
        else:  # deal modes all the same, in their shares
            deck = np.asarray(factor.deck)
            mode = deck[((env + 7 * episode)[:, None] + 3 * np.arange(u.shape[1])) % len(deck)]
        stand, axis, forward, backward = (
            mode == factor.categories.index(k) for k in ("stand", "axis", "forward", "backward")
        )
        vx = np.abs(unit[..., 0])
        unit[..., 0] = np.where(forward, vx, np.where(backward, -vx, unit[..., 0]))
        only = np.eye(3)[np.minimum((3 * u[..., 3]).astype(int), 2)]
        unit *= np.where(axis[..., None], only, np.where(stand[..., None], 0.0, 1.0))
        cells = {
            n: np.broadcast_to(self._cell(n, env, episode)[:, None], mode.shape)
            for n in names
            if n != "command"
        }
        stratum = self._strata.join({**cells, "command": mode} if "command" in names else cells)
        commands = (low + high) / 2 + unit * (high - low) / 2
        return commands.astype(np.float32), stratum

    def _tile(self, env: np.ndarray, episode: np.ndarray, level: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Tiles [M] of the dealt class at `level`, any of those that the atlas has."""
        if self._atlas is None:
            return np.zeros(len(env), np.int64)
        classes = np.asarray(self.contract.factor("terrain").categories)[self._cell("terrain", env, episode)]
        found = (self._tiles[c, int(lv)] for c, lv in zip(classes, level, strict=True))
        return np.array([k[int(x * len(k))] for k, x in zip(found, u, strict=True)])


class PanelSampler:
    """One frozen scenario per environment; episode numbers do not matter, a scenario is always the same."""

    def __init__(
        self,
        panel: Panel,
        scenarios: Sequence[Scenario],
        contract: TaskContract,
        robot: RobotSpec,
        control_hz: float,
        atlas: Atlas | None,
        dropout: float = 0.0,
    ) -> None:
        self.seeds = panel.seeds
        self.count = len(scenarios)
        self.episode_steps = self.segment_steps = round(panel.episode_s * control_hz)
        self.strata = 1
        n = len(scenarios)
        self.dropout = torch.full((n,), dropout) if dropout > 0 else None
        family = np.array([s.family for s in scenarios])
        member = np.array([s.member for s in scenarios])
        env = family * panel.seeds.envs_per_family + member
        seeds, joints = panel.seeds, len(robot.joints)
        pushes = max(1, max(len(s.pushes) for s in scenarios))
        step = np.full((n, pushes), NEVER)
        kick = np.zeros((n, pushes, 2), np.float32)
        for i, s in enumerate(scenarios):
            for k, p in enumerate(s.pushes):
                step[i, k] = round(p.time_s * control_hz)
                kick[i, k] = p.vx_mps, p.vy_mps
        tiles = {t: k for k, t in enumerate(atlas.tiles)} if atlas else {}
        tile = np.array(
            [tiles[TileId(s.terrain.cls, s.terrain.level, s.terrain.key)] if atlas else 0 for s in scenarios]
        )
        low, high = contract.factor("pose").held_out
        pose = (low + (high - low) * seeds.uniforms(env, 0, Channel.POSE, joints)).astype(np.float32)
        yaw = 2 * np.pi * seeds.uniforms(env, 0, Channel.YAW, 1)[:, 0]
        still = np.zeros((n, 3), np.float32)
        script = Script(
            family=torch.from_numpy(family),
            member=torch.from_numpy(member),
            episode=torch.zeros(n, dtype=torch.int64),
            commands=torch.tensor([[s.command] for s in scenarios], dtype=torch.float32),
            stratum=torch.zeros(n, 1, dtype=torch.int64),
            push_step=torch.from_numpy(step),
            push_velocity=torch.from_numpy(kick),
            noise_scale=torch.tensor([s.noise_scale for s in scenarios], dtype=torch.float32),
            phase=torch.zeros(n),
            level=torch.tensor([s.terrain.level for s in scenarios]),
            tile=torch.from_numpy(tile),
        )
        start = _start(robot, atlas, tile, yaw, pose, np.zeros(n), still, still)
        names = ("friction", "payload_kg", "com_m", "strength", "kp_scale", "kd_scale", "delay_s")
        parameters = Parameters(
            *(torch.tensor([getattr(s, k) for s in scenarios], dtype=torch.float32) for k in names)
        )
        self._all = Scenarios(script, start, parameters)

    def draw(self, rows: Tensor, episode: Tensor, level: Tensor) -> Scenarios:
        return self._all.take(rows)

    @property
    def scenarios(self) -> Scenarios:
        """All of them, one row per environment."""
        return self._all


def _start(
    robot: RobotSpec,
    atlas: Atlas | None,
    tile: np.ndarray,
    yaw: np.ndarray,
    pose: np.ndarray,
    lift: np.ndarray,
    linear: np.ndarray,
    angular: np.ndarray,
) -> Start:
    """Upright in the default pose plus `pose`, feet just above the ground at the middle of the tile."""
    n = len(yaw)
    position = np.zeros((n, 3), np.float32)
    position[:, 2] = robot.stand_height_m + 0.01 + lift
    if atlas is not None:
        position[:, :2] = atlas.origins[tile]
        position[:, 2] += atlas.spawn_height[tile]
    quaternion = np.zeros((n, 4), np.float32)
    quaternion[:, 0], quaternion[:, 3] = np.cos(yaw / 2), np.sin(yaw / 2)
    joints = np.asarray(robot.default_pose, np.float32) + pose

    def tensor(x: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(x, np.float32))

    return Start(
        tensor(position),
        tensor(quaternion),
        tensor(linear),
        tensor(angular),
        tensor(joints),
        torch.from_numpy(tile),
    )


def _to(s: Scenarios, device: torch.device) -> Scenarios:
    return (
        s
        if device.type == "cpu"
        else Scenarios(s.script.to(device), s.start.to(device), s.parameters.to(device))
    )
