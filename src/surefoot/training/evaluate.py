"""Evaluation of a run's policy on a held-out panel, under the perturbations that were asked for."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from surefoot.compute import prepare_torch
from surefoot.contract import TRAINED, Column, Half, as_half
from surefoot.evaluation import Watch, unwatched
from surefoot.policy import Policy, PolicyBundle
from surefoot.runs import CHECKPOINTS, Look, RunFolder, note_look, scenarios_of
from surefoot.statistics import PanelResult, PanelSummary
from surefoot.training.looks import check_sequential, look
from surefoot.training.observers import UNOBSERVED, EvaluationObserver
from surefoot.training.plan import Plan
from surefoot.training.restore import resolve_policy, restore_plan
from surefoot.training.selection import panel_summary


@dataclass(frozen=True)
class EvaluateOptions:
    """Says how a run is to be evaluated."""

    panel: str | None = None
    """A panel's name or file; None: the task's."""
    half: str = "confirmation"
    engine: str = "auto"
    """auto: the nominal column on mujoco, the others on the fastest engine that can take the robot."""
    checkpoint: str = "confirmed"
    """confirmed, best, latest, a checkpoint or policy bundle (a file) under the same contract, or a
    baseline."""
    perturb: tuple[str, ...] = ("all",)
    sweep: bool = False
    """Whether every declared strength of the perturbations is a column."""
    baselines: bool = True
    """Whether baselines run on the same panel."""
    scenarios: int | None = None
    """Scenarios to confirm on, where the panel is drawn; None: as many as the plan has."""
    sequential: bool = False
    """Whether the confirmation half is looked at as it grows, until the verdict is decided."""


@dataclass(frozen=True)
class EvaluatedRun:
    """Holds the summary of an evaluation, and the run and plan that it is of."""

    plan: Plan
    run: RunFolder
    summary: PanelSummary
    folder: Path
    """Where its rows and traces are."""


@dataclass(frozen=True)
class PassOptions:
    """Says which passes over a panel a policy is judged by; the nominal one always is among them."""

    half: Half
    columns: tuple[Column, ...]
    engine: str = "auto"
    baselines: bool = True
    first: PanelResult | None = None
    """The nominal column, where it was played before: in looks."""
    keep_policy: bool = False
    """Whether the policy is kept beside the rows: one that is no checkpoint of the run."""


def evaluate_run(
    folder: str | Path, options: EvaluateOptions | None = None, observer: EvaluationObserver = UNOBSERVED
) -> EvaluatedRun:
    """Evaluates a run's checkpoint and writes the result beside the run's other panels."""
    o = options or EvaluateOptions()
    half, engine = as_half(o.half), o.engine
    run = RunFolder.open(folder)
    plan = restore_plan(run).judged_on(o.panel, engine, o.scenarios)
    for text in plan.panel_notes():
        observer.note(text)
    if o.sequential:
        check_sequential(plan, half)
    passes = PassOptions(half, plan.columns(o.perturb, o.sweep), engine, o.baselines)
    prepare_torch()
    policy, digest, name = resolve_policy(plan, run, o.checkpoint)
    stem = Path(o.checkpoint.replace(":", "-")).stem
    where = f"{half}-{stem}-{digest[:8]}" + ("" if engine == "auto" else f"-{engine}")
    where += "-sequential" * o.sequential
    keep = isinstance(policy, PolicyBundle) and o.checkpoint not in CHECKPOINTS
    passes = replace(passes, keep_policy=keep)
    with observer.evaluating("evaluating") as watch:
        if o.sequential:
            plan, looked = look(plan, policy, half, engine=engine, name=name, watch=watch)
            passes = replace(passes, first=looked)
        summary = evaluate_policy(
            plan, run, policy, digest, where=where, options=passes, name=name, watch=watch
        )
    if half != "selection":
        scenarios = scenarios_of(summary.panel, plan.panel.seeds)
        seen = Look(scenarios, summary.panel_digest, "evaluate", (digest,))
        observer.note(note_look([run.path.parent], seen).said)
    return EvaluatedRun(plan, run, summary, run.path / "panels" / summary.panel / where)


def evaluate_policy(
    plan: Plan,
    run: RunFolder,
    policy: Policy,
    digest: str,
    *,
    where: str | Path,
    options: PassOptions,
    name: str = TRAINED,
    watch: Watch = unwatched,
) -> PanelSummary:
    """Runs every pass that was asked for, and writes the table to `where`: a folder, or a name among the
    run's panels."""
    begun = time.perf_counter()
    o = options
    table, passes = plan.evaluate(
        policy,
        o.half,
        o.columns,
        engine=o.engine,
        baselines=o.baselines,
        name=name,
        watch=watch,
        first=o.first,
    )
    normaliser = getattr(policy, "normaliser_digest", "")
    summary = panel_summary(plan, o.half, table, passes[0], digest, normaliser, time.perf_counter() - begun)
    kept = policy if o.keep_policy and isinstance(policy, PolicyBundle) else None
    folder = run.save_panel(where, summary, table, kept)
    if isinstance(where, str):  # what is being confirmed is sealed when it is in its place
        run.seal("evaluated", [folder])
    return summary
