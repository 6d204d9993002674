"""A run from its plan to its report: trained, confirmed on the held-out half, written down.

`train`, `resume` and `train_planned` return what came of it as a `TrainedRun`; whoever wants to see more of
it than that passes a `SessionObserver`.
"""

from __future__ import annotations

import signal
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surefoot.compute import SINGLE, PeerLost, ProcessGroup, connect, local_device, prepare_torch, world_info
from surefoot.contract import SurefootError, Timeouts
from surefoot.reporting import write_report
from surefoot.runs import RunFolder, resume_hint
from surefoot.statistics import PanelSummary
from surefoot.trackers import check_tracker
from surefoot.training.evaluate import PassOptions, evaluate_policy
from surefoot.training.library_process import LibraryFailed, LibraryProcess
from surefoot.training.observers import UNOBSERVED, SessionObserver
from surefoot.training.plan import Plan
from surefoot.training.plan_makers import make_plan
from surefoot.training.restore import check_resumable, load_policy, restore_plan
from surefoot.training.selection import Limits
from surefoot.training.tracking import begin_tracker
from surefoot.training.trainer import Trainer, new_run


@dataclass(frozen=True)
class TrainOptions:
    """Says what to train and how to close; what is not given is the task's own."""

    task: str
    """A task's name, package.module:name, or an environment from outside such as gym:ID."""
    overrides: dict[str, Any] = field(default_factory=dict)
    """Recipe fields that are not to be the task's own."""
    seed: int = 1
    engine: str = "auto"
    device: str = "cpu"
    learner: str = "ppo"
    timeouts: Timeouts = "stock"
    success_return: float | None = None
    """The return that makes an episode from outside a success."""
    updates: int | None = None
    """Stop after this many; without any of these three limits the task's own apply."""
    minutes: float | None = None
    """Stop after this much training; evaluation does not count."""
    until: float | None = None
    """Stop when two consecutive evaluations on the selection half reach this success."""
    out: str | None = None
    """Run folder to create; None: a new one in runs/."""
    tracker: str = "none"
    perturb: tuple[str, ...] = ("all",)
    """Columns of the closing evaluation beside the nominal one."""
    baselines: bool = True
    """Whether baselines run on the same panel at the end; they do not where nothing is perturbed."""


@dataclass(frozen=True)
class TrainedRun:
    """Says what came of a run."""

    plan: Plan
    run: RunFolder
    summary: PanelSummary | None = None
    """How the chosen checkpoint did on the confirmation half; None where the run did not get there."""
    report: Path | None = None
    stopped: signal.Signals | None = None
    """The signal that ended training before its limits."""
    aborted: bool = False
    """Whether it was stopped within an update, so that only the last checkpoint stands."""
    failure: str = ""
    """Why a library broke off."""
    already_there: bool = False
    """Whether the run had ended before, and nothing was done."""
    is_main: bool = True
    """Whether this process is the one of its group that evaluates and writes; the others have no summary."""

    @property
    def exit_status(self) -> int:
        """Returns what a program should exit with, as shells do: 130 after SIGINT, 143 after SIGTERM."""
        if self.stopped is not None:
            return 128 + self.stopped
        return 1 if self.failure else 0


@dataclass(frozen=True)
class _Closing:
    """Says how a run is followed by a tracker and judged at its end."""

    tracker: str
    perturb: tuple[str, ...]
    baselines: bool = True


def train(options: TrainOptions, observer: SessionObserver = UNOBSERVED) -> TrainedRun:
    """Plans a run, trains it and confirms it."""
    o = options
    group, device = connect(), local_device(o.device)
    with group.fail_together():
        limits = Limits(o.updates, o.minutes, o.until)
        if group.is_main:
            check_tracker(o.tracker)
        plan = make_plan(
            o.task,
            overrides=o.overrides,
            seed=o.seed,
            engine=o.engine,
            device=device,
            processes=group.world,
            learner=o.learner,
            timeouts=o.timeouts,
            success_return=o.success_return,
        )
        if group.is_main:
            observer.planned(plan)
        plan.columns(o.perturb)  # what is not known is refused before an hour is spent
        prepare_torch()
        run = new_run(plan, o.out, group)
    closing = _Closing(o.tracker, o.perturb, o.baselines)
    return _train(plan, run, limits, closing, observer, group=group)


def resume(
    folder: str | Path,
    observer: SessionObserver = UNOBSERVED,
    *,
    updates: int | None = None,
    minutes: float | None = None,
    until: float | None = None,
    tracker: str = "none",
    perturb: tuple[str, ...] = ("all",),
) -> TrainedRun:
    """Continues a run from its latest checkpoint, exactly, and confirms it. Limits are as in `TrainOptions`,
    and count what was done before."""
    group = connect()
    with group.fail_together():
        limits = Limits(updates, minutes, until)
        if group.is_main:
            check_tracker(tracker)
        run = RunFolder.open(folder)
        check_resumable(run)
        plan = restore_plan(run, group)
        plan.columns(perturb)
        prepare_torch()
    return _train(plan, run, limits, _Closing(tracker, perturb), observer, resume=True, group=group)


def train_planned(
    plan: Plan,
    folder: Path,
    updates: int,
    perturb: tuple[str, ...],
    observer: SessionObserver = UNOBSERVED,
) -> TrainedRun:
    """Trains and confirms `plan` in `folder`, for one of many runs of a comparison: no tracker, no baselines.
    A run that has ended there is left as it is (a library's that failed too, which is reported as failed);
    one of Surefoot's own that was interrupted or failed goes on where it was, and one that cannot go on is
    set aside and begun anew."""
    if world_info().world > 1:
        raise SurefootError("Several learners are trained one after the other; start this without torchrun.")
    unfinished = False
    if folder.exists():
        run = RunFolder.open(folder)
        _check_same(run, plan, updates)
        broke = plan.learner != "ppo" and run.record.status == "failed"
        if broke or run.record.confirmation is not None:
            observer.note(f"{folder} is there already.")
            return TrainedRun(plan, run, run.record.confirmation, already_there=True)
        unfinished = plan.learner == "ppo" and run.checkpoint_path("latest").is_file()
        if not unfinished:
            aside = _free(folder)
            folder.rename(aside)
            observer.note(f"{folder} was not finished and cannot go on; it is now {aside}.")
    prepare_torch()
    run = RunFolder.open(folder) if unfinished else new_run(plan, str(folder))
    closing = _Closing("none", perturb, baselines=False)
    return _train(plan, run, Limits(updates), closing, observer, resume=unfinished)


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
    plan: Plan,
    run: RunFolder,
    limits: Limits,
    closing: _Closing,
    observer: SessionObserver,
    *,
    resume: bool = False,
    group: ProcessGroup = SINGLE,
) -> TrainedRun:
    """Trains `run` to its limits, or to the task's own where there are none, and confirms what it chose."""
    if limits == Limits():
        limits = Limits(None, plan.task.minutes, plan.task.until)
    tracker_name = closing.tracker
    if not group.is_main:
        observer, tracker_name = UNOBSERVED, "none"
    new = "; a robot and plant new to this machine are compiled first" if plan.compiles else ""
    with ExitStack() as stack:
        with observer.busy(f"Preparing {plan.recipe.envs} environments on {plan.engine}{new}"):
            group.bind_device(plan.device)
            # before the tracker: what is refused leaves no trace there
            own = plan.learner == "ppo"
            trainer = Trainer(plan, run, resume, group=group) if own else LibraryProcess(plan, run)
        stack.callback(trainer.close)
        with group.fail_together():
            tracker = begin_tracker(run, tracker_name, resume, observer.note)
        stack.callback(tracker.close)
        observer.note(f"Run folder: {run.path}")
        try:
            with observer.training(limits) as updates:
                trainer.train(limits, updates, tracker)
        except PeerLost as loss:
            raise PeerLost(f"{loss} The run stands at its last checkpoint. {resume_hint(run)}") from loss
        except LibraryFailed as failure:
            return TrainedRun(plan, run, failure=str(failure), is_main=group.is_main)
        except KeyboardInterrupt:
            return TrainedRun(plan, run, stopped=signal.SIGINT, aborted=True, is_main=group.is_main)
    group.shutdown()
    if tracker.error is not None:
        run.write_record(tracker_error=tracker.error)
    if trainer.stopped is not None or not group.is_main:
        return TrainedRun(plan, run, stopped=trainer.stopped, is_main=group.is_main)
    baselines = closing.baselines and closing.perturb != ("none",)
    summary = _confirm(plan, run, trainer.chosen, closing.perturb, baselines)
    run.write_record(confirmation=summary)
    return TrainedRun(plan, run, summary, _report(run, observer))


def _report(run: RunFolder, observer: SessionObserver) -> Path | None:
    """Writes the run's report; a run that is done is not failed for the want of one."""
    try:
        return write_report([run.path])
    except SurefootError as error:
        observer.note(f"No report was written: {error}")
        return None


def _confirm(
    plan: Plan, run: RunFolder, chosen: str, perturb: tuple[str, ...], baselines: bool
) -> PanelSummary:
    """Evaluates the chosen checkpoint on the confirmation half, with its columns and baselines, and exports
    it as the run's policy."""
    run.confirm(chosen)
    checkpoint, bundle = load_policy(run, "confirmed")
    bundle.save(run.path / "policy.safetensors")
    passes = PassOptions("confirmation", plan.columns(perturb), baselines=baselines)
    return evaluate_policy(plan, run, bundle, checkpoint.digest, where="confirmation", options=passes)
