"""A fleet on one real Ray: the same run as one process, books that hold, and what becomes of faults.

Nothing is scored meanwhile: what evaluates a fleet's policy is what evaluates any.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from faulty import PoisonedTrainer, SluggishTrainer

from surefoot.compute import ONE_CORE, prepare_torch
from surefoot.fleet import FleetOptions
from surefoot.fleet.books import FOLDER, USED, read_diaries
from surefoot.fleet.fragment import Key
from surefoot.fleet.on_ray.acting import TiledPolicy, make_policy, weights_of
from surefoot.fleet.on_ray.actor import order_of
from surefoot.fleet.on_ray.cluster import Cluster
from surefoot.fleet.on_ray.inference import InferenceService
from surefoot.fleet.on_ray.trainer import FleetTrainer
from surefoot.runs import RunFolder, read_ledger, without_timing
from surefoot.training import UNOBSERVED, Limits, Trainer, begin_tracker, make_plan, new_run

Meanwhile = Callable[[FleetTrainer], None]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Cluster]:
    """One Ray for all of this file: runs join what is there already."""
    before = torch.get_num_threads()
    there = Cluster(None, 8, 256 << 20)
    yield there
    there.close()
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _as_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """One core for the learner: sums of gradients are in the order of its shards."""
    prepare_torch()
    monkeypatch.setenv(ONE_CORE, "1")


def train(trainer: Trainer, updates: int) -> None:
    run = trainer.run
    try:
        trainer.train(Limits(updates), UNOBSERVED, begin_tracker(run, "none", False, UNOBSERVED.note))
    finally:
        trainer.close()


def alone(folder: Path, updates: int, engine: str = "stride") -> Path:
    """Trains in this process, without a fleet."""
    plan = make_plan("tiny:walk", engine=engine)
    train(Trainer(plan, new_run(plan, str(folder)), select=False), updates)
    return folder


def fleet(
    folder: Path,
    options: FleetOptions,
    updates: int,
    engine: str = "stride",
    kind: type[FleetTrainer] = FleetTrainer,
    meanwhile: Meanwhile | None = None,
) -> list[str]:
    """Trains with a fleet, in a folder that may be there already; returns what was said of its actors."""
    plan = make_plan("tiny:walk", engine=engine, collection=options.collection)
    there = folder.is_dir()
    run = RunFolder.open(folder) if there else new_run(plan, str(folder))
    trainer = kind(plan, run, options, resume=there, select=False)
    crew = trainer.crew
    if meanwhile is not None:
        threading.Thread(target=meanwhile, args=(trainer,), daemon=True).start()
    train(trainer, updates)
    return crew.refusals


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process does in four updates."""
    prepare_torch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ONE_CORE, "1")
        return alone(tmp_path_factory.mktemp("one") / "run", 4)


def tensors(run: Path) -> dict[str, torch.Tensor]:
    return dict(RunFolder.open(run).load_checkpoint("latest").tensors)


def differing(a: Path, b: Path) -> list[str]:
    """Names the tensors of two runs' last checkpoints that are not the same bits."""
    one, other = tensors(a), tensors(b)
    return [k for k in one.keys() | other.keys() if k not in one or not torch.equal(one[k], other[k])]


def rows(run: Path) -> list[dict[str, Any]]:
    return read_ledger(run / "ledger.jsonl")[0]


def trained(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / FOLDER / USED).read_text().splitlines()]


def check_books(run: Path) -> None:
    """Every row's books balance, and every fragment that was trained stands in its actor's own file, once."""
    for r in rows(run):
        ends = ("trained", "dropped", "lost", "open")
        assert r["fleet.issued"] == sum(r[f"fleet.{k}"] for k in ends)
    used = trained(run)
    keys = [Key(u["actor"], u["incarnation"], u["sequence"]) for u in used]
    assert len(set(keys)) == len(keys), "nothing is trained twice"
    said = read_diaries(run / FOLDER)
    assert {k: said[k] for k in keys} == {k: u["digest"] for k, u in zip(keys, used, strict=True)}
    assert len({u["digest"] for u in used}) == len(used)
    assert len(used) == rows(run)[-1]["fleet.trained"]


# ---- one process, to the bit


@pytest.mark.parametrize("count", [1, 2, 4])
def test_tiles_make_a_part_what_it_is_among_all(count: int) -> None:
    plan = make_plan("tiny:walk", overrides={"envs": 192, "families": 8})
    policy = make_policy(plan)
    dice = torch.Generator().manual_seed(1)
    contract = plan.task.contract
    obs = torch.randn(192, contract.observation_size, generator=dice)
    noise = torch.randn(192, contract.action.size, generator=dice)
    whole = TiledPolicy(policy, range(192), 192).act(obs, noise)
    share = 192 // count
    parts = [range(k * share, (k + 1) * share) for k in range(count)]
    acted = [TiledPolicy(policy, p, 192).act(obs[p.start : p.stop], noise[p.start : p.stop]) for p in parts]
    for expected, *got in zip(whole, *acted, strict=True):
        assert torch.equal(torch.cat(got), expected)


def test_four_actors_that_wait_are_one_process_to_the_bit(one: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert fleet(run, FleetOptions(actors=4, sync=True), 4) == []
    assert differing(one, run) == []
    assert RunFolder.open(run).record.training_id == RunFolder.open(one).record.training_id
    check_books(run)
    for ours, theirs in zip(rows(one), rows(run), strict=True):
        a, b = without_timing(ours), without_timing(theirs)
        own = {k for k in b if k.startswith("fleet.")}
        assert set(b) - own == set(a), "the same columns"
        sums = {k for k in a if k.startswith("reward.")}  # added up in another order
        assert {k: a[k] for k in a if k not in sums} == {k: b[k] for k in a if k not in sums}
        assert [b[k] for k in sums] == pytest.approx([a[k] for k in sums], rel=1e-5, abs=1e-8)


def test_a_run_goes_on_with_another_number_of_actors_to_the_bit(one: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    fleet(run, FleetOptions(actors=2, sync=True), 2)
    fleet(run, FleetOptions(actors=1, sync=True), 4)
    assert differing(one, run) == []
    check_books(run)
    names = [p.name for p in (run / FOLDER).glob("actor-*.jsonl")]
    assert len(names) == 3, "no incarnation has the number of another"


def test_on_native_mujoco_too(tmp_path: Path) -> None:
    alone(tmp_path / "one", 3, "mujoco")
    fleet(tmp_path / "run", FleetOptions(actors=2, sync=True), 3, "mujoco")
    assert differing(tmp_path / "one", tmp_path / "run") == []


def test_central_inference_differs_by_rounding(tmp_path: Path) -> None:
    run, expected = tmp_path / "run", tensors(alone(tmp_path / "one", 3))
    assert fleet(run, FleetOptions(actors=2, sync=True, inference="central"), 3) == []
    got = tensors(run)
    names = [k for k in expected if k.startswith("learner.networks.")]
    assert max(float((expected[k] - got[k]).abs().max()) for k in names) <= 1e-5
    last = rows(run)[-1]
    assert last["fleet.inference.batches"] > 0
    assert last["fleet.inference.rows.min"] <= last["fleet.inference.rows.max"] <= 16
    assert last["fleet.inference.deadline_misses"] <= last["fleet.inference.batches"]
    assert last["fleet.inference.busy_s"] > 0
    assert last["fleet.inference.trip_ms.p50"] <= last["fleet.inference.trip_ms.p99"]
    check_books(run)


def test_where_the_policy_acts_is_measured_once_and_rounded_observations_are_on_the_record(
    tmp_path: Path,
) -> None:
    run, options = tmp_path / "run", FleetOptions(actors=2, sync=True, inference="auto", codec="fp16+zlib")
    said = fleet(run, options, 1)
    record = RunFolder.open(run).record
    choice = record.fleet["choice"]
    assert said == [choice["why"]]
    assert choice["inference"] == record.fleet["inference"]
    assert all(choice[way]["steps_per_s"] > 0 for way in ("local", "central"))
    assert 0 < choice["central"]["trip_ms_p50"] <= choice["central"]["trip_ms_p99"]
    assert fleet(run, replace(options, actors=1), 2) == [], "it is not measured again"
    again = RunFolder.open(run).record.fleet
    assert (again["choice"], again["inference"]) == (choice, record.fleet["inference"])
    assert record.collection == "observations rounded to fp16"
    assert record.training_id != make_plan("tiny:walk", engine="stride").training_id
    last = rows(run)[-1]
    assert last["fleet.codec"] == record.fleet["codec"] == "fp16+zlib"
    assert last["fleet.bytes_per_transition"] < 350
    assert record.fleet["bytes_per_transition"] == rows(run)[0]["fleet.bytes_per_transition"]
    assert last["first_ratio_error"] < 1e-4, (
        "PPO's ratio is against what the policy does with what it is shown"
    )
    check_books(run)


def test_a_service_keeps_the_versions_that_somebody_may_still_be_at() -> None:
    plan = make_plan("tiny:walk", engine="stride")
    service = InferenceService(order_of(plan, bytes(16), Path()).plan, 1)
    weights = weights_of(make_policy(plan))
    obs = np.zeros((2, plan.task.contract.observation_size), np.float32)

    async def serve() -> None:
        for version in range(40):
            changed = {k: v + version if k == "actor.0.bias" else v for k, v in weights.items()}
            await service.publish(version, changed, {0, version})
        first, last = await service.mean(0, obs), await service.mean(39, obs)
        assert not np.array_equal(first, last)
        with pytest.raises(RuntimeError, match="no policy of version 7"):
            await service.mean(7, obs)
        figures = await service.take_figures()
        assert figures["fleet.inference.rows.max"] == 2

    asyncio.run(serve())


def test_environments_from_outside_too_and_they_begin_anew_when_a_run_goes_on(tmp_path: Path) -> None:
    recipe = {"envs": 4, "horizon": 16, "minibatches": 1, "hidden": (8,)}
    plan = make_plan("gym:InvertedPendulum-v5", overrides=recipe)
    train(Trainer(plan, new_run(plan, str(tmp_path / "one")), select=False), 2)
    run = new_run(plan, str(tmp_path / "run"))
    train(FleetTrainer(plan, run, FleetOptions(actors=2, sync=True), select=False), 2)
    assert differing(tmp_path / "one", tmp_path / "run") == []
    again = FleetTrainer(plan, run, FleetOptions(actors=1, sync=True), resume=True, select=False)
    crew = again.crew
    train(again, 4)
    assert crew.refusals == [
        f"The state of {plan.task.contract.name} cannot be saved: all environments begin new episodes."
    ]
    check_books(tmp_path / "run")
    assert [r["update"] for r in rows(tmp_path / "run")] == [1, 2, 3, 4]


# ---- updates that do not wait, and faults


def test_updates_go_on_when_an_actor_is_killed_and_stale_ones_are_corrected_once(tmp_path: Path) -> None:
    run, killed = tmp_path / "run", list[int]()

    def kill(trainer: FleetTrainer) -> None:
        """Kills actor 1 in the third update, and ends training when its successor has been learned from."""
        while trainer.progress.update < 3:
            time.sleep(0.02)
        killed.append(trainer.crew.ask(1, "describe").pid)
        os.kill(killed[0], signal.SIGKILL)
        ended = time.monotonic() + 240
        while not any(u["incarnation"] == 1 for u in trained(run)) and time.monotonic() < ended:
            time.sleep(0.1)
        trainer.stopped = signal.SIGTERM

    options = FleetOptions(actors=2, max_lag=2)
    said = fleet(run, options, 100_000, meanwhile=kill)
    assert [s.split(":")[0] for s in said] == ["Actor 1 was replaced"]
    assert not psutil.pid_exists(killed[0])
    check_books(run)
    there = rows(run)
    assert there[-1]["fleet.replaced"] == 1
    assert there[-1]["fleet.lost"] <= 1, "no more than was open"
    assert any(u["actor"] == 1 and u["incarnation"] == 1 for u in trained(run))
    # how old experience was, and that it was corrected for
    assert max(r["fleet.lag.max"] for r in there) >= 1, "something must have been stale"
    assert all(r["fleet.lag.max"] <= 2 for r in there)
    # a row is made while the learner learns: no more is open than can still be young enough
    assert max(r["fleet.open"] for r in there) <= 2 * 2
    assert all(r["fleet.corrected_share"] > 0.5 for r in there if r["fleet.lag.min"] >= 1)
    # PPO's ratio is against the policy at the start of the update, however old the experience
    assert all(r["first_ratio_error"] < 1e-4 for r in there)
    record = RunFolder.open(run).record
    assert record.collection == "asynchronous, at most 2 versions old"
    assert record.training_id != make_plan("tiny:walk", engine="stride").training_id


def test_poisoned_fragments_are_refused_by_name_and_never_trained(tmp_path: Path) -> None:
    run = tmp_path / "run"
    said = fleet(run, FleetOptions(actors=2, sync=True), 3, kind=PoisonedTrainer)
    of_one = [s for s in said if "actor 1" in s]
    assert of_one == [
        "A fragment of actor 1 was refused: its digest is not that of its bytes.",
        "A fragment of actor 1 was refused: it has another schema.",
    ]
    of_zero = [s for s in said if "ctor 0" in s]
    assert all("not finite" in s for s in of_zero[:3])
    assert of_zero[3:] == ["Actor 0 was replaced: 3 fragments in a row were refused"]
    check_books(run)
    assert rows(run)[-1]["fleet.dropped.poisoned"] == 5
    assert np.isfinite([r["value_loss"] for r in rows(run)]).all()
    assert [r["fleet.samples.by_actor"] for r in rows(run)] == [[128, 128]] * 3


def test_a_slow_actor_does_not_hold_up_the_others(tmp_path: Path) -> None:
    run = tmp_path / "run"
    fleet(run, FleetOptions(actors=2, max_lag=1), 12, kind=SluggishTrainer)
    check_books(run)
    assert max(r["fleet.open"] for r in rows(run)) <= 2 * 1
    by_actor = np.sum([r["fleet.samples.by_actor"] for r in rows(run)], 0)
    assert by_actor[0] > by_actor[1]
    families = np.sum([r["family.samples"] for r in rows(run)], 0)
    assert [families[:2].sum(), families[2:].sum()] == by_actor.tolist(), "a bias of strata is on the record"


# ---- what it leaves open


def test_ray_listens_on_this_machine_alone(cluster: Cluster) -> None:
    session = cluster.folder
    assert session is not None
    ours = [p for p in psutil.process_iter() if any(session in word for word in _words(p))]
    ours += [c for p in ours for c in p.children(recursive=True)]
    listening = {c.laddr for p in {*ours, psutil.Process()} for c in _sockets(p) if c.status == "LISTEN"}
    assert len(listening) >= 3, "Ray listens somewhere"
    assert {address.ip for address in listening} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _sockets(process: psutil.Process) -> list[Any]:
    try:
        named = "net_connections" if hasattr(process, "net_connections") else "connections"  # before psutil 6
        return list(getattr(process, named)("inet"))
    except psutil.Error:
        return []
