"""Robots that move exactly as a rule says, without physics: what a panel and its success let through.

Their motion is put through the metrics that judge real episodes. A rule that passes a robot blind to its
command measures nothing. For tests, docs and whoever makes a panel of his own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import Scenario, TaskContract
from surefoot.evaluation.metrics import episode_metrics

Motion = Callable[[Tensor, Tensor], Tensor]
"""(commands [N, 3], seconds [T, 1, 1]) -> velocities [N, 3] or [T, N, 3]: vx, vy, wz in the body frame."""
STEP_S = 1.0
"""Velocities are constant over seconds, so few steps tell the same as many."""
MOST = 256
"""Commands of a list that are tried as constants; a longer one gives every second, third, ... of its own."""
TOGETHER = 1 << 14
"""Episodes that are judged at once."""


def scaled(vx: float, vy: float, wz: float) -> Motion:
    """Does these shares of what it is told."""
    return lambda command, _: command * torch.tensor([vx, vy, wz])


def stop_and_go(share: float) -> Motion:
    """Does as it is told for this share of the windows of a second, and rests meanwhile."""
    return lambda command, seconds: command * ((seconds.floor() * share) % 1.0 < share)


def passed(scenarios: Sequence[Scenario], contract: TaskContract, motion: Motion) -> np.ndarray:
    """Returns [N] which scenarios a robot passes that moves by `motion` and never falls; its joints rest, its
    feet stand."""
    commands = torch.tensor([s.command for s in scenarios], dtype=torch.float32)
    return _judged(commands, motion, contract)


def best_constant(scenarios: Sequence[Scenario], contract: TaskContract, points: int = 9) -> float:
    """Returns the largest share of scenarios passed by one velocity, whatever is commanded: the best of all
    commands of the list (MOST of them) and of a grid over their range, with so many points an axis."""
    commands = torch.tensor([s.command for s in scenarios], dtype=torch.float32)
    axes = [torch.linspace(float(x.min()), float(x.max()), points) for x in commands.unbind(1)]
    some_of = commands[:: -(-len(commands) // MOST)]
    constants = torch.unique(torch.cat([torch.cartesian_prod(*axes), some_of, torch.zeros(1, 3)]), dim=0)
    best = 0.0
    for some in constants.split(max(1, TOGETHER // len(commands))):
        told, does = commands.repeat(len(some), 1), some.repeat_interleave(len(commands), 0)
        won = _judged(told, _constant(does), contract)
        best = max(best, float(won.reshape(len(some), -1).mean(1).max()))
    return best


def _constant(velocity: Tensor) -> Motion:
    return lambda command, seconds: velocity


def _judged(commands: Tensor, motion: Motion, contract: TaskContract) -> np.ndarray:
    rows = episode_metrics(_frames(commands, motion), _env(contract, len(commands)))
    return np.asarray(rows["success"])


def _frames(commands: Tensor, motion: Motion, seconds: float = 10.0) -> dict[str, Tensor]:
    steps, n = round(seconds / STEP_S), len(commands)
    when = torch.arange(steps)[:, None, None] * STEP_S
    velocity = motion(commands, when).expand(steps, n, 3)
    zero, upright = torch.zeros(steps, n), torch.tensor([0.0, 0.0, -1.0])
    foot = torch.zeros(steps, n, 1, 3)
    reason = torch.zeros(steps, n, dtype=torch.uint8)
    reason[-1] = 1
    return {
        "linear_velocity": torch.cat([velocity[..., :2], zero[..., None]], -1),
        "angular_velocity": torch.stack([zero, zero, velocity[..., 2]], -1),
        "quaternion": torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(steps, n, 4),
        "gravity": upright.expand(steps, n, 3),
        "command": commands.expand(steps, n, 3),
        "joint_position": zero[..., None],
        "joint_velocity": zero[..., None],
        "torque": zero[..., None],
        "foot_position": foot,
        "foot_velocity": foot,
        "contact": torch.ones(steps, n, 1, dtype=torch.bool),
        "trunk_contact": torch.zeros(steps, n, dtype=torch.bool),
        "age": torch.arange(1, steps + 1)[:, None].expand(steps, n),
        "reward": zero,
        "terms": zero[..., None],
        "reason": reason,
    }


def _env(contract: TaskContract, n: int) -> Any:
    """Returns what metrics ask of an environment."""
    return SimpleNamespace(
        dt=STEP_S,
        contract=contract,
        reasons=("alive", "timeout"),
        reward_names=("none",),
        const=SimpleNamespace(torque_limit=torch.ones(1), mass_kg=1.0),
        parameters=SimpleNamespace(strength=torch.ones(n)),
        script=SimpleNamespace(push_step=torch.zeros(n, 0, dtype=torch.int64)),
    )
