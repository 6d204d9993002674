"""What `surefoot evaluate` does: a policy on the columns of a panel that were asked for."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console

from surefoot.compute import prepare_torch
from surefoot.contract import TRAINED, Column, Half, as_half
from surefoot.policy import Policy
from surefoot.runs import RunFolder
from surefoot.statistics import PanelSummary, summarise
from surefoot.training.plan import Plan
from surefoot.training.restore import resolve_policy, restore_plan


def columns_of(plan: Plan, perturb: tuple[str, ...], sweep: bool = False) -> tuple[Column, ...]:
    """The columns that were asked for."""
    return plan.columns(perturb, sweep)


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
    plan = restore_plan(run).judged_on(panel, engine)
    asked = plan.columns(perturb, sweep)
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
    table, passes = plan.evaluate(policy, half, columns, engine=engine, baselines=baselines, name=name)
    summary = summarise(
        table.rows,
        plan.task.contract,
        panel=plan.panel.name,
        panel_digest=plan.panel.digest,
        half=half,
        construct_id=plan.construct_id,
        training_id=plan.training_id,
        checkpoint=digest,
        engine=str(passes[0].rows["engine"][0]),
        seconds=passes[0].seconds,
        simulated_steps=passes[0].steps,
        normaliser=getattr(policy, "normaliser_digest", ""),
        total_seconds=time.perf_counter() - begun,
        total_steps=table.steps,
    )
    run.save_panel(where, summary, table)
    return summary
