"""Everything that is asked of a policy on a panel, pass by pass: the nominal column on the reference, then
the columns and the baselines on a fast engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.contract import (
    BOX_WORLD,
    REFERENCE,
    TRAINED,
    Column,
    Half,
    Panel,
    SurefootError,
    evaluation_plant,
)
from surefoot.engines import check_engine, choose_engine
from surefoot.evaluation.evaluator import PanelEvaluator
from surefoot.evaluation.progress import PassCounter, Watch, unwatched
from surefoot.policy import BASELINES, Policy, baseline
from surefoot.statistics import LOOKS, PanelResult, look_at
from surefoot.tasks import Task
from surefoot.terrain import has_solids

AUTO = "auto"


def engines_for(engine: str, task: Task, panel: Panel, control_hz: float) -> tuple[str, str]:
    """Returns (engine of the nominal column, engine of the others).

    `auto` is native MuJoCo, and the fastest that can take the robot; any other name is meant for both.
    """
    if engine != AUTO:
        check_engine(engine)
        return engine, engine
    plant = evaluation_plant(control_hz, task.on_heightfield(panel))
    return REFERENCE, choose_engine(AUTO, task.robot, plant, "cpu")[0]


@dataclass(frozen=True)
class Passes:
    """Says what is asked of a policy on a panel besides the nominal column."""

    engine: str = AUTO
    columns: Sequence[Column] = ()
    """Perturbed columns."""
    baselines: Sequence[str] = BASELINES
    first: PanelResult | None = None
    """The nominal column on the first engine, where it was played before: in looks."""


def evaluate_panel(
    task: Task,
    panel: Panel,
    half: Half,
    control_hz: float,
    policy: Policy,
    passes: Passes,
    *,
    name: str = TRAINED,
    watch: Watch = unwatched,
) -> tuple[PanelResult, list[PanelResult]]:
    """Returns the whole table as one result, and the passes it is made of; the first is the headline.

    The nominal column is also measured on the reference when another engine is asked for, on the engine of
    the columns, and on terrain in the box world, so that engines can be compared scenario by scenario and
    columns with their own nominal.
    """
    first, fast = engines_for(passes.engine, task, panel, control_hz)
    also = [fast] if passes.columns or passes.baselines else []
    boxes = in_box_world(task, panel, half)
    engines = list(dict.fromkeys([first, *also, REFERENCE, *([BOX_WORLD] if boxes else [])]))
    others = [(b, _baseline(b, task, control_hz, panel)) for b in passes.baselines if b != name]
    # On the fast engine: (policy, column, what rows call the policy).
    more = [(policy, c, name) for c in passes.columns]
    more += [(acts, Column(), b) for b, acts in others if acts is not None]
    played = {} if passes.first is None else {first: passes.first}
    counter = PassCounter(watch, len(engines) - len(played) + (len(more) if fast in engines else 0))
    results: list[PanelResult] = list(played.values())
    for e in engines:
        todo = [(policy, Column(), name)] * (e not in played) + (more if e == fast else [])
        if not todo:
            continue
        only = boxes if e == BOX_WORLD else None
        evaluator = PanelEvaluator(task, panel, half, control_hz, engine=e, only=only)
        try:
            for acts, column, who in todo:
                counter.begin(f"{column.name if who == name else who} on {e}")
                results.append(evaluator.run(acts, column, name=who, counter=counter))
        finally:
            evaluator.close()
    return concatenate(results), results


def in_box_world(task: Task, panel: Panel, half: Half) -> list[int]:
    """Returns the scenarios of a half (numbers within it) that the box world has an exact form of; none where
    the ground is a plane, which needs no other."""
    if not task.on_heightfield(panel):
        return []
    forms = {s.terrain.cls: has_solids(s.terrain.cls) for s in panel.select(half)}
    return [i for i, s in enumerate(panel.select(half)) if forms[s.terrain.cls]]


def look_until_decided(
    task: Task,
    panel: Panel,
    control_hz: float,
    policy: Policy,
    engine: str,
    *,
    name: str = TRAINED,
    watch: Watch = unwatched,
) -> tuple[Panel, PanelResult]:
    """Plays the nominal column of the confirmation half on `engine` in looks, each at more of the same list,
    until the interval of success decides whether the policy is reliable. Returns the panel as long as it was
    then, and the column; rows say at which look each was played."""
    own = len(panel.select("confirmation"))
    counter, parts, played = PassCounter(watch, len(LOOKS)), [], 0
    for number, times in enumerate(LOOKS, 1):
        panel = panel.with_scenarios(own * times)
        counter.begin(f"look {number} on {engine}")
        only = range(played, own * times)
        evaluator = PanelEvaluator(task, panel, "confirmation", control_hz, engine=engine, only=only)
        try:
            part = evaluator.run(policy, name=name, counter=counter)
        finally:
            evaluator.close()
        part.rows["look"][:] = number
        parts.append(part)
        played = own * times
        if look_at(np.concatenate([p.rows["success"] for p in parts]), number).last:
            break
    return panel, concatenate(parts)


def _baseline(name: str, task: Task, control_hz: float, panel: Panel) -> Policy | None:
    """Makes a baseline; None where robot or task have no use for it: a trot needs legs that can step."""
    try:
        return baseline(name, task.contract, task.robot, control_hz, panel.seeds)
    except SurefootError:
        if name in BASELINES:
            return None
        raise


def concatenate(results: Sequence[PanelResult]) -> PanelResult:
    """Joins several passes into one table."""
    rows = {k: np.concatenate([r.rows[k] for r in results]) for k in results[0].rows}
    traces = {stem: t for r in results for stem, t in r.traces.items()}
    return PanelResult(rows, traces, sum(r.seconds for r in results), sum(r.steps for r in results))
