"""What a scenario of a panel is under a column: worked out anew from what perturbations are said to do."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import NotApplicable
from surefoot.audits.twin import PARAMETERS, Arrays, Steps
from surefoot.contract import Column, Panel, Scenario
from surefoot.terrain import TileId

FAULTS = ("dropout", "bias", "stuck", "obs_delay")
FACTORS = {
    "friction": "friction",
    "payload": "payload_kg",
    "strength": "strength",
    "delay": "delay_s",
    "push": "push",
    "noise": "noise_scale",
}
"""What a perturbation shifts, by its name."""
KNOWN = ("", *FACTORS, *FAULTS, "curbs", "stones")


@dataclass(frozen=True)
class Declared:
    """One held-out episode as panel and column declare it."""

    command: tuple[float, float, float]
    parameters: dict[str, np.ndarray]
    noise_scale: float
    pushes: list[tuple[int, float, float]]
    """Control step before which a push acts, and what it adds to the velocity in the world."""
    ground: TileId
    family: int
    member: int
    faults: dict[str, float] = field(default_factory=dict)


def declared(s: Scenario, column: Column, control_hz: float) -> Declared:
    """Returns scenario `s` under `column`: noise is multiplied, payload added, all else set to the strength;
    a push keeps its direction and time; terrain keeps its key."""
    x, kind = column.strength, column.perturbation
    parameters = {k: np.asarray(getattr(s, k), np.float64) for k in PARAMETERS}
    noise, ground = s.noise_scale, TileId(s.terrain.cls, s.terrain.level, s.terrain.key)
    pushes = [(p.time_s, p.vx_mps, p.vy_mps) for p in s.pushes]
    if kind in ("friction", "strength"):
        parameters[kind] = np.asarray(x)
    elif kind == "payload":
        parameters["payload_kg"] = parameters["payload_kg"] + x
    elif kind == "delay":
        parameters["delay_s"] = np.asarray(x)
    elif kind == "noise":
        noise *= x
    elif kind == "push":
        pushes = [(t, *_resized(vx, vy, x)) for t, vx, vy in pushes]
    elif kind in ("curbs", "stones"):
        ground = TileId(kind, int(x), s.terrain.key)
    return Declared(
        command=s.command,
        parameters=parameters,
        noise_scale=noise,
        pushes=[(round(t * control_hz), vx, vy) for t, vx, vy in pushes],
        ground=ground,
        family=s.family,
        member=s.member,
        faults={kind: x} if kind in FAULTS else {},
    )


def _resized(vx: float, vy: float, speed: float) -> tuple[float, float]:
    angle = math.atan2(vy, vx)
    return speed * math.cos(angle), speed * math.sin(angle)


def columns_of(table: Arrays) -> dict[tuple[str, str], Column]:
    """Returns the columns of the trained policy in a table of episodes, by name and engine."""
    out = {}
    keys = zip(*(table[k].tolist() for k in ("column", "engine", "perturbation", "strength")), strict=True)
    trained = table["policy"].astype(str) == "trained"
    for (name, engine, kind, strength), own in zip(keys, trained.tolist(), strict=True):
        if own and str(kind) in KNOWN:
            out[str(name), str(engine)] = Column(name=name, perturbation=kind, strength=float(strength))
    return out


def with_declared(s: Steps, d: Declared, at: np.ndarray) -> Steps:
    """Returns steps number `at` [M] of an episode with the parameters and pushes that are declared of it."""
    push = np.zeros((len(at), 2))
    for step, vx, vy in d.pushes:
        push[at == step] += (vx, vy)
    given = {k: np.repeat(v[None], len(at), 0) for k, v in d.parameters.items()}
    for k, v in given.items():
        setattr(s, k, v)
    s.push = push
    s.ground = [d.ground] * len(at) if s.ground else []
    return s


def judged_on(case: Case) -> Panel:
    """Returns the panel that a run's result is on: its plan's, as long as it was when it was looked at."""
    of = case.result.summary
    panel = as_long(case, of.panel, of.panel_digest)
    if panel is None:
        raise NotApplicable("its result is on another panel than its plan's")
    return panel


def as_long(case: Case, name: str, digest: str) -> Panel | None:
    """Returns the plan's panel as long as it was in a pass on a panel called `name`, which a confirmation in
    looks makes longer; None where that is another panel."""
    own, longer = case.robot.panel, re.search(r"\+(\d+)scenarios", name)
    if own.digest != digest and longer:
        own = case.once(f"panel {name}", lambda: case.robot.panel.with_scenarios(int(longer[1])))
    return own if own.digest == digest else None
