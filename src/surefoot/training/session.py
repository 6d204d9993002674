"""What `surefoot train` does, from plan to closing summary."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from surefoot.compute import SINGLE, PeerLost, ProcessGroup, connect, local_device, prepare_torch, world_info
from surefoot.contract import ExternalContract, SurefootError, Timeouts
from surefoot.reporting import write_report
from surefoot.runs import RunFolder, resume_hint
from surefoot.statistics import PanelSummary
from surefoot.trackers import check_tracker
from surefoot.training.evaluate import columns_of, evaluate_policy
from surefoot.training.library_process import LibraryFailed, LibraryProcess
from surefoot.training.plan import Plan, RobotPlan, make_plan
from surefoot.training.restore import load_policy, restore_plan
from surefoot.training.selection import Limits
from surefoot.training.tracking import begin_tracker
from surefoot.training.trainer import Trainer, new_run


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
    perturb: tuple[str, ...] = ("all",),
    as_json: bool = False,
    learner: str = "ppo",
    timeouts: Timeouts = "stock",
    baselines: bool = True,
    success_return: float | None = None,
) -> int:
    """Plans, prints, trains, confirms."""
    group, device = connect(), local_device(device)
    with group.fail_together():
        limits = Limits(updates, minutes, until)
        if group.is_main:
            check_tracker(tracker)
        plan = make_plan(
            task,
            overrides=overrides,
            seed=seed,
            engine=engine,
            device=device,
            processes=group.world,
            learner=learner,
            timeouts=timeouts,
            success_return=success_return,
        )
        if not quiet and group.is_main:
            from surefoot.cli import print_plan

            print_plan(console, plan)
        columns_of(plan, perturb)  # what is not known is refused before an hour is spent
        if updates is None and minutes is None and until is None:
            limits = Limits(None, plan.task.minutes, plan.task.until)
        prepare_torch()
        run = new_run(plan, out, group)
    return _train(
        console,
        plan,
        run,
        limits,
        tracker,
        perturb,
        resume=False,
        as_json=as_json,
        group=group,
        baselines=baselines,
    )


def resume_run(
    console: Console,
    folder: str,
    updates: int | None,
    minutes: float | None,
    until: float | None,
    tracker: str,
    perturb: tuple[str, ...] = ("all",),
    as_json: bool = False,
) -> int:
    group = connect()
    with group.fail_together():
        limits = Limits(updates, minutes, until)
        if group.is_main:
            check_tracker(tracker)
        run = RunFolder.open(folder)
        if run.record.learner != "ppo":
            raise SurefootError(
                f"{run.path} was trained by {run.record.learner}, whose runs cannot be continued exactly; "
                "train anew with another --out."
            )
        if isinstance(run.record.contract, ExternalContract):
            raise SurefootError(
                f"{run.path} was trained on {run.record.task}, whose simulator's state cannot be saved; it "
                "cannot be continued exactly, so train anew with another --out and larger limits."
            )
        plan = restore_plan(run, group)
        columns_of(plan, perturb)
        if updates is None and minutes is None and until is None:
            limits = Limits(None, plan.task.minutes, plan.task.until)
        prepare_torch()
    return _train(console, plan, run, limits, tracker, perturb, resume=True, as_json=as_json, group=group)


def train_planned(
    console: Console, plan: Plan, folder: Path, updates: int, perturb: tuple[str, ...], brief: bool = False
) -> int:
    """Trains and confirms `plan` in `folder`, for one of many runs of a comparison: no tracker, no baselines,
    and with `brief` no tables. A run that has ended there is left as it is (a library's that failed too,
    which is reported as failed); one of Surefoot's own that was interrupted or failed goes on where it was,
    and one that cannot go on is set aside and begun anew."""
    if world_info().world > 1:
        raise SurefootError("Several learners are trained one after the other; start this without torchrun.")
    limits, resume = Limits(updates), False
    if folder.exists():
        run = RunFolder.open(folder)
        _check_same(run, plan, updates)
        broke = plan.learner != "ppo" and run.record.status == "failed"
        if broke or run.record.confirmation is not None:
            console.print(f"{folder} is there already.", highlight=False, markup=False, soft_wrap=True)
            return 0
        resume = plan.learner == "ppo" and run.checkpoint_path("latest").is_file()
        if not resume:
            aside = _free(folder)
            folder.rename(aside)
            console.print(
                f"{folder} was not finished and cannot go on; it is now {aside}.",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
    prepare_torch()
    run = RunFolder.open(folder) if resume else new_run(plan, str(folder))
    return _train(
        console,
        plan,
        run,
        limits,
        "none",
        perturb,
        resume,
        as_json=False,
        group=SINGLE,
        baselines=False,
        brief=brief,
    )


def _check_same(run: RunFolder, plan: Plan, updates: int) -> None:
    r = run.record
    same = (r.training_id, r.seeds.root, r.construct_id) == (
        plan.training_id, plan.seeds.root, plan.construct_id,
    )  # fmt: skip
    if not same or (r.figures.get("updates") or 0) > updates or (
        r.confirmation is not None and r.figures.get("updates") != updates
    ):  # fmt: skip
        raise SurefootError(f"{run.path} is another run; remove it or choose another --out.")


def _free(folder: Path) -> Path:
    k = 1
    while (aside := folder.with_name(f"{folder.name}-unfinished{k}")).exists():
        k += 1
    return aside


def _train(
    console: Console,
    plan: Plan,
    run: RunFolder,
    limits: Limits,
    tracker_name: str,
    perturb: tuple[str, ...],
    resume: bool,
    as_json: bool,
    group: ProcessGroup,
    baselines: bool = True,
    brief: bool = False,
) -> int:
    from surefoot.cli import Display, print_summary

    if not group.is_main:
        console, tracker_name = Console(quiet=True), "none"
    compiles = plan.engine != "mujoco" and isinstance(plan, RobotPlan)
    new = "; a robot and plant new to this machine are compiled first" if compiles else ""
    with ExitStack() as closing:
        with console.status(f"Preparing {plan.recipe.envs} environments on {plan.engine}{new}"):
            group.bind_device(plan.device)
            # before the tracker: what is refused leaves no trace there
            own = plan.learner == "ppo"
            trainer = Trainer(plan, run, resume, group=group) if own else LibraryProcess(plan, run)
        closing.callback(trainer.close)
        with group.fail_together():
            tracker = begin_tracker(console, run, tracker_name, resume)
        closing.callback(tracker.close)
        console.print(f"Run folder: {run.path}", highlight=False, markup=False, soft_wrap=True)
        try:
            with Display(console, limits.updates, limits.minutes, limits.until) as display:
                trainer.train(limits, display, tracker)
        except PeerLost as loss:
            raise PeerLost(f"{loss} The run stands at its last checkpoint. {resume_hint(run)}") from loss
        except LibraryFailed as failure:
            console.print(str(failure), highlight=False, markup=False, soft_wrap=True)
            return 1
        except KeyboardInterrupt:
            console.print(
                f"Aborted within an update. {resume_hint(run)}",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
            return 130
    group.shutdown()
    if tracker.error is not None:
        run.write_record(tracker_error=tracker.error)
    if trainer.stopped is not None:
        console.print(
            f"Stopped by {trainer.stopped.name}; saved. {'' if brief else resume_hint(run)}".rstrip(),
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        return 128 + trainer.stopped  # as shells do: 130 for SIGINT, 143 for SIGTERM
    if not group.is_main:
        return 0
    summary = _confirm(plan, run, trainer.chosen, perturb, baselines and perturb != ("none",))
    run.write_record(confirmation=summary)
    report = _report(console, run)
    if as_json:
        print(json.dumps({"run_folder": str(run.path)} | summary.model_dump(mode="json"), indent=2))
    elif not brief:
        print_summary(console, plan, run, summary, report=report)
    return 0


def _report(console: Console, run: RunFolder) -> Path | None:
    """The run's report; a run that is done is not failed for the want of one."""
    try:
        return write_report([run.path])
    except SurefootError as error:
        console.print(f"No report was written: {error}", highlight=False, markup=False, soft_wrap=True)
        return None


def _confirm(
    plan: Plan, run: RunFolder, chosen: str, perturb: tuple[str, ...], baselines: bool
) -> PanelSummary:
    """The chosen checkpoint on the confirmation half, with its columns and baselines; exported as the run's
    policy."""
    run.confirm(chosen)
    found, bundle = load_policy(run, "confirmed")
    bundle.save(run.path / "policy.safetensors")
    return evaluate_policy(
        plan,
        run,
        bundle,
        found.digest,
        where="confirmation",
        half="confirmation",
        columns=columns_of(plan, perturb),
        baselines=baselines,
    )
