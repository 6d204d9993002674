"""A fleet on one real Ray: the same run as one process, books that hold, and what becomes of faults.

Nothing is scored meanwhile: what evaluates a fleet's policy is what evaluates any.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from faulty import PoisonedTrainer, SluggishTrainer
from fleets import check_books, fleet, listening, processes, rows, train, trained, wait, words

from places import SOURCE, TESTS
from surefoot.compute import ONE_CORE, prepare_torch
from surefoot.contract import SurefootError
from surefoot.fleet import FleetOptions
from surefoot.fleet.books import FOLDER
from surefoot.fleet.on_ray.acting import TiledPolicy, make_policy, weights_of
from surefoot.fleet.on_ray.actor import order_of
from surefoot.fleet.on_ray.cluster import Cluster
from surefoot.fleet.on_ray.inference import LATELY, InferenceService
from surefoot.fleet.on_ray.trainer import FleetTrainer
from surefoot.fleet.options import Correction
from surefoot.runs import RunFolder, resume_hint, without_timing
from surefoot.training import Trainer, make_plan, new_run
from tiny import surefoot

LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


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


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """What a command printed, in one line."""
    out = capsys.readouterr()
    return " ".join((out.out + out.err).split())


def alone(folder: Path, updates: int, engine: str = "stride") -> Path:
    """Trains in this process, without a fleet."""
    plan = make_plan("tiny:walk", engine=engine)
    train(Trainer(plan, new_run(plan, str(folder)), select=False), updates)
    return folder


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


def test_a_service_waits_for_no_more_than_lately_came_together() -> None:
    plan = make_plan("tiny:walk", engine="stride")
    service = InferenceService(order_of(plan, bytes(16), Path()).plan, 6)
    obs = np.zeros((1, plan.task.contract.observation_size), np.float32)

    async def misses(requests: int, batches: int) -> int:
        for _ in range(batches):
            await asyncio.gather(*(service.mean(0, obs) for _ in range(requests)))
        return int((await service.take_figures())["fleet.inference.deadline_misses"])

    async def serve() -> None:
        await service.publish(0, weights_of(make_policy(plan)), {0})
        assert await misses(2, 2 * LATELY) <= LATELY + 2, "two ask, and six are waited for at first"
        assert await misses(2, LATELY) == 1, "the batch that looks for others"
        assert await misses(6, 2 * LATELY) <= 2, "they have joined"

    asyncio.run(serve())


def test_environments_from_outside_too_and_they_begin_anew_when_a_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = {"envs": 4, "horizon": 16, "minibatches": 1, "hidden": (8,)}
    plan = make_plan("gym:InvertedPendulum-v5", overrides=recipe)
    train(Trainer(plan, new_run(plan, str(tmp_path / "one")), select=False), 2)
    run = new_run(plan, str(tmp_path / "run"))
    train(FleetTrainer(plan, run, FleetOptions(actors=2, sync=True), select=False), 2)
    assert differing(tmp_path / "one", tmp_path / "run") == []
    resumed = ("train", "--resume", run.path, "--updates", "4", "--tracker", "none")
    assert surefoot(*resumed) == 2, "not without a fleet"
    assert "go on with new episodes and a fleet (--actors M)" in said(capsys)
    assert resume_hint(run).startswith("Continue, with new episodes, with: surefoot train --resume")
    assert surefoot(*resumed, "--actors", "1", "--sync") == 0
    anew = f"The state of {plan.task.contract.name} cannot be saved: all environments begin new episodes."
    assert anew in said(capsys)
    assert [r["fleet.begun"] for r in rows(run.path)] == [4, 0, 4, 0]
    check_books(tmp_path / "run")
    assert [r["update"] for r in rows(tmp_path / "run")] == [1, 2, 3, 4]


# ---- updates that do not wait, and faults


def pid_of(trainer: FleetTrainer, actor: int) -> int:
    """The process of an actor; waits for another one where it was killed and the fleet has not noticed."""
    for _ in range(100):
        try:
            pid: int = trainer.crew.ask(actor, "describe").pid
            return pid
        except SurefootError:
            time.sleep(0.2)
    raise AssertionError(f"actor {actor} is not replaced")


def test_updates_go_on_while_actors_are_killed_and_stale_ones_are_corrected_once(tmp_path: Path) -> None:
    run, killed = tmp_path / "run", list[int]()

    def kill(trainer: FleetTrainer) -> None:
        """Kills an actor every other second, whether it has brought anything or not, and ends training when
        all their successors have been learned from."""
        wait(lambda: trainer.progress.update >= 3)
        for k in (1, 0, 1):
            killed.append(pid_of(trainer, k))
            os.kill(killed[-1], signal.SIGKILL)
            time.sleep(2.0)
        wait(lambda: {u["actor"]: u["incarnation"] for u in trained(run)} == {0: 2, 1: 3})

    options = FleetOptions(actors=2, max_lag=2)
    said = fleet(run, options, 100_000, meanwhile=kill)
    assert [s.split(":")[0] for s in said] == [f"Actor {k} was replaced" for k in (1, 0, 1)]
    assert not any(map(psutil.pid_exists, killed))
    check_books(run)
    there = rows(run)
    assert there[-1]["fleet.replaced"] == 3
    assert there[-1]["fleet.lost"] <= 3, "no more than was open"
    assert {u["actor"]: u["incarnation"] for u in trained(run)} == {0: 2, 1: 3}
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


def test_the_inference_service_is_begun_again_when_it_is_killed(tmp_path: Path) -> None:
    run, heard = tmp_path / "run", list[set[str]]()

    def kill(trainer: FleetTrainer) -> None:
        """Looks at who listens while all are at work, kills the service, and lets three updates be made."""
        wait(lambda: trainer.progress.update >= 2)
        (service,) = processes("InferenceService")
        heard.extend(listening(p) for p in (service, *processes("ActorProcess")))
        service.kill()
        at = trainer.progress.update
        wait(lambda: trainer.progress.update >= at + 3 and bool(trainer.crew.refusals))

    options = FleetOptions(actors=2, max_lag=1, inference="central")
    said = fleet(run, options, 100_000, meanwhile=kill)
    assert [s.split(":")[0] for s in said] == ["The inference service was begun again"]
    check_books(run)
    assert rows(run)[-1]["fleet.lost"] <= 2, "no more than was open"
    assert {u["incarnation"] for u in trained(run)} == {0, 1, 2}, "environments begin anew"
    assert len(heard) == 3
    assert all(heard), "actors listen"
    assert set.union(*heard) <= LOOPBACK


def test_a_learner_that_is_killed_goes_on_from_its_checkpoint_with_other_actors(
    cluster: Cluster, tmp_path: Path
) -> None:
    run, address = tmp_path / "run", cluster.ray.get_runtime_context().gcs_address
    called = ["train", "tiny:walk", "--engine", "stride", "--actors", "2", "--max-lag", "2", "--ray", address]
    called += ["--minutes", "60", "--tracker", "none", "--quiet", "--out", str(run)]
    path = os.pathsep.join(map(str, (SOURCE, TESTS)))
    # a Ray that is bound to 127.0.0.1 is found there
    environment = {**os.environ, "PYTHONPATH": path, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    with (tmp_path / "said").open("w") as out:
        learner = subprocess.Popen(
            [sys.executable, "-m", "surefoot", *called], env=environment, stdout=out, stderr=out
        )
    wait(lambda: learner.poll() is not None or ((run / "ledger.jsonl").exists() and len(rows(run)) >= 4))
    assert len(processes("ActorProcess")) == 2, (tmp_path / "said").read_text()
    learner.kill()
    learner.wait()
    assert wait(lambda: processes("ActorProcess") == []), "its actors end with it"
    saved = RunFolder.open(run).load_checkpoint("latest").meta["update"]
    at_checkpoint = rows(run)[saved - 1]
    fleet(run, FleetOptions(actors=4, max_lag=2), saved + 3)
    check_books(run)
    there = rows(run)
    assert [r["update"] for r in there] == list(range(1, saved + 4))
    lost = at_checkpoint["fleet.lost"] + at_checkpoint["fleet.open"]
    assert there[saved]["fleet.lost"] == lost, "what was open is lost, and nothing else"
    first = {u["incarnation"] for u in trained(run) if u["update"] <= saved}
    assert not first & {u["incarnation"] for u in trained(run) if u["update"] > saved}


def test_a_node_with_another_surefoot_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.__version__", "0.0.1")
    with pytest.raises(SurefootError, match=r"The learner runs Surefoot 0\.0\.1 and a node of its fleet"):
        fleet(tmp_path / "run", FleetOptions(actors=1, sync=True), 1)


def test_a_slow_actor_does_not_hold_up_the_others(tmp_path: Path) -> None:
    run = tmp_path / "run"
    fleet(run, FleetOptions(actors=2, max_lag=1), 12, kind=SluggishTrainer)
    check_books(run)
    assert max(r["fleet.open"] for r in rows(run)) <= 2 * 1
    by_actor = np.sum([r["fleet.samples.by_actor"] for r in rows(run)], 0)
    assert by_actor[0] > by_actor[1]
    families = np.sum([r["family.samples"] for r in rows(run)], 0)
    assert [families[:2].sum(), families[2:].sum()] == by_actor.tolist(), "a bias of strata is on the record"


# ---- lag that is imposed, for studies


def test_a_lag_that_is_imposed_is_on_record_and_repeats_to_the_bit(tmp_path: Path) -> None:
    options = FleetOptions(actors=1, imposed_lag=2)
    for name in ("one", "again"):
        assert fleet(tmp_path / name, options, 5) == []
        check_books(tmp_path / name)
    assert differing(tmp_path / "one", tmp_path / "again") == []
    there = rows(tmp_path / "one")
    assert [(r["fleet.lag.min"], r["fleet.lag.max"]) for r in there] == [
        (0, 0),
        (1, 1),
        (2, 2),
        (2, 2),
        (2, 2),
    ]
    assert [u["version"] for u in trained(tmp_path / "one")] == [0, 0, 0, 1, 2]
    assert all(r["fleet.corrected_share"] > 0.5 for r in there[1:]), "by more than rounding"
    record = RunFolder.open(tmp_path / "one").record
    assert record.collection == "by a policy that is kept back, at most 2 versions old"
    with pytest.raises(SurefootError, match="does not go on"):
        fleet(tmp_path / "one", options, 6)


@pytest.mark.parametrize(("how", "ratio"), [("none", False), ("ratio", True)])
def test_what_is_not_corrected_is_the_newest_policys_or_ppos_ratio_tells(
    how: Correction, ratio: bool, tmp_path: Path
) -> None:
    fleet(tmp_path / "run", FleetOptions(actors=1, imposed_lag=1, correction=how), 3)
    there = rows(tmp_path / "run")
    assert [r["first_ratio_error"] > 1e-3 for r in there] == [False, ratio, ratio]
    assert [r["fleet.corrected_share"] for r in there] == [0.0, 0.0, 0.0]


# ---- what it leaves open


def test_ray_listens_on_this_machine_alone(cluster: Cluster) -> None:
    session = cluster.folder
    assert session is not None
    ours = [p for p in psutil.process_iter() if any(session in word for word in words(p))]
    heard = [listening(p) for p in (*ours, psutil.Process())]
    assert sum(map(bool, heard)) >= 3, "Ray listens somewhere"
    assert set.union(*heard) <= LOOPBACK
