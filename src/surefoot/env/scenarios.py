"""Where episodes come from: a training sampler that draws scenarios by key, and a panel that hands out frozen
ones.

Everything random about an episode is drawn here, at its reset, as a pure function of (root, split, family,
member, episode); only sensor and exploration noise is drawn later, step by step, from the same key. So a
scenario is the same on every engine and can be replayed from its key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import Channel, Panel, Scenario, SeedPlan, TaskContract
from surefoot.engines import Parameters, Rows, Start
from surefoot.env.episodes import EpisodeSampler, lookup
from surefoot.env.faults import Faults
from surefoot.keyed import Draw, Keyed
from surefoot.robots import RobotSpec
from surefoot.tasks import TaskState
from surefoot.terrain import Atlas, TileId

NEVER = 1 << 30


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


def content(script: Script, parameters: Parameters) -> Tensor:
    """Returns [N, K], the content of episodes: commands, pushes, noise, phase and robot parameters."""
    parts = (
        script.commands.flatten(1),
        script.push_velocity.flatten(1),
        script.noise_scale[:, None],
        script.phase[:, None],
        *(v.flatten(1) if v.ndim > 1 else v[:, None] for v in parameters.tensors().values()),
    )
    return torch.cat([p.float() for p in parts], 1)


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
    numbers: Tensor  # [count] int64
    """Their numbers in the seed plan."""
    episode_steps: int
    segment_steps: int
    strata: int
    faults: Faults | None
    """What is wrong with the sensors; None: nothing ever is."""
    longest_delay_s: float
    """Longest delay of actions that any of its scenarios may have."""

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
        part: Sequence[int] | None = None,
    ) -> None:
        """`part`: the environments of the plan that are served; all of them by default."""
        self.robot = robot
        self.contract, self.seeds = contract, seeds
        part = part or range(seeds.envs)
        self.numbers, self.count = torch.tensor(part, device=device), len(part)
        self.composition = EpisodeSampler(contract, robot, seeds, control_hz, device, atlas)
        self.episode_steps = self.composition.episode_steps
        self.segment_steps = self.composition.segment_steps
        self.strata = contract.strata.count
        self.faults: Faults | None = None
        self.longest_delay_s = contract.factor("delay").train[1]
        self._strata = contract.strata
        self._keyed = Keyed(seeds, device)
        self._channels: list[Draw] = [(*draw, 0) for draw in self.composition.draws.values()]
        env = np.arange(seeds.envs)
        self._family, self._member = seeds.family_of(env), seeds.member_of(env)
        self._fixed = self._draw_fixed(env).to(device)
        self._ahead: Scenarios | None = None
        self._ready = torch.full((self.count,), -1, dtype=torch.int64, device=device)  # episode drawn ahead
        self._wanted = torch.zeros_like(self._ready)  # episode that comes next

    def _draw_fixed(self, env: np.ndarray) -> Parameters:
        """Family- and environment-level factors [N]: drawn once, kept for life. Delays are left at zero."""
        seeds = self.seeds
        friction = seeds.family_uniforms(self._family, Channel.FRICTION, 1)[..., 0]
        gains = self._range("gains", seeds.env_uniforms(env, Channel.GAINS, 2))
        fixed = (
            self._value("friction", friction, env),
            self._value("payload", seeds.env_uniforms(env, Channel.PAYLOAD, 1)[..., 0], env),
            self._range("com", seeds.env_uniforms(env, Channel.COM, 3)),
            self._range("strength", seeds.env_uniforms(env, Channel.STRENGTH, 1)[..., 0]),
            gains[:, 0],
            gains[:, 1],
            np.zeros(len(env), np.float32),
        )
        return Parameters(*(torch.from_numpy(x) for x in fixed))

    def _range(self, name: str, u: np.ndarray) -> np.ndarray:
        low, high = self.contract.factor(name).train
        return np.asarray(low + (high - low) * u, np.float32)

    def _value(self, name: str, u: np.ndarray, env: np.ndarray) -> np.ndarray:
        """A continuous value: inside its dealt bin if the factor is stratified, else anywhere in its
        range."""
        if name not in self._strata.names:
            return self._range(name, u)
        cell = self._strata.deal(name, self._family, self._member, env, np.zeros_like(env))
        return self._range(name, (cell + u) / self.contract.factor(name).bins)

    def draw(self, rows: Tensor, episode: Tensor, level: Tensor) -> Scenarios:
        """Scenarios are drawn ahead for every environment that has used its last one, all in one go: a draw
        costs about the same for one as for a hundred. On terrain the level is only known at the reset, so not
        there."""
        if self.composition.land is not None:
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
        env = self.numbers[rows]
        family, member = lookup(self._keyed.family, env), lookup(self._keyed.member, env)
        drawn = self._keyed.uniforms_many(family, member, episode, self._channels)
        facts = self.composition.facts(env, episode, level)
        c = self.composition.compose(self.composition.named(drawn), facts)
        tile = c.tile.to(torch.int64)
        script = Script(
            family=family,
            member=member,
            episode=episode,
            commands=c.commands,
            stratum=c.stratum,
            push_step=c.push_step.to(torch.int64),
            push_velocity=c.push_velocity,
            noise_scale=c.noise_scale,
            phase=c.phase,
            level=level,
            tile=tile,
        )
        start = Start(
            position=c.position,
            quaternion=c.quaternion,
            linear_velocity=c.linear_velocity,
            angular_velocity=c.angular_velocity,
            joint_position=c.joint_position,
            tile=tile,
        )
        fixed = {name: lookup(value, env) for name, value in self._fixed.tensors().items()}
        return Scenarios(script, start, Parameters(**fixed | {"delay_s": c.delay_s}))


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
        faults: Faults | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        device = torch.device(device)
        self.seeds = panel.seeds
        self.count = len(scenarios)
        self.numbers = torch.arange(self.count, device=device)
        self.episode_steps = self.segment_steps = round(panel.episode_s * control_hz)
        self.strata = 1
        n = len(scenarios)
        self.faults = faults.to(device) if faults is not None else None
        self.longest_delay_s = max(s.delay_s for s in scenarios)
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
        ranges = panel.ranges
        low, high = ranges.get("pose", contract.factor("pose").held_out)
        pose = (low + (high - low) * seeds.uniforms(env, 0, Channel.POSE, joints)).astype(np.float32)
        low, high = ranges.get("velocity", (0.0, 0.0))
        motion = (low + (high - low) * seeds.uniforms(env, 0, Channel.VELOCITY, 6)).astype(np.float32)
        yaw = 2 * np.pi * seeds.uniforms(env, 0, Channel.YAW, 1)[:, 0]
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
        start = _start(robot, atlas, tile, yaw, pose, motion)
        names = ("friction", "payload_kg", "com_m", "strength", "kp_scale", "kd_scale", "delay_s")
        parameters = Parameters(
            *(torch.tensor([getattr(s, k) for s in scenarios], dtype=torch.float32) for k in names)
        )
        self._all = Scenarios(script.to(device), start.to(device), parameters.to(device))

    def draw(self, rows: Tensor, episode: Tensor, level: Tensor) -> Scenarios:
        return self._all.take(rows)

    @property
    def scenarios(self) -> Scenarios:
        """All scenarios, one row per environment."""
        return self._all


def _start(
    robot: RobotSpec,
    atlas: Atlas | None,
    tile: np.ndarray,
    yaw: np.ndarray,
    pose: np.ndarray,
    motion: np.ndarray,
) -> Start:
    """Returns starts upright in the default pose plus `pose`, feet just above the ground at the middle of the
    tile, moving by `motion` [N, 6]: linear, then angular."""
    n = len(yaw)
    position = np.zeros((n, 3), np.float32)
    position[:, 2] = robot.stand_height_m + 0.01
    if atlas is not None:
        position[:, :2] = atlas.origins[tile]
        position[:, 2] += atlas.spawn_height[tile]
    quaternion = np.zeros((n, 4), np.float32)
    quaternion[:, 0], quaternion[:, 3] = np.cos(yaw / 2), np.sin(yaw / 2)
    joints = np.asarray(robot.default_pose, np.float32) + pose
    return Start(
        torch.from_numpy(position),
        torch.from_numpy(quaternion),
        torch.from_numpy(motion[:, :3].copy()),
        torch.from_numpy(motion[:, 3:].copy()),
        torch.from_numpy(joints),
        torch.from_numpy(tile),
    )


def first_levels(sampler: Sampler, levels: int, device: torch.device) -> Tensor:
    """Returns terrain levels [N] int64 of first episodes: spread over the lower half."""
    return sampler.numbers.to(device) % max(1, levels // 2)


def staggered_ages(sampler: Sampler, device: torch.device) -> Tensor:
    """Returns ages [N] int64 at which first episodes begin: environments that start together would end
    together, and reset together for a long time."""
    env = sampler.numbers.cpu().numpy()
    u = torch.from_numpy(sampler.seeds.env_uniforms(env, Channel.AGE, 1)[:, 0])
    return (u.to(device) * sampler.episode_steps).long()


def first_task_state(script: Script, feet: int, actions: int) -> TaskState:
    """Returns what the task remembers when episodes of `script` begin: no action yet, all feet down."""
    n = len(script.phase)
    return TaskState(
        age=torch.zeros_like(script.episode),
        command=script.commands[:, 0].clone(),
        action=script.phase.new_zeros(n, actions),
        previous_action=script.phase.new_zeros(n, actions),
        phase=script.phase.clone(),
        contact=torch.ones(n, feet, dtype=torch.bool, device=script.phase.device),
        air_time=script.phase.new_zeros(n, feet),
        landed=script.phase.new_zeros(n, feet),
    )


def spread(s: Scenarios, rows: Tensor, n: int) -> tuple[Start, Parameters]:
    """Returns starts and parameters of `rows` laid out over all `n` environments; the other rows are never
    read."""

    def over_all(record: dict[str, Tensor]) -> dict[str, Tensor]:
        out = {k: v.new_zeros((n, *v.shape[1:])) for k, v in record.items()}
        for k, v in record.items():
            out[k][rows] = v
        return out

    return Start(**over_all(s.start.tensors())), Parameters(**over_all(s.parameters.tensors()))
