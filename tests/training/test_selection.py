"""When a run stops, which checkpoint it chooses, and what a signal does to it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from surefoot.compute import Writer
from surefoot.policy import PolicyBundle
from surefoot.runs import RunFolder
from surefoot.statistics import PanelSummary
from surefoot.training import Limits, Progress, new_run, robot_plan
from surefoot.training.restore import load_policy
from surefoot.training.selection import CheckpointSelection
from surefoot.training.signals import stop_signals


@pytest.mark.parametrize(
    ("limits", "progress", "reached"),
    [
        (Limits(updates=3), Progress(update=2), False),
        (Limits(updates=3), Progress(update=3), True),
        (Limits(minutes=1.0), Progress(train_seconds=59.0, evaluation_seconds=99.0), False),
        (Limits(minutes=1.0), Progress(train_seconds=60.0), True),
        (Limits(until=0.9), Progress(successes=[1.0]), False),
        (Limits(until=0.9), Progress(successes=[0.9, 0.8, 0.9]), False),
        (Limits(until=0.9), Progress(successes=[0.0, 0.9, 0.9]), True),
        (Limits(updates=9, until=0.9), Progress(update=9), True),
    ],
)
def test_a_run_stops_at_the_first_limit_that_it_reaches(
    limits: Limits, progress: Progress, reached: bool
) -> None:
    assert limits.reached(progress) is reached


@pytest.fixture
def selection(tiny_run: Path, tmp_path: Path) -> CheckpointSelection:
    """Selects for a new run, with the policy of one that was trained."""
    plan = robot_plan("tiny:walk")
    _, bundle = load_policy(RunFolder.open(tiny_run), "confirmed")
    return CheckpointSelection(plan, new_run(plan, str(tmp_path / "run")), Progress(), lambda: bundle)


def test_a_score_is_in_the_progress_the_row_and_the_run_folder(selection: CheckpointSelection) -> None:
    p, row = selection.progress, {"update": 3}
    p.update, p.train_seconds = 3, 5.0
    with Writer() as writer:
        assert selection.score(row, writer), "the first is the best so far"
    assert (p.best_update, p.successes) == (3, [p.best])
    assert row["evaluation.success"] == p.best
    assert row["wall_seconds"] == 5.0 + row["seconds.evaluation"] == p.wall_seconds
    folder = selection.run.path / "panels" / "tiny-v1" / "selection-update-000003"
    summary = PanelSummary.model_validate_json((folder / "summary.json").read_text())
    assert summary.success == p.best
    assert row["evaluation.success_low"] == summary.success_low
    p.update, p.best = 6, 2.0
    with Writer() as writer:
        assert not selection.score({}, writer), "not better than the best"
    assert p.best_update == 3
    selection.close()


def test_choosing_scores_a_last_policy_that_the_schedule_left_out(selection: CheckpointSelection) -> None:
    p, every = selection.progress, selection.plan.recipe.evaluate_every
    p.update, p.successes, p.best = every, [0.5], 0.5
    assert selection.choose() == "best", "the latest was scored when it was due"
    p.update, p.best = every + 1, 2.0
    assert selection.choose() == "best"
    p.best = -1.0
    assert selection.choose() == "latest"
    assert (p.successes, p.best) == ([0.5], -1.0), "the score stays out of the progress"
    selection.close()


def test_without_selection_the_latest_is_chosen_and_nothing_is_laid_out(tmp_path: Path) -> None:
    def unwanted() -> PolicyBundle:
        raise AssertionError("no policy is scored")

    plan = robot_plan("tiny:walk")
    run = new_run(plan, str(tmp_path / "run"))
    selection = CheckpointSelection(plan, run, Progress(), unwanted, enabled=False)
    assert selection.choose() == "latest"
    selection.close()
    assert "evaluator" not in vars(selection)


def test_the_first_signal_stops_and_the_second_aborts() -> None:
    kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(s) for s in kinds]
    received: list[signal.Signals] = []
    with stop_signals(received.append):
        os.kill(os.getpid(), signal.SIGTERM)
        assert received == [signal.SIGTERM]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert received == [signal.SIGTERM]
    assert [signal.getsignal(s) for s in kinds] == before


def test_under_torchrun_a_second_signal_changes_nothing() -> None:
    received: list[signal.Signals] = []
    with stop_signals(received.append, abort=False):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
    assert received == [signal.SIGINT]
