"""Training, resuming and evaluating are functions: they print nothing and return what came of it."""

from __future__ import annotations

import itertools
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from places import TESTS
from surefoot.contract import SurefootError
from surefoot.evaluation import EvaluationProgress, Watch
from surefoot.policy import PolicyBundle, read_policy
from surefoot.runs import RunFolder, read_ledger, time_parts
from surefoot.sessions import TrainOptions, resume, train, train_planned
from surefoot.training import EvaluateOptions, Limits, Observer, Plan, evaluate_run, make_plan, new_run
from surefoot.training.observers import Silent
from surefoot.training.restore import restore_plan


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
    assert seen.notes[0] == f"Run folder: {tmp_path / 'run'}"
    assert [n.split(" (")[0] for n in seen.notes[1:]] == ["Look 1 at the confirmation half of tiny-v1"]
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


# ---- what an observer is told of evaluations


def test_every_evaluation_is_followed_to_its_end(tmp_path: Path) -> None:
    seen = Listener()
    train(options(tmp_path / "run", updates=4, perturb=("push",)), seen)
    assert [what for what, _ in seen.evaluations] == [
        "scoring update 3",
        "scoring the last policy",
        "confirming",
    ]
    for _, told in seen.evaluations:
        done = [p.done for p in told]
        assert done == sorted(done)
        assert (told[-1].number, told[0].done) == (told[-1].columns, 0.0)
        assert done[-1] > 0.9 or told[-1].share < 1, "an episode may end before its time is up"
        assert told[-1].steps > 0
        assert told[-1].left_s is not None
    confirmed = seen.evaluations[-1][1]
    assert {p.column for p in confirmed} >= {"nominal on mujoco", "nominal on stride", "random on stride"}
    assert sorted({p.number for p in confirmed}) == list(range(1, confirmed[0].columns + 1))


def test_an_evaluation_alone_is_followed_too(tiny_run: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_run, tmp_path / "run")
    seen = Listener()
    evaluate_run(tmp_path / "run", NOTHING_MORE, seen)
    assert [what for what, _ in seen.evaluations] == ["evaluating"]
    assert seen.notes == []


# ---- policies from files


def test_a_runs_own_bundle_is_evaluated_as_its_checkpoint_is(tiny_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    moved = tmp_path / "elsewhere.safetensors"
    shutil.copy(run / "policy.safetensors", moved)
    of = {}
    for name in ("confirmed", str(run / "policy.safetensors"), str(moved)):
        changed = {"half": "selection", "perturb": ("none",), "baselines": False, "checkpoint": name}
        of[name] = evaluate_run(run, EvaluateOptions(**changed)).summary
    first, *others = of.values()
    for other in others:
        assert (other.success, other.figures, other.normaliser) == (
            first.success,
            first.figures,
            first.normaliser,
        )
    where = sorted(p.name for p in (run / "panels" / "tiny-v1").glob("selection-elsewhere-*"))
    assert len(where) == 1
    kept = run / "panels" / "tiny-v1" / where[0] / "policy.safetensors"
    assert kept.read_bytes() == moved.read_bytes(), "its episodes can be replayed"


def test_a_bundle_of_another_contract_is_refused_with_what_is_true(tiny_run: Path, tmp_path: Path) -> None:
    record = RunFolder.open(tiny_run).record
    other = make_plan("tiny:trot")
    card = other.policy_card()
    sizes = [sum(t.size for t in card.observation), *card.hidden, len(card.joints)]
    tensors = {"mean": torch.zeros(sizes[0]), "std": torch.ones(sizes[0])}
    for k, (wide, narrow) in enumerate(itertools.pairwise(sizes)):
        tensors |= {f"{k}.weight": torch.zeros(narrow, wide), f"{k}.bias": torch.zeros(narrow)}
    theirs, slower = tmp_path / "theirs.safetensors", tmp_path / "slower.safetensors"
    PolicyBundle(card, tensors).save(theirs)
    mine = read_policy(tiny_run / "policy.safetensors")
    PolicyBundle(mine.card.model_copy(update={"control_hz": 25.0}), mine.tensors).save(slower)
    with pytest.raises(SurefootError) as refused:
        evaluate_run(tiny_run, EvaluateOptions(checkpoint=str(theirs)))
    digests = (card.contract_digest[:12], record.contract_digest[:12])
    assert all(d in str(refused.value) for d in (*digests, "tiny-trot", "tiny-walk"))
    with pytest.raises(SurefootError, match=r"acts at 25 Hz and .* at 50 Hz"):
        evaluate_run(tiny_run, EvaluateOptions(checkpoint=str(slower)))


@pytest.mark.parametrize(("panel", "task"), [("walk-biped-flat-v1", "walk-biped-flat"), ("walk-flat-v1", "")])
def test_another_robots_panel_gets_a_note(panel: str, task: str, tiny_run: Path) -> None:
    notes = restore_plan(RunFolder.open(tiny_run)).judged_on(panel, "auto").panel_notes()
    assert len(notes) == bool(task)
    assert not task or f"{panel} is the panel of {task}, for robot " in notes[0]
    assert not task or "this run's robot is go1" in notes[0]


# ---- time


class Confirmed(Silent):
    """Notes when the result is there, and the audit begins."""

    def busy(self, text: str) -> AbstractContextManager[object]:
        if text == "Auditing":
            self.at = time.perf_counter()
        return super().busy(text)


def test_a_run_states_all_of_its_time(tmp_path: Path) -> None:
    begun = time.perf_counter()
    seen = Confirmed()
    trained = train(options(tmp_path / "run", updates=3), seen, spent=5.0)
    spent = seen.at - begun + 5.0
    t = time_parts(RunFolder.open(tmp_path / "run").record)
    parts = (t.startup, t.training, t.selection, t.confirmation, t.other)
    assert all(p is not None and p >= 0 for p in parts)
    assert t.measured
    assert t.total == pytest.approx(sum(p for p in parts if p is not None))
    assert t.startup is not None
    assert t.total is not None
    assert t.startup > 5.0
    assert spent - 3 < t.total <= spent, "but for the audit and the report, which follow the result"
    rows = read_ledger(trained.run.ledger.path)[0]
    assert 5.0 < rows[0]["elapsed_seconds"] < rows[1]["elapsed_seconds"] < t.total
    resumed = resume(tmp_path / "run", updates=4, perturb=("none",), spent=2.0)
    more = time_parts(resumed.run.record)
    assert more.total is not None
    assert more.startup is not None
    assert more.total > t.total + 2.0
    assert more.startup > t.startup + 2.0


def test_runs_of_older_versions_state_what_they_know() -> None:
    record = RunFolder.open(sorted((TESTS / "golden").glob("*/run.json"))[0].parent).record
    t = time_parts(record)
    assert (t.startup, t.measured) == (None, False)
    assert t.total == pytest.approx(
        sum(x for x in (t.training, t.selection, t.confirmation) if x is not None)
    )


def test_two_runs_that_begin_in_one_second_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("surefoot.training.trainer.run_name", lambda *_: "walk-now")
    plan = make_plan("tiny:walk")
    made = [new_run(plan, None) for _ in range(3)]
    assert [r.path.name for r in made] == ["walk-now", "walk-now-2", "walk-now-3"]
    assert [RunFolder.open(r.path).record.id for r in made] == ["walk-now", "walk-now-2", "walk-now-3"]
    with pytest.raises(SurefootError, match="already exists"):
        new_run(plan, "runs/walk-now")
