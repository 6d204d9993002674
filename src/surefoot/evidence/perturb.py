"""What a perturbation does to scenarios: a pure function, so that a column has the panel's own keys.

Sensor dropout and observation noise act where observations are made (`VecEnv`), from the scenario's key; all
else is a changed scenario.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from surefoot.contract import Column, Push, Scenario, Terrain, find_perturbation


def perturb(scenario: Scenario, column: Column) -> Scenario:
    """`scenario` as the column has it; family and member, and so every draw, stay."""
    x, kind = column.strength, column.perturbation
    if kind in ("", "dropout"):
        return scenario
    terrain = find_perturbation(kind).terrain
    if terrain is not None:
        moved = Terrain(cls=terrain, level=int(x), key=scenario.terrain.key)
        return scenario.model_copy(update={"terrain": moved})
    if kind == "push":
        return scenario.model_copy(update={"pushes": tuple(at_speed(p, x) for p in scenario.pushes)})
    field = {"noise": "noise_scale", "delay": "delay_s", "payload": "payload_kg"}.get(kind, kind)
    before = getattr(scenario, field)
    after = {"noise": before * x, "payload": before + x}.get(kind, x)
    return scenario.model_copy(update={field: after})


def perturb_all(scenarios: Sequence[Scenario], column: Column) -> tuple[Scenario, ...]:
    return tuple(perturb(s, column) for s in scenarios)


def dropout_of(column: Column) -> float:
    """The chance that a reading is lost in `column`."""
    return column.strength if column.perturbation == "dropout" else 0.0


def at_speed(push: Push, speed: float) -> Push:
    """`push` in its direction at `speed` m/s; one without a direction goes forward."""
    size = math.hypot(push.vx_mps, push.vy_mps)
    x, y = (push.vx_mps / size, push.vy_mps / size) if size > 0 else (1.0, 0.0)
    return Push(time_s=push.time_s, vx_mps=speed * x, vy_mps=speed * y)
