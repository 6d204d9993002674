"""Are the held-out episodes whose traces were kept what panel, column and evaluation plant declare?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.audits.applied_factors import NAMES
from surefoot.audits.case import Case
from surefoot.audits.declared import Declared, columns_of, declared, judged_on, with_declared
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.explained import cause_on_panel, explain, far
from surefoot.audits.twin import PARAMETERS, Steps, Twin, gap
from surefoot.audits.twin_steps import of_episode
from surefoot.contract import BOX_WORLD, Column, Plant

OF_A_COLUMN, STEPS = 2, 8
"""Traces of a column, and steps of each besides the pushed ones."""
SAME = 1e-5
FAULT_FIELDS = {
    "dropout": "dropout",
    "bias": "sensor_bias",
    "stuck": "stuck_signals",
    "obs_delay": "sensor_delay_steps",
}


def held_out_plant(control_hz: float, heightfield: bool) -> Plant:
    """Returns the evaluation plant as it is documented: 5 ms, elliptic cones, impratio 10, converged, with
    dry friction."""
    return Plant(
        dt_s=0.005,
        decimation=round(200 / control_hz),
        cone="elliptic",
        impratio=10.0,
        iterations=50,
        ls_iterations=50,
        tolerance=1e-8,
        joint_dry_friction=True,
        heightfield="surface" if heightfield else None,
    )


@dataclass
class Kept:
    """Some steps of an episode that was kept."""

    column: Column
    engine: str
    unlike: list[str]
    """What its record says otherwise than declared."""
    steps: Steps


def look(case: Case) -> list[Found]:
    """Holds the records of two episodes of every column, and some of their steps, to what is declared."""
    kept = _kept(case)
    if not kept:
        raise NotApplicable("no trace of a held-out episode was kept")
    return [*_records(kept), *_steps(case, kept)]


def _kept(case: Case) -> list[Kept]:
    result, plan, panel = case.result, case.robot, judged_on(case)
    columns, table, numbers = columns_of(result.table), result.table, case.numbers("kept episodes")
    hz, tiles = plan.recipe.control_hz, plan.task.on_heightfield(plan.panel)
    out: list[Kept] = []
    for (name, engine), column in columns.items():
        of = (table["column"] == name) & (table["engine"] == engine) & (table["trace"].astype(str) != "")
        if engine == BOX_WORLD:
            continue
        for i in numbers.permutation(np.flatnonzero(of))[:OF_A_COLUMN]:
            path = result.folder / "traces" / f"{table['trace'][i]}.npz"
            if not path.is_file():
                continue
            trace = case.trace(path)
            d = declared(panel.scenarios[int(table["scenario"][i])], column, hz)
            last = len(trace["position"]) - 1
            if last < 2:
                continue
            some = numbers.integers(1, last, STEPS)
            at = np.unique([*some, *(k for k, _, _ in d.pushes if 0 < k < last)]).astype(int)
            steps = with_declared(of_episode(trace, plan.task.contract, at, len(out), tiles=tiles), d, at)
            out.append(Kept(column, engine, unlike(trace, d, hz), steps))
    return out


def unlike(trace: Mapping[str, np.ndarray], d: Declared, hz: float) -> list[str]:
    """Returns what a trace records otherwise than declared, by the names of factors."""
    say: dict[str, tuple[Any, Any]] = {NAMES.get(k, k): (trace[k], d.parameters[k]) for k in PARAMETERS}
    say = {
        **{k: v for k, v in say.items() if k != "gains"},
        "gains": (_gains(trace), _gains(d.parameters)),
        "noise": (trace["noise_scale"], d.noise_scale),
        "push time": (np.sort(trace["push_step"]), np.sort([k for k, _, _ in d.pushes])),
        "push": (_pushes(trace), np.array([[x, y] for _, x, y in sorted(d.pushes)]).reshape(-1, 2)),
        "command": (trace["command"][0], d.command),
        "control rate": (trace["control_hz"], hz),
        **{k: (trace[name], d.faults.get(k, 0.0)) for k, name in FAULT_FIELDS.items()},
    }
    out = [k for k, (there, told) in say.items() if not _same(there, told)]
    ground = (str(trace["terrain_class"]), int(trace["terrain_level"]), int(trace["terrain_key"]))
    return out + ["terrain"] * (ground != tuple(d.ground))


def _gains(of: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.stack([of["kp_scale"], of["kd_scale"]])


def _pushes(trace: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.asarray(trace["push_velocity"][np.argsort(trace["push_step"], kind="stable")])


def _same(a: object, b: object) -> bool:
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return x.shape == y.shape and bool(np.allclose(x, y, rtol=SAME, atol=SAME))


def _records(kept: list[Kept]) -> list[Found]:
    out = []
    for perturbed in (False, True):
        wrong = [k for k in kept if k.unlike and bool(k.column.perturbation) == perturbed]
        if wrong:
            what = ", ".join(sorted({w for k in wrong for w in k.unlike}))
            where = ", ".join(sorted({k.column.name for k in wrong}))
            out.append(
                Found(
                    f"Episodes of {where} record another {what} than panel and column declare, in "
                    f"{len(wrong)} of {len(kept)} traces.",
                    cause="perturbation" if perturbed else "held-out",
                )
            )
    return out


def _steps(case: Case, kept: list[Kept]) -> list[Found]:
    plan = case.robot
    robot, contract, hz = plan.task.robot, plan.task.contract, plan.recipe.control_hz
    plant = held_out_plant(hz, plan.task.on_heightfield(judged_on(case)))
    every = Steps.join([k.steps for k in kept])
    off = far(gap(every, Twin(robot, contract, plant).step(every), 1.0 / hz), robot)
    whose = np.repeat(np.arange(len(kept)), [len(k.steps) for k in kept])
    groups: dict[tuple[str, str], list[int]] = {}
    for i, k in enumerate(kept):
        groups.setdefault((k.column.name, k.engine), []).append(i)
    wrong: dict[str, dict[str, np.ndarray]] = {}
    for (name, engine), members in groups.items():
        rows = off & np.isin(whose, members)
        pushed = np.isin(whose, members) & np.abs(every.push).any(1)
        if rows.sum() >= 3 or (rows & pushed).sum() >= max(2, 0.75 * pushed.sum()):
            wrong.setdefault(engine, {})[name] = rows
    out = []
    for engine, of in wrong.items():
        perturbed = "nominal" not in of
        rows = np.any(list(of.values()), 0) if perturbed else of["nominal"]
        why = explain(every.take(rows), robot, contract, plant, plan.training_plant)
        pushes = bool(np.abs(every.push[rows]).any(1).all())
        text = (
            f"Recorded steps of {', '.join(sorted(of))} on {engine} are not what native MuJoCo makes of the "
        )
        text += "declared scenario on the evaluation plant"
        reason = "pushes" if pushes else why.name
        cause = cause_on_panel(why, perturbed, pushes)
        out.append(Found(f"{text}; {reason} would explain it." if reason else f"{text}.", cause=cause))
    return out


DETECTORS = (
    Detector(
        name="kept-episodes",
        kind="proof",
        cause="held-out",
        asks="Are the held-out episodes that were kept those of their scenarios and columns, on the "
        "evaluation plant?",
        statistic="parameters, pushes, noise, faults and ground in two traces of every column against panel "
        "and column; eight steps of each and its pushes against native MuJoCo with what is declared",
        threshold="records to rounding (1e-5); three steps of a column beyond 1e-4 m/s, 1e-3 and 5e-3 "
        "rad/s or 5e-3 N m",
        means="Held-out episodes were played under other conditions than the result states.",
        remedy="Follow the named quantity from the panel through the column into the evaluator's engine.",
        look=look,
        needs=("robot", "confirmed"),
        short=True,
    ),
)
