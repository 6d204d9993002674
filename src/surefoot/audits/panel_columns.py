"""Does the evaluator's environment have what panel and columns declare, on the evaluation plant?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from surefoot.audits.applied_factors import NAMES, chosen, unlike
from surefoot.audits.case import Case
from surefoot.audits.declared import FAULTS, judged_on
from surefoot.audits.detector import Detector, Found
from surefoot.audits.explained import cause_on_panel, explain, far, many
from surefoot.audits.held_out_episodes import held_out_plant
from surefoot.audits.panel_lives import PanelLife, panel_lives
from surefoot.audits.slow_sensors import as_seen
from surefoot.audits.twin import PARAMETERS, Steps, Twin, gap
from surefoot.contract import TaskContract

ROWS = 100
"""Steps of a column that the twin takes."""
SEEN = 2e-4
"""Rounding of observations in single precision, of which noise is the difference of two, for the noise's
half-width of one sensor."""
OWN = {
    **{k: k for k in ("friction", "payload", "strength", "delay", "push")},
    "noise": "noise scale",
}
"""What a perturbation shifts, by its name."""
FIELDS = {"dropout": "dropout", "bias": "bias", "stuck": "stuck", "obs_delay": "delay"}


def look(case: Case) -> list[Found]:
    """Asks the evaluator's environments what they have, and holds their steps and observations to it."""
    lives = panel_lives(case)
    return [*_plant(case, lives), *_read_back(lives), *_steps(case, lives), *_seen(case, lives)]


def _plant(case: Case, lives: list[PanelLife]) -> Iterator[Found]:
    plan, panel = case.robot, judged_on(case)
    hz = plan.recipe.control_hz
    plant, length = held_out_plant(hz, plan.task.on_heightfield(panel)), round(panel.episode_s * hz)
    if case.record.evaluation_plant not in (None, plant):
        yield Found("run.json states another evaluation plant than the fixed one.", cause="panel-plant")
    for engine in sorted({x.engine for x in lives}):
        name, has, rate, steps = next(x.said for x in lives if x.engine == engine)
        if name != engine or has != plant:
            text = f"The panel on {engine} runs on engine {name}, and on another plant than the evaluation's"
            yield Found(f"{text}: {has.model_dump()}.", cause="panel-plant")
        if abs(rate - hz) > 1e-6 or steps != length:
            text = (
                f"Held-out episodes are of {steps} steps at {rate:g} Hz, declared are {length} at {hz:g} Hz."
            )
            yield Found(text, cause="held-out")


def _read_back(lives: list[PanelLife]) -> Iterator[Found]:
    """Parameters, pushes, noise, commands and faults of every column, as the environments have them."""
    wrong: dict[str, set[str]] = {}
    for life in lives:
        for name in _unlike(life):
            wrong.setdefault(name, set()).add(life.column.name)
    for name, where in wrong.items():
        own = {x.column.name for x in lives if OWN.get(x.column.perturbation) == name} & where
        for columns, cause in (
            ((where, "held-out"), (own, "perturbation")) if "nominal" in where else ((where, "perturbation"),)
        ):
            if columns:
                text = f"The evaluator's environments have another {name} than declared in "
                yield Found(f"{text}{', '.join(sorted(columns))}.", cause=cause)


def _unlike(life: PanelLife) -> list[str]:
    told, script = life.declared, life.script
    given = {k: np.stack([d.parameters[k] for d in told]) for k in PARAMETERS}
    out = [NAMES.get(k, k) for k in unlike(given, life.read, life.said[1].dt_s)]
    if not np.allclose(script["noise_scale"], [d.noise_scale for d in told], rtol=1e-5):
        out.append("noise scale")
    if not np.allclose(script["commands"], [[d.command] for d in told], rtol=1e-5, atol=1e-6):
        out.append("command")
    for i, d in enumerate(told):
        pushes = [
            (int(k), float(x), float(y))
            for k, (x, y) in zip(script["push_step"][i], script["push_velocity"][i], strict=True)
            if k <= life.said[3]
        ]
        if len(pushes) != len(d.pushes) or not np.allclose(
            sorted(pushes), sorted(d.pushes), rtol=1e-5, atol=1e-6
        ):
            out.append("push")
            break
    for kind in FAULTS:
        there = life.faults.get(FIELDS[kind], np.zeros(len(told)))
        if not np.allclose(there, told[0].faults.get(kind, 0.0), rtol=1e-5):
            out.append(f"fault of sensors ({kind})")
    return out


def _steps(case: Case, lives: list[PanelLife]) -> Iterator[Found]:
    plan = case.robot
    robot, contract, hz = plan.task.robot, plan.task.contract, plan.recipe.control_hz
    plant = held_out_plant(hz, plan.task.on_heightfield(judged_on(case)))
    twin, numbers = Twin(robot, contract, plant), case.numbers("panel columns")
    off: dict[str, list[Steps]] = {}
    columns: dict[str, set[str]] = {}
    for life in lives:
        rows = ROWS if life.column.perturbation not in FAULTS else ROWS // 4
        s = chosen(life.steps, numbers, 1.0 / hz, rows)
        wrong, pushed = far(gap(s, twin.step(s), 1.0 / hz), robot), np.abs(s.push).any(1)
        if many(wrong, s.env) or (wrong & pushed).sum() >= max(3, 0.04 * pushed.sum()):
            off.setdefault(life.engine, []).append(s.take(wrong))
            columns.setdefault(life.engine, set()).add(life.column.name)
    for engine, names in columns.items():
        perturbed = "nominal" not in names
        s = Steps.join(off[engine] if perturbed else off[engine][:1])
        pushes = bool(np.abs(s.push).any(1).all())
        why = explain(s, robot, contract, plant, plan.training_plant)
        reason = "pushes" if pushes else why.name
        text = f"On {engine} steps of {', '.join(sorted(names))} are not what native MuJoCo makes of what is "
        text += "declared, on the evaluation plant"
        yield Found(
            f"{text}; {reason} would explain it." if reason else f"{text}.",
            cause=cause_on_panel(why, perturbed, pushes),
        )


def _seen(case: Case, lives: list[PanelLife]) -> Iterator[Found]:
    """Noise of every column is the nominal column's in its own scale; faults do what they say."""
    contract, wrong = case.robot.task.contract, []
    nominal = {x.engine: x for x in lives if not x.column.perturbation}
    for life in lives:
        base = nominal.get(life.engine)
        if base is None or len(base.declared) != len(life.declared):
            continue
        if life.column.perturbation in FAULTS:
            right = _as_faulty(case, life, base.seen)
        elif life.column.perturbation == "noise":
            right = _noisy(life, base, contract)
        else:
            continue
        off = np.abs(life.seen - right) > SEEN
        if off.any(0).any(1).sum() > 0 and off.mean() > 1e-4:
            wrong.append(f"{life.column.name} ({int(off.any((0, 2)).sum())} of {off.shape[1]} scenarios)")
    if wrong:
        text = "What is seen is not what the column says of sensors in " + ", ".join(wrong)
        yield Found(f"{text}.", cause="perturbation")


def _as_faulty(case: Case, life: PanelLife, right: np.ndarray) -> np.ndarray:
    contract, seeds, length = case.robot.task.contract, judged_on(case).seeds, life.said[3]
    each = [
        as_seen(right[:, i].astype(np.float64), d, life.age[:, i], contract, seeds, length)
        for i, d in enumerate(life.declared)
    ]
    return np.stack(each, 1)


def _noisy(life: PanelLife, base: PanelLife, contract: TaskContract) -> np.ndarray:
    """Returns what is seen when the nominal column's noise is as much larger as the scales are."""
    ratio = np.array([d.noise_scale for d in life.declared]) / [d.noise_scale for d in base.declared]
    noise = (base.seen - base.clean).astype(np.float64)
    out = life.clean + ratio[:, None] * noise
    inside = (np.abs(out) < 9.9) & (np.abs(base.seen) < 9.9) & (np.abs(base.clean) < 9.9)
    return np.where(inside, out, life.seen)


DETECTORS = (
    Detector(
        name="panel-columns",
        kind="proof",
        cause="perturbation",
        asks="Do the evaluator's environments have what panel and columns declare, on the evaluation plant "
        "and the stated engine?",
        statistic="read-back of parameters, pushes, noise, commands and faults of every column; its steps "
        "against native MuJoCo; what is seen against a slow numpy twin of sensors",
        threshold="read-back and observations to rounding; steps as for applied-factors",
        means="Columns, or the nominal one, are not the conditions that their names state.",
        remedy="Follow the named quantity from `perturb` and the sampler of panels into the engine.",
        look=look,
        needs=("robot", "confirmed"),
    ),
)
