"""A study as it runs: every run trained to both budgets by the trainer itself, each of its two policies
scored on the panel, all of it resumable."""

from __future__ import annotations

import datetime
import gc
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from surefoot.artifacts import new_folder
from surefoot.audits import audit_run
from surefoot.compute import prepare_torch
from surefoot.contract import Column, SurefootError
from surefoot.evaluation import PanelEvaluator, concatenate
from surefoot.experiments.studies.design import BUDGETS, Budget, Design, panel_device
from surefoot.experiments.studies.figures import folder_name, passed, place
from surefoot.experiments.studies.page import write_page
from surefoot.experiments.studies.progress import RunsObserver, StudyObserver
from surefoot.experiments.studies.record import StudyRecord, open_study, with_results, write_csv, write_record
from surefoot.runs import Look, RunFolder, note_look, scenarios_of, timestamp, typed, versions
from surefoot.trackers import make_tracker
from surefoot.training import EVERY as HONESTY_EVERY
from surefoot.training import UNOBSERVED, Limits, Plan, Progress, Trainer, new_run, panel_summary


@dataclass(frozen=True)
class StudyResult:
    """Holds what a study found, and where; no page where it was stopped."""

    path: Path
    record: StudyRecord
    page: Path | None = None
    exit_status: int = 0
    """0; 130 or 143 where it was stopped."""


def start_study(design: Design, observer: StudyObserver, out: str | None = None) -> StudyResult:
    """Runs a study in a new folder."""
    plan = design.plan(design.values[0], design.seeds[0])
    now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    path = Path(out) if out else Path("runs") / f"study-{design.kind}-{plan.task.contract.name}-{now}"
    if path.exists():
        raise SurefootError(
            f"{path} already exists; choose another --out, or continue it with --resume {path}."
        )
    record = StudyRecord(
        id=path.name,
        created=timestamp(),
        status="running",
        design=design,
        scaled=tuple(design.scaled()),
        seconds=design.seconds,
        seconds_from="asked for" if design.seconds is not None else "not yet measured",
        construct_id=plan.construct_id,
        contract_digest=plan.task.contract.digest,
        panel=plan.panel.name,
        panel_digest=plan.panel.digest,
        versions=versions(),
    )
    observer.designed(record, plan)
    new_folder(path)
    write_record(path, record)
    return _run_all(path, record, observer)


def resume_study(folder: str | Path, kind: str, observer: StudyObserver) -> StudyResult:
    """Continues the study of `kind` in `folder`; runs that are done are kept as they are."""
    record = open_study(folder)
    design = record.design
    if design.kind != kind:
        raise SurefootError(f"{folder} is a study of {design.kind}; use `surefoot study {design.kind}`.")
    plan = design.plan(design.values[0], design.seeds[0])
    if (plan.construct_id, plan.task.contract.digest) != (record.construct_id, record.contract_digest):
        raise SurefootError(
            f"{design.task} has changed since {folder} was begun, so its runs could not be compared; "
            "use the Surefoot version in its study.json, or begin anew."
        )
    observer.designed(record, plan)
    return _run_all(Path(folder), record, observer)


def _run_all(path: Path, record: StudyRecord, observer: StudyObserver) -> StudyResult:
    design = record.design
    observer.note(f"Study folder: {path}")
    # Seeds outside, values inside: what is there after an interruption can be compared in pairs.
    runs = [(v, s) for s in design.seeds for v in design.values]
    todo = [(v, s) for v, s in runs if not _done(path, record, v, s)]
    if len(todo) < len(runs):
        observer.note(f"{len(runs) - len(todo)} of {len(runs)} runs are done already.")
    code = 0
    if todo:
        prepare_torch()
        try:
            record, code = _runs(path, record, todo, observer)
        except KeyboardInterrupt:
            code = 130
    if code:
        return StudyResult(path, record, exit_status=code)
    record = write_record(path, with_results(path, record).model_copy(update={"status": "finished"}))
    write_csv(path / "study.csv", record)
    plan = design.plan(design.values[0], design.seeds[0])
    page = write_page(path / "study.html", record, plan)
    # A recipe is chosen by it: a decision on the half, though its own error is that of training seeds.
    policies = tuple(f"{p.run} at update {p.updates}" for p in record.points)
    scenarios = scenarios_of(record.panel, plan.panel.seeds)
    observer.note(
        note_look([path.parent], Look(scenarios, record.panel_digest, "study", policies, "decision")).said
    )
    return StudyResult(path, record, page)


def _done(path: Path, record: StudyRecord, value: int, seed: int) -> bool:
    run = path / folder_name(record.design, value, seed)
    return all(passed(run, record.panel, b) for b in BUDGETS)


def _runs(
    path: Path, record: StudyRecord, todo: list[tuple[int, int]], observer: StudyObserver
) -> tuple[StudyRecord, int]:
    """Does all that is left to do; returns an exit code where a signal stopped it."""
    design = record.design
    first = design.plan(*todo[0])
    with observer.busy("Preparing: the first value is rehearsed, so that nobody's seconds hold compilation"):
        _rehearse(first)
        evaluator = PanelEvaluator(
            first.task,
            first.panel,
            "confirmation",
            first.recipe.control_hz,
            engine=design.scored_on,
            device=panel_device(design),
        )
    try:
        with observer.runs(design, todo) as progress:
            for k, (value, seed) in enumerate(todo):
                progress.begin(k)
                folder = path / folder_name(design, value, seed)
                plan = design.plan(value, seed)
                run = RunFolder.open(folder) if folder.exists() else new_run(plan, str(folder))
                with run.hold():
                    record, code = _run(path, record, value, seed, evaluator, progress)
                if code:
                    return record, code
                progress.end()
    finally:
        evaluator.close()
    return record, 0


def _rehearse(plan: Plan) -> None:
    """Trains a few updates in a folder that is thrown away: kernels are compiled and loaded, and batch
    honesty has had its first look, before seconds count."""
    with tempfile.TemporaryDirectory() as folder:
        run = new_run(plan, str(Path(folder) / "rehearsal"))
        trainer = Trainer(plan, run, select=False)
        try:
            trainer.train(Limits(updates=HONESTY_EVERY), UNOBSERVED, make_tracker("none", run.path, {}))
        finally:
            trainer.close()
    if trainer.stopped is not None:
        raise KeyboardInterrupt


def _run(
    path: Path,
    record: StudyRecord,
    value: int,
    seed: int,
    evaluator: PanelEvaluator,
    progress: RunsObserver,
) -> tuple[StudyRecord, int]:
    """Trains one run to the nearer budget, then to the other; its policy is scored at both."""
    design, plan = record.design, record.design.plan(value, seed)
    folder = path / folder_name(design, value, seed)
    run = RunFolder.open(folder)
    resume = run.checkpoint_path("latest").is_file()  # else it was killed before its first update
    if run.record.training_id != plan.training_id:
        raise SurefootError(f"{folder} was trained otherwise than its study says; begin the study anew.")
    trainer = Trainer(plan, run, resume, select=False)
    tracker = make_tracker("none", run.path, {})
    updates, p = design.setting(value).updates, trainer.progress
    try:
        while left := [b for b in BUDGETS if not passed(folder, record.panel, b)]:
            run.write_record(status="running", error=None)
            trainer.train(_limits(left, updates, record, plan), progress, tracker)
            if trainer.stopped is not None:
                return record, 128 + trainer.stopped
            if record.seconds is None:
                record = write_record(path, _with_seconds(record, plan, p.train_seconds))
            assert record.seconds is not None
            progress.time_budget(record.seconds)
            reached = [b for b in left if _reached(b, p, _limits(left, updates, record, plan))]
            success = _score(trainer, evaluator, design.columns, run, reached)
            samples = p.update * plan.accounting.samples_per_update
            for b in reached:
                progress.scored(b, p.update, samples, p.train_seconds, success)
        run.confirm("latest")
    finally:
        trainer.close()
    audit = audit_run(run, short=True, seed=seed)
    if audit.proof:
        progress.note(f"{folder} is Unproven: {audit.says} See `{typed('audit', folder)}`.")
    del trainer
    gc.collect()  # graphs and buffers of the last width, before the next one asks for memory
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return record, 0


def _limits(left: list[Budget], updates: int, record: StudyRecord, plan: Plan) -> Limits:
    """Returns the nearer of the budgets that are left."""
    seconds = record.seconds if record.seconds is not None else 60 * plan.task.minutes
    return Limits(
        updates=updates if "samples" in left else None,
        minutes=seconds / 60 if "seconds" in left else None,
    )


def _reached(budget: Budget, p: Progress, limits: Limits) -> bool:
    if budget == "samples":
        return limits.updates is not None and p.update >= limits.updates
    return limits.minutes is not None and p.train_seconds >= 60 * limits.minutes


def _with_seconds(record: StudyRecord, plan: Plan, spent: float) -> StudyRecord:
    """Sets the time budget where none was asked for: what the first run has just taken for the samples, or
    the task's own minutes where those are less."""
    most = 60 * plan.task.minutes
    says = (
        f"what {plan.recipe.envs:,} x {plan.recipe.horizon}, {plan.recipe.epochs} epochs, seed "
        f"{plan.seeds.root} took for the sample budget"
        if spent < most
        else "the task's own limit"
    )
    # Rounded down, to a number that survives being written and divided: the run that set it has reached it.
    seconds = max(math.floor(1000 * min(spent, most)) / 1000, 0.001)
    return record.model_copy(update={"seconds": seconds, "seconds_from": says})


def _score(
    trainer: Trainer,
    evaluator: PanelEvaluator,
    columns: tuple[Column, ...],
    run: RunFolder,
    budgets: list[Budget],
) -> float:
    """Runs one pass per column over the confirmation half, for the budgets that the policy stands for."""
    plan, policy = trainer.plan, trainer.policy()
    passes = [evaluator.run(policy, c, traces=False) for c in (Column(), *columns)]
    table = concatenate(passes)
    checkpoint = f"update-{trainer.progress.update}"
    summary = panel_summary(plan, evaluator.half, table, passes[0], checkpoint, policy.normaliser_digest)
    for b in budgets:
        run.save_panel(place(b), summary, table, policy)
    return summary.success
