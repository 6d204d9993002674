"""A fleet on one real Ray: the same run as one process, books that hold, and what becomes of faults."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from faulty import PoisonedTrainer, SluggishTrainer, UnfinishedTrainer

from surefoot.fleet import FleetOptions
from surefoot.fleet.books import read_diaries
from surefoot.fleet.fragment import Key
from surefoot.fleet.on_ray.cluster import Cluster
from surefoot.fleet.on_ray.trainer import FOLDER, USED, FleetTrainer
from surefoot.runs import RunFolder, read_ledger, without_timing
from surefoot.training import UNOBSERVED, Limits, begin_tracker, make_plan, new_run
from tiny import surefoot

NEW = ("train", "tiny:walk", "--quiet", "--tracker", "none", "--perturb", "none")
UPDATES = ("--updates", "4")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Cluster]:
    """One Ray for all of this file: runs join what is there already."""
    there = Cluster(None, 8, 256 << 20)
    yield there
    there.close()


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What one process does, by engine."""
    out = {}
    for engine in ("stride", "mujoco"):
        out[engine] = tmp_path_factory.mktemp("one") / engine
        assert surefoot(*NEW, *UPDATES, "--engine", engine, "--out", out[engine]) == 0
    return out


def tensors(run: Path) -> dict[str, torch.Tensor]:
    return dict(RunFolder.open(run).load_checkpoint("latest").tensors)


def rows(run: Path) -> list[dict[str, Any]]:
    return read_ledger(run / "ledger.jsonl")[0]


def check_books(run: Path) -> None:
    """Every row's books balance, and every fragment that was trained stands in its actor's own file, once."""
    for r in rows(run):
        ends = ("trained", "dropped", "lost", "open")
        assert r["fleet.issued"] == sum(r[f"fleet.{k}"] for k in ends)
    used = [json.loads(line) for line in (run / FOLDER / USED).read_text().splitlines()]
    keys = [Key(u["actor"], u["incarnation"], u["sequence"]) for u in used]
    assert len(set(keys)) == len(keys), "nothing is trained twice"
    said = read_diaries(run / FOLDER)
    assert {k: said[k] for k in keys} == {k: u["digest"] for k, u in zip(keys, used, strict=True)}
    assert len({u["digest"] for u in used}) == len(used)
    assert len(used) == rows(run)[-1]["fleet.trained"]


# ---- one process, to the bit


@pytest.mark.parametrize(("engine", "actors"), [("stride", 1), ("stride", 4), ("mujoco", 2)])
def test_actors_that_wait_are_one_process_to_the_bit(
    one: dict[str, Path], engine: str, actors: int, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert surefoot(*NEW, *UPDATES, "--engine", engine, "--actors", str(actors), "--sync", "--out", run) == 0
    expected, got = tensors(one[engine]), tensors(run)
    assert expected.keys() == got.keys()
    assert [k for k in expected if not torch.equal(expected[k], got[k])] == []
    assert RunFolder.open(run).record.training_id == RunFolder.open(one[engine]).record.training_id
    check_books(run)
    for ours, theirs in zip(rows(one[engine]), rows(run), strict=True):
        a, b = without_timing(ours), without_timing(theirs)
        own = {k for k in b if k.startswith("fleet.")}
        assert set(b) - own == set(a), "the same columns"
        sums = {k for k in a if k.startswith("reward.")}  # added up in another order
        assert {k: a[k] for k in a if k not in sums} == {k: b[k] for k in a if k not in sums}
        assert [b[k] for k in sums] == pytest.approx([a[k] for k in sums], rel=1e-5, abs=1e-9)


def test_a_run_goes_on_with_another_number_of_actors_to_the_bit(one: dict[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert surefoot(*NEW, "--updates", "2", "--actors", "2", "--sync", "--out", run) == 0
    more = ("--updates", "4", "--tracker", "none", "--perturb", "none", "--quiet")
    assert surefoot("train", "--resume", run, *more, "--actors", "4", "--sync") == 0
    expected, got = tensors(one["stride"]), tensors(run)
    assert [k for k in expected if not torch.equal(expected[k], got[k])] == []
    check_books(run)
    names = [p.name for p in (run / FOLDER).glob("actor-*.jsonl")]
    assert len(names) == 6, "no incarnation has the number of another"


def test_central_inference_differs_by_rounding(one: dict[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    fleet = ("--actors", "2", "--sync", "--inference", "central")
    assert surefoot(*NEW, "--updates", "3", *fleet, "--out", run) == 0
    three = tmp_path / "three"
    assert surefoot(*NEW, "--updates", "3", "--out", three) == 0
    expected, got = tensors(three), tensors(run)
    names = [k for k in expected if k.startswith("learner.networks.")]
    assert max(float((expected[k] - got[k]).abs().max()) for k in names) <= 1e-5
    last = rows(run)[-1]
    assert last["fleet.inference.batches"] > 0
    assert last["fleet.inference.trip_ms.p50"] <= last["fleet.inference.trip_ms.p99"]
    check_books(run)


# ---- updates that do not wait


def trained(
    folder: Path,
    options: FleetOptions,
    updates: int,
    kind: type[FleetTrainer] = FleetTrainer,
    meanwhile: Callable[[FleetTrainer], None] | None = None,
) -> tuple[Path, list[str]]:
    """Trains a tiny run in `folder`; returns it and what was said of its actors."""
    plan = make_plan("tiny:walk", engine="stride", collection=options.collection)
    run = new_run(plan, str(folder))
    trainer = kind(plan, run, options)
    try:
        if meanwhile is not None:
            threading.Thread(target=meanwhile, args=(trainer,), daemon=True).start()
        tracker = begin_tracker(run, "none", False, UNOBSERVED.note)
        trainer.train(Limits(updates), UNOBSERVED, tracker)
        assert trainer._crew is not None
        said = list(trainer._crew.refusals)
    finally:
        trainer.close()
    return folder, said


def test_updates_that_do_not_wait_are_corrected_once(tmp_path: Path) -> None:
    run, said = trained(tmp_path / "run", FleetOptions(actors=2, max_lag=3), 8)
    assert said == []
    check_books(run)
    there = rows(run)
    assert max(r["fleet.lag.max"] for r in there) >= 1, "something must have been stale"
    assert all(r["fleet.lag.max"] <= 3 for r in there)
    stale = [r for r in there if r["fleet.lag.min"] >= 1]
    assert all(r["fleet.corrected_share"] > 0.5 for r in stale)
    # PPO's ratio is against the policy at the start of the update, however old the experience
    assert all(r["first_ratio_error"] < 1e-4 for r in there)
    record = RunFolder.open(run).record
    assert record.collection == "asynchronous, at most 3 versions old"
    assert record.training_id != make_plan("tiny:walk", engine="stride").training_id


def test_without_lag_nothing_is_stale_and_nothing_corrected(tmp_path: Path) -> None:
    run, _ = trained(tmp_path / "run", FleetOptions(actors=2, max_lag=0), 3)
    for r in rows(run):
        assert r["fleet.lag.max"] == 0
        assert r["fleet.clipped_share"] == 0
    check_books(run)


# ---- faults


def pids(trainer: FleetTrainer, number: int) -> int:
    assert trainer._crew is not None
    described = trainer._crew._ask(trainer._crew.members[number], "describe")
    return int(described.pid)


def test_actors_that_are_killed_are_replaced_and_the_books_hold(tmp_path: Path) -> None:
    killed: list[int] = []

    def kill(trainer: FleetTrainer) -> None:
        while trainer.progress.update < 3:
            time.sleep(0.02)
        killed.append(pids(trainer, 1))
        os.kill(killed[0], signal.SIGKILL)

    def until_back(trainer: FleetTrainer) -> None:
        kill(trainer)
        while trainer._crew is not None and trainer._crew.members[1].samples in (0, before[0]):
            before[0] = trainer._crew.members[1].samples if trainer._crew.replaced == 0 else before[0]
            time.sleep(0.05)
        trainer.stopped = signal.SIGTERM  # as a signal would stop it

    before = [0]
    run, said = trained(tmp_path / "run", FleetOptions(actors=2, max_lag=2), 5000, meanwhile=until_back)
    assert any("Actor 1 was replaced" in s for s in said)
    assert not psutil.pid_exists(killed[0])
    check_books(run)
    last = rows(run)[-1]
    assert last["fleet.replaced"] == 1
    assert last["fleet.lost"] <= 1, "no more than was open"
    used = [json.loads(line) for line in (run / FOLDER / USED).read_text().splitlines()]
    assert any(u["actor"] == 1 and u["incarnation"] == 1 for u in used), "the new one is learned from"


def test_updates_that_wait_survive_a_kill_too(tmp_path: Path) -> None:
    def kill(trainer: FleetTrainer) -> None:
        while trainer.progress.update < 1:
            time.sleep(0.01)
        os.kill(pids(trainer, 0), signal.SIGKILL)

    run, said = trained(tmp_path / "run", FleetOptions(actors=2, sync=True), 40, meanwhile=kill)
    assert any("Actor 0 was replaced" in s for s in said)
    check_books(run)
    ended = [r["fleet.samples.by_actor"] for r in rows(run)]
    assert ended == [[128, 128]] * 40


def test_poisoned_fragments_are_refused_by_name_and_never_trained(tmp_path: Path) -> None:
    run, said = trained(tmp_path / "run", FleetOptions(actors=2, sync=True), 4, PoisonedTrainer)
    assert said == [
        "A fragment of actor 1 was refused: its digest is not that of its bytes.",
        "A fragment of actor 1 was refused: it has another schema.",
    ]
    check_books(run)
    assert rows(run)[-1]["fleet.dropped.poisoned"] == 2


def test_an_actor_that_sends_no_numbers_is_replaced(tmp_path: Path) -> None:
    run, said = trained(tmp_path / "run", FleetOptions(actors=2, sync=True), 2, UnfinishedTrainer)
    assert sum("actor 0 was refused" in s and "not finite" in s for s in said) == 3
    assert said[-1] == "Actor 0 was replaced: 3 fragments in a row were refused"
    check_books(run)
    assert np.isfinite([r["value_loss"] for r in rows(run)]).all()


def test_a_slow_actor_does_not_hold_up_the_others(tmp_path: Path) -> None:
    run, _ = trained(tmp_path / "run", FleetOptions(actors=2, max_lag=1), 12, SluggishTrainer)
    check_books(run)
    by_actor = np.sum([r["fleet.samples.by_actor"] for r in rows(run)], 0)
    assert by_actor[0] > 2 * by_actor[1]
    families = np.sum([r["family.samples"] for r in rows(run)], 0)
    assert families.sum() == by_actor.sum()
    assert families[:2].sum() == by_actor[0], "what a slow actor does to the strata is on the record"
    assert rows(run)[-1]["fleet.dropped.stale"] > 0
