"""Steps that differ from their twin's, and the single thing that would explain it: each quantity is moved
alone until the twin does what was lived, and the one that leaves least over is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from surefoot.audits.twin import Steps, Twin, Variant, gap
from surefoot.contract import Plant, TaskContract
from surefoot.robots import RobotSpec

FAR = {"linear": 1e-4, "angular": 1e-3, "joints": 5e-3, "moved": 3e-3, "turned": 5e-3, "torque": 5e-3}
"""m/s, rad/s, rad/s, m/s, rad/s and N m by which single precision and a solver that stops at its tolerance
may be off native MuJoCo in a control step: 3 to 20 times the 999th of 1000 steps of clean runs."""
SHARE = 0.01
"""Share of steps that may be off all the same: where a contact begins in one and not yet in the other."""
ROWS = 48
"""Steps that an explanation is looked for in."""
ENOUGH = 0.2
"""Share of the gap that a quantity may leave over and still be named."""


def far(gaps: np.ndarray, robot: RobotSpec) -> np.ndarray:
    """Returns where steps [M] are off what their twin did, in any quantity."""
    j = len(robot.joints)
    torque = FAR["torque"] + 1e-4 * np.asarray(robot.torque_limit_nm)
    counts = {"linear": 3, "angular": 3, "joints": j, "moved": 3, "turned": j}
    limits = np.concatenate([*(np.full(n, FAR[k]) for k, n in counts.items()), torque])
    out: np.ndarray = ~(np.abs(gaps) <= limits).all(1)
    return out


def many(off: np.ndarray, of: np.ndarray) -> bool:
    """Returns whether steps that are off are more than rounding makes: of all, or of any one of `of`
    [M], three and a third of its own."""
    if off.sum() >= 4 and off.mean() > SHARE:
        return True
    hit = np.bincount(of, off) if len(of) else np.zeros(1)
    own = np.bincount(of) if len(of) else np.ones(1)
    return bool(((hit >= 3) & (hit > own / 3)).any())


@dataclass(frozen=True)
class Explanation:
    """The quantity that explains most, by name, and what is left of the gap with it (1: all)."""

    name: str
    kind: str
    """`factor`, `push`, `action`, `plant`, `physics`, or "" where nothing does."""
    left: float


def explain(
    s: Steps, robot: RobotSpec, contract: TaskContract, plant: Plant, training: Plant | None = None
) -> Explanation:
    """Looks for one quantity that makes the twin do what was lived in steps `s`. `training` is another plant
    that they may have been simulated on instead."""
    s = s.take(np.linspace(0, len(s) - 1, min(ROWS, len(s))).astype(int))
    control_s = plant.dt_s * plant.decimation
    twin = Twin(robot, contract, plant)
    size = _size(gap(s, twin.step(s), control_s), robot)

    def left(of: Twin, steps: Steps) -> float:
        return float(np.median(_size(gap(steps, of.step(steps), control_s), robot) / size))

    tried: list[Explanation] = []
    if training is not None and training != plant:
        tried.append(Explanation("the training plant", "plant", left(Twin(robot, contract, training), s)))
    for name, variant in OTHERWISE.items():
        tried.append(Explanation(name, "plant", left(Twin(robot, contract, plant, variant), s)))
    for name, (kind, variant) in SIZES.items():
        moved = Twin(robot, contract, plant, variant)
        tried.append(Explanation(name, kind, _along(s, twin, moved.step(s), size, control_s, robot)))
    for name, (field, nudge) in NUDGES.items():
        changed = _with(s, field, nudge(getattr(s, field)))
        kind = "push" if field == "push" else "factor"
        if kind == "push" and not np.abs(s.push).any():
            continue
        rest = _along(s, twin, twin.step(changed), size, control_s, robot)
        tried.append(Explanation(name, kind, min(rest, left(twin, _nominal(s, field)))))
    ticks = round(float(s.delay_s.max(initial=0.0)) / plant.dt_s)
    for k in range(0, max(ticks, 4) + plant.decimation + 1):
        steps = replace(s, delay_s=np.full_like(s.delay_s, k * plant.dt_s))
        tried.append(Explanation("delay", "factor", left(twin, steps)))
    best = min(tried, key=lambda e: e.left)
    return best if best.left < ENOUGH else Explanation("", "", best.left)


NUDGES: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "friction": ("friction", lambda x: x * 0.95),
    "payload": ("payload_kg", lambda x: x + 0.1),
    "centre of mass along x": ("com_m", lambda x: x + np.array([2e-3, 0, 0])),
    "centre of mass along y": ("com_m", lambda x: x + np.array([0, 2e-3, 0])),
    "centre of mass along z": ("com_m", lambda x: x + np.array([0, 0, 2e-3])),
    "motor strength": ("strength", lambda x: x * 0.98),
    "position gain": ("kp_scale", lambda x: x * 0.98),
    "velocity gain": ("kd_scale", lambda x: x * 0.98),
    "push": ("push", lambda x: x * 0.95),
}
NOMINAL = {"friction": 0.8, "strength": 1.0, "kp_scale": 1.0, "kd_scale": 1.0}
SIZES = {
    "gravity": ("physics", Variant(gravity=0.98)),
    "joint damping": ("physics", Variant(damping=0.9)),
    "joint armature": ("physics", Variant(armature=0.98)),
    "torque limits": ("physics", Variant(limit=0.98)),
    "the size of actions": ("action", Variant(scale=0.98)),
}
OTHERWISE = {
    "impratio of 1": Variant(impratio=1.0),
    "impratio of 10": Variant(impratio=10.0),
    "the friction cone": Variant(cone="pyramidal"),
    "no dry friction of joints": Variant(dry_friction=False),
    "dry friction of joints": Variant(dry_friction=True),
    "a time step of 2.5 ms": Variant(dt_s=0.0025),
    "a time step of 4 ms": Variant(dt_s=0.004),
    "a time step of 10 ms": Variant(dt_s=0.01),
}


def _nominal(s: Steps, field: str) -> Steps:
    return _with(s, field, np.full_like(getattr(s, field), NOMINAL.get(field, 0.0)))


def _with(s: Steps, field: str, value: np.ndarray) -> Steps:
    out = s.take(np.arange(len(s)))
    setattr(out, field, value)
    return out


def _along(
    s: Steps, twin: Twin, moved: dict[str, np.ndarray], size: np.ndarray, control_s: float, robot: RobotSpec
) -> float:
    """Returns what is left of the gap when a quantity may be moved along the direction in which `moved` lies,
    by any amount, one for each environment."""
    weight = _weights(robot)
    short = gap(s, twin.step(s), control_s) * weight
    effect = short - gap(s, moved, control_s) * weight  # what the nudge adds to the twin
    rest = np.empty(len(s))
    for e in np.unique(s.env):
        rows = s.env == e
        a, b = effect[rows], short[rows]
        amount = (a * b).sum() / max((a * a).sum(), 1e-30)
        rest[rows] = np.linalg.norm(b - amount * a, axis=1)
    return float(np.median(rest / size))


def _weights(robot: RobotSpec) -> np.ndarray:
    """Returns what makes gaps of different units alike."""
    j = len(robot.joints)
    return np.concatenate(
        [np.full(3, 10.0), np.full(3, 1.0), np.full(j, 0.1), np.zeros(3 + j), np.full(j, 0.1)]
    )


def _size(gaps: np.ndarray, robot: RobotSpec) -> np.ndarray:
    """Returns [M] how large gaps are, all quantities together."""
    out: np.ndarray = np.linalg.norm(gaps * _weights(robot), axis=1) + 1e-12
    return out


def cause_on_panel(why: Explanation, perturbed: bool, pushes: bool) -> str:
    """Returns the class of cause of held-out steps that are not as declared: of perturbed columns alone, or
    of the nominal one too. `pushes`: it is the pushed steps and no others."""
    if perturbed:
        return "perturbation"
    if pushes or why.kind in ("factor", "push"):
        return "held-out"
    return {"plant": "panel-plant", "": "panel-plant"}.get(why.kind, why.kind)
