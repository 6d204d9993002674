"""How draws become an episode: written once in torch, for tensors and for the symbols that kernels are
printed from.

`EpisodeSampler.compose` is elementwise: fixed shapes, no branching on data, and table look-ups for the cells
that are dealt and the tiles that episodes begin on. Whole numbers that it computes (push steps) are floats;
the caller casts them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import Channel, SeedPlan, TaskContract
from surefoot.robots import RobotSpec
from surefoot.terrain import Atlas

PUSH_EVERY_S = 5.0
"""Training pushes once in every window of this length."""


@dataclass(frozen=True)
class Schedule:
    """Cells in the order in which they are dealt to environments and their episodes, over one round."""

    multiplier: int
    table: Tensor  # [length, S] int64, one cell per segment of the episode

    @property
    def length(self) -> int:
        return len(self.table)

    def index(self, env: Tensor, episode: Tensor) -> Tensor:
        """Rows of the table for environments [M] in their episodes [M]; both int64, and counted from 0."""
        return (env + episode * self.multiplier) % self.length


def lookup(table: Tensor, index: Tensor) -> Tensor:
    """Rows [M, ...] of a table for an index [M]."""
    return torch.index_select(table, 0, index)


@dataclass(frozen=True)
class TileTable:
    """The tiles that episodes begin on, as tables of an atlas."""

    levels: int
    most: int
    """Tiles that any class has at one level, at most."""
    count: Tensor  # [classes * levels] float32, tiles of a class at a level
    tiles: Tensor  # [classes * levels * most] int64, their numbers; -1 where there are fewer
    start: Tensor  # [K, 3] middle of each tile and the height to begin at above it

    @classmethod
    def of(cls, atlas: Atlas, contract: TaskContract, device: torch.device) -> TileTable:
        names, levels = contract.factor("terrain").categories, contract.terrain_levels
        by_cell: dict[tuple[str, int], list[int]] = {}
        for k, t in enumerate(atlas.tiles):
            by_cell.setdefault((t.cls, t.level), []).append(k)
        cells = [by_cell.get((name, level), []) for name in names for level in range(levels)]
        most = max(len(c) for c in cells)
        padded = [[*c, *[-1] * (most - len(c))] for c in cells]
        start = np.column_stack([atlas.origins, atlas.spawn_height])
        return cls(
            levels,
            most,
            torch.tensor([float(len(c)) for c in cells], device=device),
            torch.tensor(padded, device=device).view(-1),
            torch.from_numpy(start).to(device),
        )

    def tile(self, dealt: Tensor, level: Tensor, u: Tensor) -> Tensor:
        """Returns [M], any of the tiles of class `dealt` [M] at `level` [M], by a draw `u` [M]."""
        cell = dealt * self.levels + level
        return lookup(self.tiles, cell * self.most + (u * lookup(self.count, cell)).long())


@dataclass(frozen=True)
class DealtRows:
    """What an episode's composition needs besides draws."""

    mode: Tensor  # [M] int64, row of `EpisodeSampler.modes`
    cell: Tensor  # [M] int64, row of `EpisodeSampler.cells`
    stratum: Tensor  # [M, 1] int64, the environment's part of the stratum number (`EpisodeSampler.stratum`)
    ground: Tensor  # [M] int64, row of `EpisodeSampler.classes`; on a plane nothing looks at it
    level: Tensor  # [M] int64, of the terrain


@dataclass(frozen=True)
class EpisodeDraws:
    """An episode, without what is the environment's for life."""

    commands: Tensor  # [M, S, 3]
    stratum: Tensor  # [M, S] int64
    push_step: Tensor  # [M, P] whole numbers as floats
    push_velocity: Tensor  # [M, P, 2]
    noise_scale: Tensor  # [M]
    phase: Tensor  # [M]
    delay_s: Tensor  # [M]
    position: Tensor  # [M, 3]
    quaternion: Tensor  # [M, 4]
    linear_velocity: Tensor  # [M, 3]
    angular_velocity: Tensor  # [M, 3]
    joint_position: Tensor  # [M, J]
    tile: Tensor  # [M] whole numbers; zeros on a plane


class EpisodeSampler:
    """What a task's contract, its robot and a seed plan fix about every training episode."""

    modes: Schedule
    """Command modes: cells of the factor `command`."""
    cells: Schedule
    """The part of the stratum number that changes from episode to episode."""
    classes: Schedule | None
    """Terrain classes, for all segments one: cells of the factor `terrain`, if that is stratified."""
    land: TileTable | None
    """Where episodes begin; None on a plane."""
    stratum: Tensor  # [N, 1] int64, the part that an environment keeps for life
    draws: dict[str, tuple[Channel, int]]
    """The channel that each entry of `compose`'s `u` is drawn from, and how many draws it takes."""

    def __init__(
        self,
        contract: TaskContract,
        robot: RobotSpec,
        seeds: SeedPlan,
        control_hz: float,
        device: torch.device,
        atlas: Atlas | None = None,
    ) -> None:
        self.contract = contract
        self.episode_steps = round(contract.episode_s * control_hz)
        self.segment_steps = round(contract.command.resample_s * control_hz)
        self.segments = math.ceil(self.episode_steps / self.segment_steps)
        self.push_steps = round(PUSH_EVERY_S * control_hz)
        self.pushes = math.ceil(self.episode_steps / self.push_steps)
        joints = len(robot.joints)
        self.draws = {
            "delay": (Channel.DELAY, 1),
            "noise": (Channel.NOISE_SCALE, 1),
            "push": (Channel.PUSH, 4 * self.pushes),
            "pose": (Channel.POSE, joints),
            "motion": (Channel.VELOCITY, 8),
            "yaw": (Channel.YAW, 1),
            "phase": (Channel.LATENT, 1),
            "command": (Channel.COMMAND, 4 * self.segments),
        }
        train = {f.name: (f.train[0], f.train[1] - f.train[0]) for f in contract.factors}
        height, as_drawn = (robot.stand_height_m + 0.01, 0.02), (0.0, 1.0)
        push = [(0.0, self.push_steps), (0.0, 2 * math.pi), train["push"], as_drawn]
        affine = {  # low and span of every draw but the commands'
            "delay": [train["delay"]],
            "noise": [train["noise"]],
            "push": push * self.pushes,
            "pose": [train["pose"]] * joints,
            "motion": [*[train["velocity"]] * 6, height, as_drawn],
            "yaw": [(0.0, math.pi)],  # half of it, for the quaternion
            "phase": [as_drawn],
        }
        self._columns: dict[str, slice | int] = {}
        for name, columns in affine.items():
            first = sum(len(affine[known]) for known in self._columns)
            self._columns[name] = first if len(columns) == 1 else slice(first, first + len(columns))
        pairs = torch.tensor([pair for columns in affine.values() for pair in columns], dtype=torch.float32)
        self._low, self._span = pairs.T.contiguous().to(device)
        self._pose = torch.tensor(robot.default_pose, dtype=torch.float32, device=device)
        self._windows = torch.arange(self.pushes, dtype=torch.float32, device=device) * self.push_steps
        self._axis = torch.tensor([[0.0, 1.0, 2.0], [1.0, 2.0, math.inf]], device=device).unbind()
        self.modes = self._deal_modes(seeds, device)
        self.cells = self._deal_cells(device)
        rough = "terrain" in contract.strata.names
        self.classes = self._deal("terrain", 1, seeds, device) if rough else None
        self.land = None
        if atlas is not None:
            assert self.classes is not None, "a task on terrain stratifies it"
            self.land = TileTable.of(atlas, contract, device)
            self.draws["terrain"] = (Channel.TERRAIN, 2)  # the first is the curriculum's
        self._up, self._down, how = (x.to(device) for x in self._command_tables())
        self._how = how[self.modes.table]  # [length, S, 3, 3]
        env = np.arange(seeds.envs)
        family, member = seeds.family_of(env), seeds.member_of(env)
        strata = contract.strata
        for_life = {
            f.name: np.zeros_like(env)
            if f.level == "episode"
            else strata.deal(f.name, family, member, env, np.zeros_like(env))
            for f in strata.factors
        }
        self.stratum = torch.from_numpy(strata.join(for_life))[:, None].to(device)

    def _deal_modes(self, seeds: SeedPlan, device: torch.device) -> Schedule:
        if "command" in self.contract.strata.names:
            return self._deal("command", self.segments, seeds, device)
        deck = np.asarray(self.contract.factor("command").deck)  # deal modes all the same, in their shares
        at = np.arange(len(deck))[:, None] + 3 * np.arange(self.segments)
        return Schedule(7, torch.from_numpy(deck[at % len(deck)]).to(device))

    def _deal(self, name: str, segments: int, seeds: SeedPlan, device: torch.device) -> Schedule:
        strata, factor = self.contract.strata, self.contract.factor(name)
        multiplier, length = strata.round if factor.level == "episode" else (0, seeds.envs)
        at = np.arange(length)
        owner = (at, at) if factor.level == "episode" else (seeds.family_of(at), seeds.member_of(at))
        dealt = [strata.deal(name, *owner, at, np.zeros_like(at), k) for k in range(segments)]
        return Schedule(multiplier, torch.from_numpy(np.stack(dealt, 1)).to(device))

    def _deal_cells(self, device: torch.device) -> Schedule:
        strata = self.contract.strata
        multiplier, length = strata.round
        at, none = np.arange(length), np.zeros(length, np.int64)
        by_segment = [
            strata.join(
                {
                    f.name: strata.deal(f.name, none, none, at, none, k if f.name == "command" else 0)
                    if f.level == "episode"
                    else none
                    for f in strata.factors
                }
            )
            for k in range(self.segments)
        ]
        return Schedule(multiplier, torch.from_numpy(np.stack(by_segment, 1)).to(device))

    def _command_tables(self) -> tuple[Tensor, Tensor, Tensor]:
        """What a full command is, upwards [3] and downwards [3] from standing still, and how each mode makes
        shares of it, [modes, 3, 3]: what it multiplies the absolute draws, the draws, and the chosen axis'
        draw with."""
        low, high = torch.tensor([self.contract.factor(n).train for n in ("vx", "vy", "wz")]).T
        how = torch.tensor(
            [
                {
                    "stand": [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
                    "axis": [[0, 0, 0], [0, 0, 0], [1, 1, 1]],
                    "forward": [[1, 0, 0], [0, 1, 1], [0, 0, 0]],
                    "backward": [[-1, 0, 0], [0, 1, 1], [0, 0, 0]],
                }[mode]
                for mode in self.contract.factor("command").categories
            ]
        )
        return high, -low, how.float()

    def facts(self, env: Tensor, episode: Tensor, level: Tensor) -> DealtRows:
        """Returns what is dealt to environments [M] in their episodes [M] at terrain levels [M], int64."""
        mode = self.modes.index(env, episode)

        def row(deal: Schedule) -> Tensor:
            same = (self.modes.multiplier, self.modes.length) == (deal.multiplier, deal.length)
            return mode if same else deal.index(env, episode)

        ground = mode if self.classes is None else row(self.classes)
        return DealtRows(mode, row(self.cells), lookup(self.stratum, env), ground, level)

    def named(self, drawn: Sequence[Tensor]) -> dict[str, Tensor]:
        """Uniform draws [M, count], in the order of `draws`, by name; those of commands as [M, S, 4]."""
        u = dict(zip(self.draws, drawn, strict=True))
        return u | {"command": u["command"].view(-1, self.segments, 4)}

    def compose(self, u: Mapping[str, Tensor], facts: DealtRows) -> EpisodeDraws:
        """`u`: see `named`."""
        x = self._low + self._span * torch.cat([u[name] for name in self._columns], 1)
        delay, noise, push, pose, motion, yaw, phase = (x[:, columns] for columns in self._columns.values())
        speed = push[:, 2::4]
        push_x, push_y = _circle(push[:, 1::4])
        across, up = _circle(yaw)
        height = motion[:, 6]
        zero = 0.0 * height
        tile, position = zero, torch.stack([zero, zero, height], -1)
        if self.land is not None:
            assert self.classes is not None
            dealt = lookup(self.classes.table, facts.ground)[:, 0]
            tile = self.land.tile(dealt, facts.level, u["terrain"][:, 1])
            position = position + lookup(self.land.start, tile)
        return EpisodeDraws(
            commands=self._commands(u["command"], lookup(self._how, facts.mode)),
            stratum=lookup(self.cells.table, facts.cell) + facts.stratum,
            push_step=torch.floor(push[:, 0::4]) + self._windows,
            push_velocity=torch.stack([speed * push_x, speed * push_y], -1),
            noise_scale=noise,
            phase=phase,
            delay_s=delay,
            position=position,
            quaternion=torch.stack([across, zero, zero, up], -1),
            linear_velocity=motion[:, :3],
            angular_velocity=motion[:, 3:6],
            joint_position=pose + self._pose,
            tile=tile,
        )

    def _commands(self, u: Tensor, how: Tensor) -> Tensor:
        """Commands [M, S, 3] from draws [M, S, 4] and what their modes make of them [M, S, 3, 3]."""
        unit = torch.clamp((u[..., :3] - 0.5) * (2 * self.contract.command.gain), -1, 1)
        axis, (first, last) = u[..., 3:] * 3, self._axis
        chosen = (axis >= first) & (axis < last)
        factor = how[..., 1, :] + torch.where(chosen, how[..., 2, :], 0.0)
        share = torch.abs(unit) * how[..., 0, :] + unit * factor
        return share * torch.where(share > 0, self._up, self._down)


def _circle(angle: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine. On the CPU they are numpy's, whose last bits episodes there have always had."""
    if type(angle) is Tensor and angle.device.type == "cpu":
        return torch.from_numpy(np.cos(angle.numpy())), torch.from_numpy(np.sin(angle.numpy()))
    return torch.cos(angle), torch.sin(angle)
