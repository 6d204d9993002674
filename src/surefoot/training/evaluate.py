"""What `surefoot evaluate` does: a policy on the columns of a panel that were asked for."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console

from surefoot.compute import prepare_torch
from surefoot.contract import NOMINAL, TRAINED, Column, Half, SurefootError, as_half, columns, load_panel
from surefoot.evaluation import BASELINES as EXTERNAL_BASELINES
from surefoot.evaluation import Passes, engines_for, evaluate_panel, evaluate_seeds
from surefoot.policy import BASELINES, Policy
from surefoot.runs import RunFolder
from surefoot.statistics import PanelSummary
from surefoot.training.plan import ExternalPlan, Plan, RobotPlan, on_panel
from surefoot.training.restore import resolve_policy, restore_plan
from surefoot.training.selection import panel_summary


def columns_of(plan: Plan, perturb: tuple[str, ...], sweep: bool = False) -> tuple[Column, ...]:
    """The columns that were asked for. Nothing outside can be perturbed: `all` is nothing there."""
    if isinstance(plan, RobotPlan):
        return columns(plan.panel, perturb, sweep)
    asked = [p for p in perturb if p not in ("all", "none", NOMINAL)]
    if asked or sweep:
        raise SurefootError(
            f"{plan.task_name} comes from outside and cannot be perturbed; leave out "
            f"{'--perturb ' + ' '.join(asked) if asked else '--sweep'}."
        )
    return ()


def evaluate_run(
    console: Console,
    folder: str,
    panel: str | None,
    half: str,
    engine: str,
    checkpoint_name: str,
    perturb: tuple[str, ...],
    sweep: bool,
    baselines: bool,
    quiet: bool,
) -> PanelSummary:
    """Evaluates a run's checkpoint and writes the result beside the run's other panels."""
    chosen_half = as_half(half)
    run = RunFolder.open(folder)
    plan = restore_plan(run)
    if isinstance(plan, ExternalPlan) and (panel is not None or engine not in ("auto", plan.engine)):
        raise SurefootError(
            f"{plan.task_name} comes from outside and has one panel of seeds and its own simulator; "
            "leave out --panel and --engine."
        )
    if panel is not None:
        assert isinstance(plan, RobotPlan)
        plan = on_panel(plan, load_panel(panel))
    asked = columns_of(plan, perturb, sweep)
    if isinstance(plan, RobotPlan):
        engines_for(engine, plan.task, plan.panel, plan.recipe.control_hz)
    prepare_torch()
    policy, digest, name = resolve_policy(plan, run, checkpoint_name)
    stem = Path(checkpoint_name.replace(":", "-")).stem
    where = f"{half}-{stem}-{digest[:8]}" + ("" if engine == "auto" else f"-{engine}")
    summary = evaluate_policy(
        plan,
        run,
        policy,
        digest,
        where=where,
        half=chosen_half,
        columns=asked,
        engine=engine,
        baselines=baselines,
        name=name,
    )
    if not quiet:
        from surefoot.cli import print_summary

        print_summary(console, plan, run, summary, training=False)
    return summary


def evaluate_policy(
    plan: Plan,
    run: RunFolder,
    policy: Policy,
    digest: str,
    *,
    where: str,
    half: Half,
    columns: tuple[Column, ...],
    engine: str = "auto",
    baselines: bool = True,
    name: str = TRAINED,
) -> PanelSummary:
    """Runs every pass that was asked for, and writes the table beside the run's other panels."""
    begun = time.perf_counter()
    if isinstance(plan, ExternalPlan):
        against = EXTERNAL_BASELINES if baselines else ()
        table, passes = evaluate_seeds(
            plan.task, plan.panel, half, policy, baselines=against, name=name, device=plan.device
        )
    else:
        assert isinstance(plan, RobotPlan)
        table, passes = evaluate_panel(
            plan.task,
            plan.panel,
            half,
            plan.recipe.control_hz,
            policy,
            Passes(engine, columns, BASELINES if baselines else ()),
            name=name,
        )
    summary = panel_summary(
        plan,
        half,
        table,
        passes[0],
        digest,
        getattr(policy, "normaliser_digest", ""),
        time.perf_counter() - begun,
    )
    run.save_panel(where, summary, table)
    return summary
