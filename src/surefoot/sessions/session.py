"""A run from its plan to its report: trained, confirmed on the held-out half, audited, written down.

`train`, `resume` and `train_planned` return what came of it as a `TrainedRun`; whoever wants to see more of
it than that passes a `SessionObserver`.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from surefoot.audits import audit_run, check_exemptions
from surefoot.compute import SINGLE, PeerLost, ProcessGroup, connect, local_device, prepare_torch, world_info
from surefoot.contract import SurefootError
from surefoot.fleet import FleetOptions, check_alone, check_resumed
from surefoot.reporting import write_report
from surefoot.runs import Closing, Look, RunFolder, note_look, record_outcome, resume_hint, scenarios_of
from surefoot.sessions.options import ResumeOptions, TrainedRun, TrainOptions
from surefoot.statistics import PanelSummary
from surefoot.trackers import FailSafeTracker, check_tracker
from surefoot.training import (
    UNOBSERVED,
    Clock,
    LibraryFailed,
    LibraryProcess,
    Limits,
    Manifest,
    PassOptions,
    Plan,
    SessionObserver,
    Stopped,
    Trainer,
    abort_signals,
    begin_tracker,
    check_resumable,
    check_sequential,
    evaluate_policy,
    load_policy,
    look,
    make_plan,
    new_run,
    restore_plan,
    standing,
    track_audit,
)

PAGE = "report.html"


def train(options: TrainOptions, observer: SessionObserver = UNOBSERVED, *, spent: float = 0.0) -> TrainedRun:
    """Plans a run, trains it and confirms it. `spent`: seconds that the program has taken before, its
    imports, which count as the run's start-up."""
    o, clock = options, Clock(spent)
    group, device = connect(), local_device(o.device)
    with ExitStack() as stack:
        with group.fail_together():
            limits = Limits(o.updates, o.minutes, o.until)
            if group.is_main:
                check_tracker(o.tracker)
            if o.fleet is not None:
                check_alone(o.fleet, o.learner, group.world, o.keep_block)
            plan = make_plan(
                o.task,
                overrides=o.overrides if o.fleet is None else o.fleet.overrides(o.overrides),
                seed=o.seed,
                engine=o.engine,
                device=device,
                processes=group.world,
                learner=o.learner,
                timeouts=o.timeouts,
                success_return=o.success_return,
                scenarios=o.scenarios,
                manifest=Manifest.load(o.manifest) if o.manifest is not None else None,
                collection="" if o.fleet is None else o.fleet.collection,
                by_actors=o.fleet is not None,
            )
            if o.fleet is not None:
                o.fleet.check(plan.recipe, plan.task.contract)
            if group.is_main:
                observer.planned(plan)
            plan.columns(o.perturb)  # what is not known is refused before an hour is spent
            check_exemptions(plan.task.contract)
            if o.sequential:
                check_sequential(plan)
            if o.keep_block and plan.learner != "ppo":
                raise SurefootError(f"{plan.learner} keeps its batch to itself: leave out --keep-block.")
            prepare_torch()
            judged = Closing(perturb=o.perturb, baselines=o.baselines, sequential=o.sequential)
            run = new_run(plan, o.out, group, judged)
            if group.is_main:
                stack.enter_context(run.hold())
        closing = _Closing(judged, o.tracker, o.strict, o.keep_block, o.fleet)
        return _Session(plan, run, closing, observer, clock, group).train(limits)


def resume(
    folder: str | Path,
    observer: SessionObserver = UNOBSERVED,
    *,
    spent: float = 0.0,
    **asked: Unpack[ResumeOptions],
) -> TrainedRun:
    """Continues a run from its latest checkpoint, exactly, and confirms it; one that lacks nothing but its
    confirmation is only confirmed, and one that lacks nothing is refused. `spent` as in `train`; a fleet goes
    on with any number of actors, and with new episodes where the state of environments cannot be saved."""
    group, clock = connect(), Clock(spent)
    tracker = asked.get("tracker", "none")
    with ExitStack() as stack:
        with group.fail_together():
            limits = Limits(asked.get("updates"), asked.get("minutes"), asked.get("until"))
            if group.is_main:
                check_tracker(tracker)
                stack.enter_context(RunFolder.open(folder).hold())
            run = RunFolder.open(folder)
            left = _something_left(run, limits)
            fleet = asked.get("fleet")
            if left:
                check_resumable(run, anew=fleet is not None)
            plan = restore_plan(run, group)
            check_resumed(run.record.collection, fleet)
            if fleet is not None:
                check_alone(fleet, plan.learner, group.world, bool(asked.get("keep_block")))
                fleet.check(plan.recipe, plan.task.contract)
            judged = _judged(run, asked)
            plan.columns(judged.perturb)
            if judged.sequential:
                check_sequential(plan)
            _check_unreached(run, limits if limits != Limits() else _limits_of(plan), limits)
            prepare_torch()
        strict, keep_block = asked.get("strict", False), asked.get("keep_block", False)
        closing = _Closing(judged, tracker, strict, keep_block, fleet)
        session = _Session(plan, run, closing, observer, clock, group)
        return session.train(limits, resume=True) if left else session.confirm_alone()


def _judged(run: RunFolder, asked: ResumeOptions) -> Closing:
    """Returns how a run that goes on is judged: as it was told before, but for what is asked now."""
    before = run.record.closing or Closing()
    own = {k: v for k, v in asked.items() if k in Closing.model_fields}
    return before.model_copy(update=own)


def _limits_of(plan: Plan) -> Limits:
    """Returns the task's own limits."""
    return Limits(None, plan.task.minutes, plan.task.until)


def _something_left(run: RunFolder, limits: Limits) -> bool:
    """Returns whether training is to go on: not where it had ended, its result lacks a confirmation, and no
    limit asks for more."""
    if run.record.status != "unconfirmed":
        return True
    at = standing(run)
    return bool(at.fault) or (limits != Limits() and not limits.reached(at.progress))


def _check_unreached(run: RunFolder, limits: Limits, asked: Limits) -> None:
    """Refuses limits that a run has passed already: nothing would be trained, and what is there would be
    confirmed again."""
    at, r = standing(run).progress, run.record
    why = limits.reason(at)
    below = limits.updates is not None and limits.updates < at.update
    if not why or not (below or (r.status == "finished" and r.confirmation is not None)):
        return
    own = "" if asked != Limits() else " (the task's own limit, as none was given)"
    raise SurefootError(
        f"{run.path} {why}{own}: nothing is left to train. Ask for more, or judge what it has learned in "
        "other ways with `surefoot evaluate`."
    )


def train_planned(
    plan: Plan,
    folder: Path,
    updates: int,
    perturb: tuple[str, ...],
    observer: SessionObserver = UNOBSERVED,
) -> TrainedRun:
    """Trains and confirms `plan` in `folder`, for one of many runs of a comparison: no tracker, no baselines.
    A run that has ended there is left as it is (a library's that failed too, which is reported as failed);
    one of Surefoot's own that was interrupted or failed goes on where it was, one that lacks nothing but its
    confirmation is confirmed, and one that cannot go on is set aside and begun anew."""
    if world_info().world > 1:
        raise SurefootError("Several learners are trained one after the other; start this without torchrun.")
    clock, limits = Clock(), Limits(updates)
    closing = _Closing(Closing(perturb=perturb, baselines=False))
    if not folder.exists():
        prepare_torch()
        run = new_run(plan, str(folder), closing=closing.judged)
        with run.hold():
            return _Session(plan, run, closing, observer, clock).train(limits)
    with RunFolder.open(folder).hold():
        run = RunFolder.open(folder)
        r = run.record
        _check_same(run, plan, updates)
        broke = plan.learner != "ppo" and r.status == "failed"
        if broke or (r.status == "finished" and r.confirmation is not None):
            observer.note(f"{folder} is there already.")
            return TrainedRun(plan, run, r.confirmation, already_there=True)
        prepare_torch()
        if r.status == "unconfirmed" and not _something_left(run, limits):
            return _Session(plan, run, closing, observer, clock).confirm_alone()
        if plan.learner == "ppo" and run.checkpoint_path("latest").is_file():
            return _Session(plan, run, closing, observer, clock).train(limits, resume=True)
    aside = _free(folder)
    folder.rename(aside)
    observer.note(f"{folder} was not finished and cannot go on; it is now {aside}.")
    return train_planned(plan, folder, updates, perturb, observer)


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


@dataclass(frozen=True)
class _Closing:
    """Says how a run is judged at its end, followed by a tracker, held to live checks, and who collects."""

    judged: Closing
    tracker: str = "none"
    strict: bool = False
    keep_block: bool = False
    fleet: FleetOptions | None = None


@dataclass(frozen=True)
class _Session:
    """One process' work on a run that it holds: trains it, then confirms what it chose."""

    plan: Plan
    run: RunFolder
    closing: _Closing
    observer: SessionObserver
    clock: Clock
    group: ProcessGroup = SINGLE

    def train(self, limits: Limits, *, resume: bool = False) -> TrainedRun:
        """Trains to the limits, or to the task's own where there are none, and confirms what was chosen."""
        with _whole():
            with ExitStack() as followed:
                limits = limits if limits != Limits() else _limits_of(self.plan)
                trained, chosen, tracker = self._train(limits, resume, followed)
                outcome = trained or self._confirm(chosen)
                if outcome.summary is not None:
                    track_audit(self.run, tracker)
            if tracker.error is not None and self.group.is_main:
                self.run.write_record(tracker_error=tracker.error)
                self.run.seal("tracker failed", [self.run.path / "run.json"])
            return outcome

    def confirm_alone(self) -> TrainedRun:
        """Confirms what training had chosen when it ended."""
        f = self.run.record.figures
        self.clock.resume(f)
        self.group.shutdown()
        if not self.group.is_main:
            return TrainedRun(self.plan, self.run, is_main=False)
        self.observer.note(f"Nothing is left to train: {self.run.path} is confirmed now.")
        self._note_closing()
        with _whole():
            return self._confirm("latest" if f.get("chosen_update") == f.get("updates") else "best")

    def _train(
        self, limits: Limits, resume: bool, followed: ExitStack
    ) -> tuple[TrainedRun | None, str, FailSafeTracker]:
        """Returns what came of a run that did not get to its limits, or the checkpoint that was chosen; and
        the tracker, which `followed` closes."""
        plan, run, group, observer = self.plan, self.run, self.group, self.observer
        tracker_name = self.closing.tracker
        if not group.is_main:
            observer, tracker_name = UNOBSERVED, "none"
        new = "; a robot and plant new to this machine are compiled first" if plan.compiles else ""
        trainer: Trainer | LibraryProcess
        with ExitStack() as stack:
            with observer.busy(f"Preparing {plan.recipe.envs} environments on {plan.engine}{new}"):
                group.bind_device(plan.device)
                # before the tracker: what is refused leaves no trace there
                fleet, strict = self.closing.fleet, self.closing.strict
                if fleet is not None:
                    from surefoot.fleet.on_ray import FleetTrainer

                    trainer = FleetTrainer(plan, run, fleet, resume, clock=self.clock, strict=strict)
                elif plan.learner == "ppo":
                    trainer = Trainer(plan, run, resume, group=group, clock=self.clock, strict=strict)
                else:
                    trainer = LibraryProcess(plan, run, self.clock, self.closing.strict)
            stack.callback(trainer.close)
            with group.fail_together():
                tracker = begin_tracker(run, tracker_name, resume, observer.note)
            followed.callback(tracker.close)
            observer.note(f"Run folder: {run.path}")
            if resume and group.is_main:
                self._note_closing()
            if resume and group.is_main and run.record.confirmation and (run.path / PAGE).is_file():
                _report(run, observer)  # the page there speaks of training that had ended
            if isinstance(trainer, Trainer) and trainer.resumed and trainer.resumed.fault:
                at = trainer.progress.update
                observer.note(f"{trainer.resumed.fault} The run goes on from its checkpoint of update {at}.")
            try:
                with observer.training(limits) as updates:
                    trainer.train(limits, updates, tracker)
            except PeerLost as loss:
                raise PeerLost(f"{loss} The run stands at its last checkpoint. {resume_hint(run)}") from loss
            except LibraryFailed as failure:
                return TrainedRun(plan, run, failure=str(failure), is_main=group.is_main), "", tracker
            except KeyboardInterrupt:
                aborted = TrainedRun(plan, run, stopped=signal.SIGINT, aborted=True, is_main=group.is_main)
                return aborted, "", tracker
            if self.closing.keep_block and isinstance(trainer, Trainer):
                trainer.keep_block()
        group.shutdown()
        if trainer.stopped is not None or trainer.found or not group.is_main:
            ended = TrainedRun(plan, run, stopped=trainer.stopped, found=trainer.found, is_main=group.is_main)
            return ended, "", tracker
        return None, trainer.chosen, tracker

    def _confirm(self, chosen: str) -> TrainedRun:
        """Evaluates the chosen checkpoint on the confirmation half, with its columns and baselines, and
        exports it as the run's policy. What was confirmed before stays until all of that is there."""
        plan, run, begun = self.plan, self.run, time.perf_counter()
        self.clock.ready()
        try:
            with record_outcome(run, figures=lambda: self._figures(begun), confirming=True):
                try:
                    summary = self._evaluate(chosen, begun)
                finally:
                    run.unstage()
        except KeyboardInterrupt as stop:
            received = stop.received if isinstance(stop, Stopped) else signal.SIGINT
            return TrainedRun(plan, run, stopped=received, unconfirmed=True)
        except SurefootError as error:
            raise SurefootError(f"{error} {resume_hint(run)}") from error
        except Exception as error:
            error.add_note(resume_hint(run))
            raise
        self._audit()
        return TrainedRun(plan, run, summary, _report(run, self.observer))

    def _audit(self) -> None:
        """Audits the run by the short form; one that is done is not failed for the want of an audit."""
        try:
            with self.observer.busy("Auditing"):
                audit_run(self.run, short=True, seed=self.plan.seeds.root)
        except SurefootError as error:
            self.observer.note(f"The run was not audited: {error}")

    def _evaluate(self, chosen: str, begun: float) -> PanelSummary:
        """Makes the new confirmation and puts it in the place of the old one."""
        plan, run = self.plan, self.run
        staged = run.stage(chosen)
        checkpoint, bundle = load_policy(run, str(staged / "checkpoints" / "confirmed.safetensors"))
        bundle.save(staged / "policy.safetensors")
        judged = self.closing.judged
        perturb = judged.perturb
        baselines = judged.baselines and perturb != ("none",)
        passes = PassOptions("confirmation", plan.columns(perturb), baselines=baselines)
        where = staged / "panels" / plan.panel.name / "confirmation"  # whatever its length turns out to be
        with self.observer.evaluating("confirming") as watch:
            if judged.sequential:
                plan, looked = look(plan, bundle, "confirmation", watch=watch)
                passes = replace(passes, first=looked)
            summary = evaluate_policy(
                plan, run, bundle, checkpoint.digest, where=where, options=passes, watch=watch
            )
        seen = Look(
            scenarios_of(summary.panel, plan.panel.seeds), summary.panel_digest, "train", (checkpoint.digest,)
        )
        self.observer.note(note_look([run.path.parent], seen).said)
        run.commit(
            status="finished",
            error=None,
            confirmation=summary,
            confirmed_update=int(checkpoint.meta["update"]),
            confirmed_after=int(run.record.figures.get("updates") or 0),
            figures=self._figures(begun),
        )
        return summary

    def _note_closing(self) -> None:
        """Keeps how the run is judged, for when it goes on again."""
        if self.run.record.closing != self.closing.judged:
            self.run.write_record(closing=self.closing.judged)

    def _figures(self, begun: float) -> dict[str, float | int | None]:
        """Returns the run's figures with what it has taken up to now, confirming since `begun`."""
        return {**self.run.record.figures, **self.clock.figures(time.perf_counter() - begun)}


@contextmanager
def _whole() -> Iterator[None]:
    """Ends in the exit status of its signal what is stopped outside of training and confirming."""
    with abort_signals():
        try:
            yield
        except Stopped as stop:
            if stop.received is signal.SIGINT:
                raise
            raise SystemExit(128 + stop.received) from stop


def _report(run: RunFolder, observer: SessionObserver) -> Path | None:
    """Writes the run's report; a run that is done is not failed for the want of one."""
    try:
        return write_report([run.path])
    except SurefootError as error:
        observer.note(f"No report was written: {error}")
        return None
