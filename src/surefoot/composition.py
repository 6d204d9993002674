"""How draws become an episode: written once in torch, for tensors and for the symbols that kernels are
printed from.

`Composition.compose` is elementwise: fixed shapes, no branching on data, and one table look-up for the cells
that are dealt. Whole numbers that it computes (push steps) are floats; the caller casts them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import Channel, SeedPlan, TaskContract
from surefoot.robots import RobotSpec

PUSH_EVERY_S = 5.0
"""Training pushes once in every window of this length."""


@dataclass(frozen=True)
class Deal:
    """Cells in the order in which they are dealt to environments and their episodes, over one round."""

    multiplier: int
    table: Tensor  # [length, S] int64, one cell per segment of the episode

    @property
    def length(self) -> int:
        return len(self.table)

    def index(self, env: Tensor, episode: Tensor) -> Tensor:
        """Rows of the table for environments [M] in their episodes [M]; both int64, and counted from 0."""
        return (env + episode * self.multiplier) % self.length


def lookup(table: Tensor, index: Any) -> Tensor:
    """Rows of a table, for tensors and for what stands for them in a kernel."""
    return table[index] if isinstance(index, Tensor) else index.row_of(table)


@dataclass(frozen=True)
class Facts:
    """What an episode's composition needs besides draws."""

    mode: Tensor  # [M] int64, row of `Composition.modes`
    cell: Tensor  # [M] int64, row of `Composition.cells`
    stratum: Tensor  # [M] int64, the environment's part of the stratum number (`Composition.stratum`)


@dataclass(frozen=True)
class Composed:
    """An episode on a plane, without what is the environment's for life."""

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


class Composition:
    """What a task's contract, its robot and a seed plan fix about every training episode."""

    modes: Deal
    """Command modes: cells of the factor `command`."""
    cells: Deal
    """The part of the stratum number that changes from episode to episode."""
    stratum: Tensor  # [N] int64, the part that an environment keeps for life
    draws: dict[str, tuple[Channel, int]]
    """The channel that each entry of `compose`'s `u` is drawn from, and how many draws [M, count] it has."""

    def __init__(
        self,
        contract: TaskContract,
        robot: RobotSpec,
        seeds: SeedPlan,
        control_hz: float,
        device: torch.device,
    ) -> None:
        self.contract = contract
        self.episode_steps = round(contract.episode_s * control_hz)
        self.segment_steps = round(contract.command.resample_s * control_hz)
        self.segments = math.ceil(self.episode_steps / self.segment_steps)
        self.push_steps = round(PUSH_EVERY_S * control_hz)
        self.pushes = math.ceil(self.episode_steps / self.push_steps)
        self.draws = {
            "delay": (Channel.DELAY, 1),
            "noise": (Channel.NOISE_SCALE, 1),
            "command": (Channel.COMMAND, 4 * self.segments),
            "push": (Channel.PUSH, 4 * self.pushes),
            "pose": (Channel.POSE, len(robot.joints)),
            "motion": (Channel.VELOCITY, 8),
            "yaw": (Channel.YAW, 1),
            "phase": (Channel.LATENT, 1),
        }
        self._height = robot.stand_height_m + 0.01
        self._pose = torch.tensor(robot.default_pose, dtype=torch.float32, device=device)
        self._windows = torch.arange(self.pushes, dtype=torch.float32, device=device) * self.push_steps
        self.modes = self._deal_modes(seeds, device)
        self.cells = self._deal_cells(device)
        env = np.arange(seeds.envs)
        family, member = seeds.family_of(env), seeds.member_of(env)
        strata = contract.strata
        for_life = {
            f.name: np.zeros_like(env)
            if f.level == "episode"
            else strata.deal(f.name, family, member, env, np.zeros_like(env))
            for f in strata.factors
        }
        self.stratum = torch.from_numpy(strata.join(for_life)).to(device)

    def _deal_modes(self, seeds: SeedPlan, device: torch.device) -> Deal:
        strata, factor = self.contract.strata, self.contract.factor("command")
        if "command" not in strata.names:  # deal modes all the same, in their shares
            deck = np.asarray(factor.deck)
            at = np.arange(len(deck))[:, None] + 3 * np.arange(self.segments)
            return Deal(7, torch.from_numpy(deck[at % len(deck)]).to(device))
        multiplier, length = strata.round if factor.level == "episode" else (0, seeds.envs)
        at = np.arange(length)
        owner = (at, at) if factor.level == "episode" else (seeds.family_of(at), seeds.member_of(at))
        dealt = [strata.deal("command", *owner, at, np.zeros_like(at), k) for k in range(self.segments)]
        return Deal(multiplier, torch.from_numpy(np.stack(dealt, 1)).to(device))

    def _deal_cells(self, device: torch.device) -> Deal:
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
        return Deal(multiplier, torch.from_numpy(np.stack(by_segment, 1)).to(device))

    def facts(self, env: Tensor, episode: Tensor) -> Facts:
        """For environments [M] in their episodes [M], int64."""
        return Facts(self.modes.index(env, episode), self.cells.index(env, episode), self.stratum[env])

    def compose(self, u: Mapping[str, Tensor], facts: Facts) -> Composed:
        push, motion = u["push"], u["motion"]
        push_x, push_y = _circle(2 * math.pi * push[:, 1::4])
        speed = self._range("push", push[:, 2::4])
        across, up = _circle(math.pi * u["yaw"][:, 0])
        lift = 0.02 * motion[:, 6]
        zero = 0.0 * lift
        return Composed(
            commands=self._commands(u["command"], lookup(self.modes.table, facts.mode)),
            stratum=lookup(self.cells.table, facts.cell) + facts.stratum[:, None],
            push_step=torch.floor(push[:, 0::4] * self.push_steps) + self._windows,
            push_velocity=torch.stack([speed * push_x, speed * push_y], -1),
            noise_scale=self._range("noise", u["noise"][:, 0]),
            phase=u["phase"][:, 0],
            delay_s=self._range("delay", u["delay"][:, 0]),
            position=torch.stack([zero, zero, lift + self._height], -1),
            quaternion=torch.stack([across, zero, zero, up], -1),
            linear_velocity=self._range("velocity", motion[:, 0:3]),
            angular_velocity=self._range("velocity", motion[:, 3:6]),
            joint_position=self._range("pose", u["pose"]) + self._pose,
        )

    def _commands(self, u: Tensor, mode: Tensor) -> Tensor:
        """Commands [M, S, 3] from draws [M, 4 S] and modes [M, S]."""
        c = self.contract
        number = c.factor("command").categories.index
        stand, axis = _is(mode, number("stand")), _is(mode, number("axis"))
        forward, backward = _is(mode, number("forward")), _is(mode, number("backward"))
        only = torch.clamp(torch.floor(3 * u[:, 3::4]), max=2)
        out = []
        for k, name in enumerate(("vx", "vy", "wz")):
            unit = torch.clamp(c.command.gain * (2 * u[:, k::4] - 1), -1, 1)
            if name == "vx":
                ahead = torch.abs(unit)
                unit = torch.where(forward, ahead, torch.where(backward, -ahead, unit))
            low, high = c.factor(name).train
            unit = torch.where(stand | (axis & ~_is(only, k)), 0.0, unit)
            out.append((low + high) / 2 + unit * ((high - low) / 2))
        return torch.stack(out, -1)

    def _range(self, name: str, u: Tensor) -> Tensor:
        low, high = self.contract.factor(name).train
        return low + (high - low) * u


def _is(x: Tensor, k: int) -> Tensor:
    """Equality, of orders alone: symbols have those."""
    return (x >= k) & (x <= k)


def _circle(angle: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine. On the CPU they are numpy's, whose last bits episodes there have always had."""
    if type(angle) is Tensor and angle.device.type == "cpu":
        return torch.from_numpy(np.cos(angle.numpy())), torch.from_numpy(np.sin(angle.numpy()))
    return torch.cos(angle), torch.sin(angle)
