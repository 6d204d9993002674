"""Several learners on one task: every one trained with every seed, all judged alike, and written down."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from surefoot.artifacts import atomic_write, check_output, csv_text, read_json, write_json
from surefoot.contract import SurefootError, Timeouts, columns
from surefoot.evidence import LearnerComparison, compare_learners, rows_of
from surefoot.reporting import learner_chart, learner_page
from surefoot.runs import RunFolder
from surefoot.sessions import TrainedRun, train_planned
from surefoot.training import Manifest, SessionObserver, robot_plan


@dataclass(frozen=True)
class LearnersOptions:
    """Says who learns what, from how many samples, and where it is written."""

    task: str
    out: Path
    learners: tuple[str, ...]
    seeds: int
    """Training seeds of each learner, from `first_seed` on."""
    updates: int
    """Updates of each run; with the recipe's T x N the sample budget that all share."""
    perturb: tuple[str, ...]
    first_seed: int = 1
    overrides: dict[str, Any] = field(default_factory=dict)
    """Recipe fields that are not to be the task's own."""
    engine: str = "auto"
    device: str = "cpu"
    timeouts: Timeouts = "stock"
    manifest: str | None = None
    """File of the environment manifest that every run is held to."""


@dataclass(frozen=True)
class ComparedLearners:
    """Holds the comparison and the page that shows it; neither where training was stopped."""

    comparison: LearnerComparison | None = None
    page: Path | None = None
    exit_status: int = 0


class LearnersObserver(SessionObserver, Protocol):
    """Follows a comparison, run by run."""

    def run_begins(self, learner: str, seed: int, number: int, count: int) -> None:
        """Shows who is trained next: run `number` of `count`."""

    def run_ended(self, trained: TrainedRun) -> None:
        """Shows what came of it."""


def compare_all(options: LearnersOptions, observer: LearnersObserver) -> ComparedLearners:
    """Trains seed by seed, so that a comparison that is cut short has all learners with the seeds that it
    has. Runs that are already there, trained alike, are taken as they are."""
    o = options
    check_learners(o.learners, o.seeds)
    check_comparison(o.out)
    manifest = Manifest.load(o.manifest) if o.manifest is not None else None
    plans = {
        (learner, seed): robot_plan(
            o.task, overrides=o.overrides, seed=seed, engine=o.engine, device=o.device, learner=learner,
            timeouts=o.timeouts, manifest=manifest,
        )
        for seed in range(o.first_seed, o.first_seed + o.seeds)
        for learner in o.learners
    }  # fmt: skip
    columns(next(iter(plans.values())).panel, o.perturb)
    runs: list[RunFolder] = []
    for number, ((learner, seed), plan) in enumerate(plans.items(), 1):
        folder = o.out / f"{learner}-seed{seed}"
        observer.run_begins(learner, seed, number, len(plans))
        trained = train_planned(plan, folder, o.updates, o.perturb, observer)
        observer.run_ended(trained)
        if trained.stopped is not None:
            return ComparedLearners(exit_status=trained.exit_status)
        runs.append(RunFolder.open(folder))
    comparison = compare_learners(runs)
    return ComparedLearners(comparison, write_comparison(comparison, o.out))


def check_learners(learners: tuple[str, ...], seeds: int) -> None:
    if len(set(learners)) != len(learners) or len(learners) < 2:
        raise SurefootError(
            "A comparison needs two or more learners, each once, e.g. --learners ppo rsl_rl; "
            "`surefoot train TASK --learner L` trains one alone."
        )
    if seeds < 1:
        raise SurefootError(f"--seeds is {seeds}; use 1 or more.")


FILES = ("comparison.json", "comparison.csv", "comparison.svg", "comparison.html")


def check_comparison(out: Path) -> None:
    """Refuses, before anything is trained, a folder in which the comparison would replace files that are not
    an earlier comparison's."""

    def ours(_: Path) -> bool:
        there = out / FILES[0]
        return there.is_file() and bool(read_json(there, LearnerComparison))

    for name in FILES:
        check_output(out / name, ours)


def write_comparison(comparison: LearnerComparison, out: Path) -> Path:
    """Writes comparison.json, .csv, .svg and .html into `out`; returns the page."""
    check_comparison(out)
    write_json(out / "comparison.json", comparison)
    atomic_write(out / "comparison.csv", csv_text(rows_of(comparison)).encode())
    atomic_write(out / "comparison.svg", learner_chart(comparison).encode())
    page = out / "comparison.html"
    atomic_write(page, learner_page(comparison).encode())
    return page
