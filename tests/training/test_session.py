"""Training, resuming and evaluating are functions: they print nothing and return what came of it."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from surefoot.contract import SurefootError
from surefoot.evaluation import EvaluationProgress, Watch
from surefoot.runs import RunFolder
from surefoot.training import (
    EvaluateOptions,
    Limits,
    Observer,
    Plan,
    TrainOptions,
    evaluate_run,
    resume,
    train,
    train_planned,
)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """Commands set the threads of their own process."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.set_flush_denormal(False)


class Listener:
    """Remembers all that it is shown, and asks a run to stop at update `stop_at`."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.plans: list[Plan] = []
        self.notes: list[str] = []
        self.work: list[str] = []
        self.limits: list[Limits] = []
        self.updates: list[int] = []
        self.evaluations: list[tuple[str, list[EvaluationProgress]]] = []
        self.stop_at = stop_at

    def planned(self, plan: Plan) -> None:
        self.plans.append(plan)

    def note(self, text: str) -> None:
        self.notes.append(text)

    @contextmanager
    def evaluating(self, what: str) -> Iterator[Watch]:
        self.evaluations.append((what, []))
        yield self.evaluations[-1][1].append

    def busy(self, text: str) -> AbstractContextManager[object]:
        self.work.append(text)
        return nullcontext()

    @contextmanager
    def training(self, limits: Limits) -> Iterator[Observer]:
        self.limits.append(limits)
        yield self

    def show(self, row: Mapping[str, Any], successes: Sequence[float]) -> None:
        self.updates.append(int(row["update"]))
        if row["update"] == self.stop_at:
            signal.raise_signal(signal.SIGTERM)


def options(folder: Path, **changes: Any) -> TrainOptions:
    return TrainOptions("tiny:walk", out=str(folder), **{"updates": 2, "perturb": ("none",)} | changes)


def test_a_run_is_returned_and_nothing_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    trained = train(options(tmp_path / "run"))
    assert capfd.readouterr() == ("", "")
    assert (trained.exit_status, trained.stopped, trained.failure) == (0, None, "")
    assert trained.run.path == tmp_path / "run"
    assert trained.report == tmp_path / "run" / "report.html"
    assert trained.report.is_file()
    assert trained.plan.task_name == "tiny:walk"
    assert trained.summary is not None
    assert trained.summary == RunFolder.open(tmp_path / "run").record.confirmation


def test_an_observer_is_shown_plan_limits_and_every_update(tmp_path: Path) -> None:
    seen = Listener()
    trained = train(options(tmp_path / "run", updates=3), seen)
    assert seen.plans == [trained.plan]
    assert seen.limits == [Limits(3)]
    assert seen.updates == [1, 2, 3]
    assert seen.notes == [f"Run folder: {tmp_path / 'run'}"]
    assert seen.work[0].startswith("Preparing 16 environments")


def test_a_stopped_run_says_so_and_goes_on(tmp_path: Path) -> None:
    trained = train(options(tmp_path / "run", updates=4), Listener(stop_at=2))
    assert (trained.stopped, trained.exit_status) == (signal.SIGTERM, 143)
    assert not trained.aborted
    assert trained.summary is None
    seen = Listener()
    resumed = resume(tmp_path / "run", seen, updates=4, perturb=("none",))
    assert seen.plans == [], "it was planned before"
    assert seen.updates[-1] == 4
    assert resumed.exit_status == 0
    assert resumed.summary is not None


def test_without_limits_the_tasks_own_apply(tmp_path: Path) -> None:
    seen = Listener(stop_at=1)
    trained = train(options(tmp_path / "run", updates=None), seen)
    task = trained.plan.task
    assert seen.limits == [Limits(None, task.minutes, task.until)]


def test_a_run_that_is_there_is_returned_as_it_is(tiny_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    record, seen = RunFolder.open(run).record, Listener()
    trained = train_planned(evaluate_run(run, NOTHING_MORE).plan, run, 6, ("none",), seen)
    assert trained.already_there
    assert trained.summary == record.confirmation
    assert seen.notes == [f"{run} is there already."]
    assert seen.updates == []
    with pytest.raises(SurefootError, match="is another run"):
        train_planned(trained.plan, run, 7, ("none",))


NOTHING_MORE = EvaluateOptions(half="selection", perturb=("none",), baselines=False)


def test_an_evaluation_is_returned_and_nothing_is_printed(
    tiny_run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    capfd.readouterr()
    evaluated = evaluate_run(run, NOTHING_MORE)
    assert capfd.readouterr() == ("", "")
    assert evaluated.summary.half == "selection"
    assert evaluated.run.path == run
    assert evaluated.summary.construct_id == evaluated.plan.construct_id
