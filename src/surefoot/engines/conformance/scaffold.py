"""What checks are made of: starts, targets, and comparisons that say which promise is broken. Engines'
own tests use it too."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields

import torch
from torch import Tensor

from surefoot.engines.protocol import Engine, Parameters, RobotState, Rows, Start

Make = Callable[[int], Engine]
Check = Callable[[Make], None]

GRAVITY = 9.81
ALOFT_M = 50.0
"""High enough to stay clear of the ground for every check that wants free flight."""


def standing(engine: Engine, height_m: float | None = None) -> Start:
    """All at rest in the default pose, level, the feet 5 mm above the ground or the trunk at `height_m`."""
    n, device = engine.num_envs, engine.device
    position = torch.zeros(n, 3, device=device)
    position[:, 2] = engine.robot.stand_height_m + 0.005 if height_m is None else height_m
    quaternion = torch.zeros(n, 4, device=device)
    quaternion[:, 0] = 1.0
    still, tile = torch.zeros(n, 3, device=device), torch.zeros(n, dtype=torch.int64, device=device)
    return Start(position, quaternion, still, still.clone(), default_targets(engine), tile)


def default_targets(engine: Engine) -> Tensor:
    pose = torch.tensor(engine.robot.default_pose, dtype=torch.float32, device=engine.device)
    return pose.repeat(engine.num_envs, 1)


def moving_targets(engine: Engine, step: int) -> Tensor:
    """Targets that swing about the default pose, different in every environment and joint."""
    rows = torch.arange(engine.num_envs, device=engine.device)[:, None]
    joints = torch.arange(len(engine.robot.joints), device=engine.device)[None]
    return default_targets(engine) + 0.3 * torch.sin(0.4 * step + 1.7 * joints + 0.9 * rows)


def mask_of(engine: Engine, rows: Sequence[int]) -> Tensor:
    mask = torch.zeros(engine.num_envs, dtype=torch.bool, device=engine.device)
    mask[list(rows)] = True
    return mask


def begin(engine: Engine, start: Start | None = None, parameters: Parameters | None = None) -> None:
    """Resets all environments, to standing with nominal parameters unless told otherwise."""
    everyone = mask_of(engine, range(engine.num_envs))
    nominal = Parameters.nominal(engine.num_envs, engine.device)
    engine.reset(everyone, start or standing(engine), parameters or nominal)


def run(engine: Engine, steps: int, first: int = 0, targets: Tensor | None = None) -> list[RobotState]:
    """Steps with moving targets, or with the same `targets` all along; the states in order."""
    issued = (moving_targets(engine, first + k) if targets is None else targets for k in range(steps))
    return [engine.step(t).clone() for t in issued]


def assert_same(a: Rows, b: Rows, promise: str, rows: Sequence[int] | None = None) -> None:
    """Fails with `promise` unless both records (or their `rows`) agree to the bit; NaN agrees with NaN."""
    if rows is not None:
        a, b = (x.take(torch.tensor(rows, device=next(iter(x.tensors().values())).device)) for x in (a, b))
    wrong = [f.name for f in fields(a) if not _same_bits(getattr(a, f.name), getattr(b, f.name))]
    hold(not wrong, f"{promise}: {', '.join(wrong)} differ.")


def _same_bits(a: Tensor, b: Tensor) -> bool:
    raw = [x.detach().contiguous().reshape(-1).view(torch.uint8) for x in (a, b)]
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(*raw)


def steps_in(engine: Engine, seconds: float) -> int:
    return round(seconds * engine.plant.control_hz)


def hold(condition: Tensor | bool, promise: str) -> None:
    """An assertion that python -O does not remove."""
    if not bool(torch.as_tensor(condition).all()):
        raise AssertionError(promise)


def near(a: Tensor, b: Tensor | float, atol: float, promise: str) -> None:
    error = float((a - b).abs().max())
    hold(error <= atol, f"{promise}; it is off by {error:.3g} (at most {atol:g} is allowed).")


def vector(engine: Engine, *values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float32, device=engine.device)


def to_world(state: RobotState) -> Tensor:
    """The base's linear velocity in the world frame, [N, 3]."""
    v, w, axis = state.linear_velocity, state.quaternion[:, :1], state.quaternion[:, 1:]
    across = torch.linalg.cross(axis, v)
    world: Tensor = v + 2 * w * across + 2 * torch.linalg.cross(axis, across)
    return world


def turned_start(engine: Engine, axis: int, angle: float) -> Start:
    """Standing aloft, turned by `angle` about a world axis (0, 1 or 2)."""
    start = standing(engine, ALOFT_M)
    start.quaternion[:, 0] = math.cos(angle / 2)
    start.quaternion[:, 1 + axis] = math.sin(angle / 2)
    return start
