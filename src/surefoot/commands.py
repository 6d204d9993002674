"""What `surefoot train` and `surefoot evaluate` do, from plan to closing summary."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from surefoot.contract import Half, SurefootError, as_half, construct_id, load_panel
from surefoot.cores import prepare_torch
from surefoot.display import Display
from surefoot.engines import check_engine
from surefoot.evidence import PanelEvaluator, PanelSummary, RunFolder
from surefoot.learners import checkpoint
from surefoot.plan import Plan, check_disjoint, make_plan
from surefoot.policy import PolicyBundle, PolicyCard
from surefoot.report import write_report
from surefoot.tables import print_plan, print_summary
from surefoot.trackers import check_tracker, make_tracker
from surefoot.train import Limits, Trainer, new_run, panel_summary


def start_run(
    console: Console,
    task: str,
    overrides: dict[str, Any],
    seed: int,
    engine: str,
    device: str,
    updates: int | None,
    minutes: float | None,
    until: float | None,
    out: str | None,
    tracker: str,
    quiet: bool,
) -> int:
    """Plans, prints, trains, confirms."""
    limits = Limits(updates, minutes, until)
    check_tracker(tracker)
    plan = make_plan(task, overrides=overrides, seed=seed, engine=engine, device=device)
    if not quiet:
        print_plan(console, plan)
    if updates is None and minutes is None and until is None:
        limits = Limits(None, plan.task.minutes, plan.task.until)
    prepare_torch()
    run = new_run(plan, out)
    return _train(console, plan, run, limits, tracker, resume=False)


def resume_run(
    console: Console,
    folder: str,
    updates: int | None,
    minutes: float | None,
    until: float | None,
    tracker: str,
) -> int:
    limits = Limits(updates, minutes, until)
    check_tracker(tracker)
    run = RunFolder.open(folder)
    plan = plan_of(run)
    if updates is None and minutes is None and until is None:
        limits = Limits(None, plan.task.minutes, plan.task.until)
    prepare_torch()
    return _train(console, plan, run, limits, tracker, resume=True)


def plan_of(run: RunFolder) -> Plan:
    """The plan that a run folder was started with; refused when the task has changed since."""
    r = run.record
    plan = make_plan(
        r.task, overrides=r.recipe.model_dump(), seed=r.seeds.root, engine=r.engine, device=r.device
    )
    if plan.task.contract.digest != r.contract_digest:
        raise SurefootError(
            f"The contract of {r.task} has changed since {run.path} was trained "
            f"({r.contract_digest[:12]}, now "
            f"{plan.task.contract.digest[:12]}); use the Surefoot version in its run.json, or train anew."
        )
    return plan


def _train(
    console: Console, plan: Plan, run: RunFolder, limits: Limits, tracker_name: str, resume: bool
) -> int:
    trainer = Trainer(plan, run, resume)  # before the tracker: a checkpoint that is refused leaves no trace
    tracker = make_tracker(tracker_name, run.path, run.record.model_dump(mode="json"))
    console.print(f"Run folder: {run.path}", highlight=False, markup=False, soft_wrap=True)
    try:
        with Display(console, limits.updates, limits.minutes, limits.until) as display:
            trainer.train(limits, display, tracker)
    except KeyboardInterrupt:
        console.print(
            f"Aborted within an update. Continue from the last checkpoint: {_resume_hint(run)}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        return 130
    finally:
        tracker.close()
        trainer.close()
    if trainer.stopped is not None:
        console.print(
            f"Stopped by {trainer.stopped.name}; saved. Continue with: {_resume_hint(run)}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        return 128 + trainer.stopped  # as shells do: 130 for SIGINT, 143 for SIGTERM
    summary = _confirm(plan, run, trainer.chosen)
    run.write_record(confirmation=summary)
    print_summary(console, plan, run, summary, report=_report(console, run))
    return 0


def _report(console: Console, run: RunFolder) -> Path | None:
    """The run's report; a run that is done is not failed for the want of one."""
    try:
        return write_report([run.path])
    except SurefootError as error:
        console.print(f"No report was written: {error}", highlight=False, markup=False, soft_wrap=True)
        return None


def _resume_hint(run: RunFolder) -> str:
    return f"{surefoot_command()} train --resume {shlex.quote(str(run.path))}"


def surefoot_command() -> str:
    """How this program was called, so that printed commands can be typed as they are."""
    called = Path(sys.argv[0])
    if called.name == "surefoot" and called.parent.name == "bin":
        try:
            return str(called.absolute().relative_to(Path.cwd()))
        except ValueError:
            return "surefoot"
    return "surefoot"


def _confirm(plan: Plan, run: RunFolder, chosen: str) -> PanelSummary:
    """The chosen checkpoint on the confirmation half; exported as the run's policy."""
    run.confirm(chosen)
    found, bundle = load_policy(run, "confirmed")
    checkpoint.save(run.path / "policy.safetensors", bundle.tensors, {"policy": bundle.meta()})
    return _evaluate(plan, run, found, bundle, "confirmation", "mujoco", "confirmation")


def load_policy(run: RunFolder, name: str) -> tuple[checkpoint.Checkpoint, PolicyBundle]:
    found = run.load_checkpoint(name)
    tensors = {k.removeprefix("policy."): v for k, v in found.tensors.items() if k.startswith("policy.")}
    return found, PolicyBundle(PolicyCard.model_validate(found.meta["policy"]), tensors)


def _evaluate(
    plan: Plan,
    run: RunFolder,
    found: checkpoint.Checkpoint,
    bundle: PolicyBundle,
    half: Half,
    engine: str,
    where: str,
) -> PanelSummary:
    evaluator = PanelEvaluator(plan.task, plan.panel, half, plan.recipe.control_hz, engine=engine)
    try:
        result = evaluator.run(bundle)
    finally:
        evaluator.close()
    summary = panel_summary(plan, evaluator, result, found.digest, engine)
    run.save_panel(where, summary, result)
    return summary


def evaluate_run(
    console: Console,
    folder: str,
    panel: str | None,
    half: str,
    engine: str,
    checkpoint_name: str,
    quiet: bool,
) -> PanelSummary:
    """Evaluates a run's checkpoint and writes the result beside the run's other panels."""
    chosen_half = as_half(half)
    run = RunFolder.open(folder)
    plan = plan_of(run)
    check_engine(engine)
    if panel is not None:
        chosen = load_panel(panel)
        check_disjoint(plan.seeds, chosen)
        plan = dataclasses.replace(
            plan, panel=chosen, construct_id=construct_id(plan.task.contract, chosen, plan.evaluation)
        )
    prepare_torch()
    found, bundle = load_policy(run, checkpoint_name)
    where = f"{half}-{Path(checkpoint_name).stem}-{found.digest[:8]}"
    summary = _evaluate(plan, run, found, bundle, chosen_half, engine, where)
    if not quiet:
        print_summary(console, plan, run, summary, training=False)
    return summary
