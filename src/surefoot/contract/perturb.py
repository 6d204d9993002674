"""What a perturbation does to scenarios: a pure function, so that a column has the panel's own keys.

Faults of sensors and observation noise act where observations are made (`VecEnv`), from the scenario's key;
all else is a changed scenario.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from surefoot.contract.errors import SurefootError
from surefoot.contract.panel import Push, Scenario, Terrain
from surefoot.contract.perturbation import SENSORS, Column, Perturbation, find_perturbation


def perturb(scenario: Scenario, column: Column) -> Scenario:
    """Returns `scenario` as the column has it; family and member, and so every draw, stay."""
    x, kind = column.strength, column.perturbation
    if kind in ("", *SENSORS):
        return scenario
    known = find_perturbation(kind)
    if known.change is not None:
        return _changed(scenario, known, x)
    if known.terrain is not None:
        moved = Terrain(cls=known.terrain, level=int(x), key=scenario.terrain.key)
        return scenario.model_copy(update={"terrain": moved})
    if kind == "push":
        return scenario.model_copy(update={"pushes": tuple(at_speed(p, x) for p in scenario.pushes)})
    field = {"noise": "noise_scale", "delay": "delay_s", "payload": "payload_kg"}.get(kind, kind)
    before = getattr(scenario, field)
    after = {"noise": before * x, "payload": before + x}.get(kind, x)
    return scenario.model_copy(update={field: after})


def _changed(scenario: Scenario, by: Perturbation, strength: float) -> Scenario:
    """Applies another package's change, which may change anything but who it is and the ground."""
    assert by.change is not None
    changed = by.change(scenario, strength)
    kept = ("family", "member", "half", "terrain")
    if not isinstance(changed, Scenario) or any(getattr(changed, k) != getattr(scenario, k) for k in kept):
        raise SurefootError(
            f"Perturbation '{by.name}' must return the scenario with its family, member, half and terrain "
            "kept."
        )
    return Scenario.model_validate(changed.model_dump())  # its ranges hold, whatever the package did


def perturb_all(scenarios: Sequence[Scenario], column: Column) -> tuple[Scenario, ...]:
    if column.perturbation not in ("", *SENSORS):
        known = find_perturbation(column.perturbation)  # once: an installed package may have to be searched
        if known.change is not None:
            return tuple(_changed(s, known, column.strength) for s in scenarios)
    return tuple(perturb(s, column) for s in scenarios)


def at_speed(push: Push, speed: float) -> Push:
    """Returns `push` in its direction at `speed` m/s; one without a direction goes forward."""
    size = math.hypot(push.vx_mps, push.vy_mps)
    x, y = (push.vx_mps / size, push.vy_mps / size) if size > 0 else (1.0, 0.0)
    return Push(time_s=push.time_s, vx_mps=speed * x, vy_mps=speed * y)
