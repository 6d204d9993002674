"""K processes are one process with all of the environments: the same episodes, the same minibatches, the same
weights to float tolerance, one run folder."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from test_runs import rows_in, wait_for

from places import TESTS
from surefoot.artifacts import read_table
from surefoot.compute.devices import check_device
from surefoot.compute.distributed import SINGLE, ProcessGroup, TorchGroup, WorldInfo, local_device, world_info
from surefoot.contract import Recipe, SeedPlan, SurefootError
from surefoot.env import VecEnv, join_snapshots, part_of_snapshot
from surefoot.env.scenarios import TrainSampler
from surefoot.learners import Ppo
from surefoot.learners.update import PpoUpdate, room
from surefoot.rollout import RolloutBlock
from surefoot.runs import LOOKS, RunFolder, without_timing
from surefoot.terrain import Atlas
from surefoot.training.checks import check_share, device_bytes
from surefoot.training.plan_makers import make_plan
from surefoot.training.restore import restore_plan
from tiny import surefoot, walk

CPU = torch.device("cpu")
SHORT = ("--tracker", "none", "--perturb", "none")
NEW = ("train", "tiny:walk", "--quiet", *SHORT)


class Stub(ProcessGroup):
    """One of several processes, of which the others are not there."""

    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.world = rank, world


# ---- what belongs to whom


@pytest.mark.parametrize("world", [1, 2, 4])
def test_processes_own_whole_families_and_together_all(world: int) -> None:
    plan = make_plan("tiny:walk", processes=world)
    parts = [Stub(r, world).env_range(plan.recipe.envs) for r in range(world)]
    assert [e for p in parts for e in p] == list(range(plan.recipe.envs))
    families = [set(plan.seeds.family_of(np.array(p)).tolist()) for p in parts]
    assert sum(len(f) for f in families) == len(set().union(*families)) == plan.recipe.families


def test_a_part_of_the_environments_steps_as_it_does_among_all() -> None:
    task = walk()
    seeds = SeedPlan(root=3, split="train", families=4, envs=16)
    action = torch.rand(16, task.contract.action.size, generator=torch.Generator().manual_seed(1)) - 0.5

    def state_after_steps(part: range) -> dict[str, torch.Tensor]:
        sampler = TrainSampler(task.contract, task.robot, seeds, 50.0, None, CPU, part)
        env = VecEnv(task, sampler, task.plant, engine="mujoco")
        env.restore(env.snapshot() | {"task.age": env.snapshot()["task.age"] % 3 + 997})  # some end soon
        for _ in range(4):
            env.step(action[part.start : part.stop])
        assert int(env.episode.sum()) > 0, "resets must be among what is compared"
        snapshot = env.snapshot()
        env.close()
        return snapshot

    whole, *parts = (state_after_steps(p) for p in (range(16), range(8), range(8, 16)))
    joined = join_snapshots(parts)
    assert joined.keys() == whole.keys()
    assert [k for k in whole if not torch.equal(joined[k], whole[k])] == []
    again = [part_of_snapshot(whole, p) for p in (range(8), range(8, 16))]
    for k in whole:
        for cut, stepped in zip(again, parts, strict=True):
            assert k == "reset_counts" or torch.equal(cut[k], stepped[k])
        assert torch.equal(join_snapshots(again)[k], whole[k])


def test_a_part_draws_its_own_tiles_and_levels() -> None:
    plan = make_plan("walk-rough", overrides={"envs": 32, "families": 4})
    contract, atlas = plan.task.contract, Atlas.build(plan.task.tiles)

    def drawn(part: range) -> dict[str, torch.Tensor]:
        sampler = TrainSampler(contract, plan.task.robot, plan.seeds, 50.0, atlas, CPU, part)
        rows = torch.arange(len(part))
        scenarios = sampler.draw(rows, torch.full_like(rows, 2), (rows + part.start) % 5)
        return scenarios.script.tensors() | scenarios.start.tensors() | scenarios.parameters.tensors()

    whole, part = drawn(range(32)), drawn(range(8, 16))
    assert [k for k in whole if not torch.equal(whole[k][8:16], part[k])] == []


# ---- minibatches


def block_of(envs: int, horizon: int) -> RolloutBlock:
    c = walk().contract
    return RolloutBlock.empty(
        horizon, envs, c.observation_size, c.critic_size, c.action.size, len(c.rewards), CPU
    )


@pytest.mark.parametrize(("envs", "horizon", "minibatches", "world"), [(16, 16, 2, 2), (64, 6, 3, 4)])
def test_a_minibatch_is_the_same_whoever_has_its_samples(
    envs: int, horizon: int, minibatches: int, world: int
) -> None:
    task = walk()
    recipe = Recipe(envs=envs, families=4, horizon=horizon, minibatches=minibatches, epochs=2, hidden=(8,))
    seeds = SeedPlan(root=5, split="train", families=4, envs=envs)

    def update(group: ProcessGroup) -> PpoUpdate:
        ppo = Ppo(task.contract, recipe, None, seeds, CPU)
        ppo.state.clock[0] = 7
        block = block_of(envs // group.world, horizon)
        made = PpoUpdate(recipe, None, 5, ppo.state, block, shards=1, group=group)
        made._draw_keys()
        made._shards[0].draw()
        if group.world > 1:
            made._take_own()
        return made

    one = update(SINGLE)
    share = envs // world
    joined: list[list[int]] = [[] for _ in one.picks]
    for rank in range(world):
        own = update(Stub(rank, world))
        assert own._left_out == 0
        for minibatch, picks in zip(joined, own.picks.tolist(), strict=True):
            kept = [p for p in picks if p >= 0]
            assert picks[len(kept) :] == [-1] * (len(picks) - len(kept))
            for row, mirrored in ((p >> 1, p & 1) for p in kept):
                step, env = divmod(row, share)
                minibatch.append(2 * (step * envs + rank * share + env) + mirrored)
    assert [sorted(m) for m in joined] == [sorted(m) for m in one.picks.tolist()]


def test_there_is_room_for_a_random_share_and_little_more() -> None:
    assert room(3072, 12288, 1) == 3072
    assert room(4 * 24576, 4 * 98304, 4) < 1.04 * 24576, "what is too much is computed for nothing"
    assert room(8, 16, 2) == 8
    size, total, world = 49152, 196608, 2
    dice = np.random.default_rng(0)
    most = max(int(dice.hypergeometric(total // world, total - total // world, size)) for _ in range(2000))
    assert most < room(size, total, world)


def test_a_place_without_a_sample_adds_nothing() -> None:
    """The gradient of a minibatch with padding is that of its samples."""
    task = walk()
    recipe = Recipe(envs=8, families=4, horizon=8, minibatches=1, epochs=1, hidden=(8,), target_kl=None)
    seeds = SeedPlan(root=5, split="train", families=4, envs=8)
    dice = torch.Generator().manual_seed(2)

    def gradient(picks: list[int]) -> torch.Tensor:
        ppo = Ppo(task.contract, recipe, None, seeds, CPU)
        block = block_of(8, 8)
        dice.manual_seed(2)
        for name in ("obs", "critic", "action", "mean", "log_prob", "value", "returns", "advantage"):
            getattr(block, name).copy_(torch.randn(getattr(block, name).shape, generator=dice))
        update = PpoUpdate(recipe, None, 5, ppo.state, block, shards=1)
        update.begin()
        update.picks[0] = torch.tensor(picks + [-1] * (update.size - len(picks)))
        update.differentiate()
        return update._sums.clone()

    some = [2 * k for k in range(40)]
    scattered = [p for k in some for p in (k, -1)][: 2 * 24] + some[24:]
    a, b = gradient(some), gradient(scattered)
    assert float(a[8:].abs().max()) > 1e-3
    torch.testing.assert_close(a[:5], b[:5])
    torch.testing.assert_close(a[8:], b[8:], rtol=1e-5, atol=1e-7)


# ---- torchrun


def torchrun(*arguments: str | Path, processes: int = 2, log: Path | None = None) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={processes}", "-m", "surefoot", *map(str, arguments)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE if log is None else log.open("w"),
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )


def done(child: subprocess.Popen[str]) -> str:
    output, _ = child.communicate(timeout=180)
    assert child.returncode == 0, output
    return output


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three updates in one process."""
    folder = tmp_path_factory.mktemp("one") / "run"
    assert surefoot(*NEW, "--updates", "3", "--out", folder) == 0
    return folder


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The same three in two processes, of which the last two after a resume; and what was printed."""
    folder = tmp_path_factory.mktemp("two") / "run"
    output = done(torchrun(*NEW, "--updates", "1", "--out", folder))
    return folder, output + done(torchrun("train", "--resume", folder, "--updates", "3", *SHORT))


def test_two_processes_learn_what_one_learns(one: Path, two: tuple[Path, str]) -> None:
    """To float tolerance: a row of a matrix product depends on how many rows there are, and sums on their
    order (measured: weights to 2e-7)."""
    a, b = (RunFolder.open(f).load_checkpoint("latest") for f in (one, two[0]))
    assert a.meta["update"] == b.meta["update"] == 3
    assert a.tensors.keys() == b.tensors.keys()
    learned = [k for k in a.tensors if k.startswith(("learner.", "policy."))]
    assert any("normalizer" in k for k in learned)
    for name in learned:
        torch.testing.assert_close(b.tensors[name], a.tensors[name], rtol=1e-5, atol=3e-6, msg=name)
    assert int(b.tensors["learner.adam.step"]) == 12, "three updates of two epochs of two minibatches"
    for name in ("env.episode", "env.script.stratum", "env.task.age", "env.script.family"):
        assert torch.equal(a.tensors[name], b.tensors[name])


def test_one_ledger_says_of_two_processes_what_it_says_of_one(one: Path, two: tuple[Path, str]) -> None:
    rows = [[without_timing(r) for r in RunFolder.open(f).ledger.rows()] for f in (one, two[0])]
    assert [[r["update"] for r in run] for run in rows] == [[1, 2, 3]] * 2
    counted = ("reset.", "stratum.", "family.", "episode.count", "samples", "memory.buffer", "freshness.")
    seen = 0
    for ours, theirs in zip(*rows, strict=True):
        assert ours.keys() == theirs.keys()
        for name, value in ours.items():
            if name.startswith(counted):
                assert theirs[name] == value, name
                seen += 1
            elif isinstance(value, float) and name != "first_ratio_error":
                assert theirs[name] == pytest.approx(value, rel=1e-3, abs=1e-5), name
    assert seen > 10
    record = RunFolder.open(two[0]).record
    assert record.status == "finished"
    assert record.versions["processes"] == "2"
    assert record.training_id == RunFolder.open(one).record.training_id


def test_only_one_of_them_speaks(two: tuple[Path, str]) -> None:
    assert two[1].count("Run folder:") == 2, "once for each of the two commands"
    assert two[1].count("episodes ended by") == 2
    assert "Traceback" not in two[1]
    assert {p.name for p in two[0].parent.iterdir()} == {two[0].name, LOOKS}


def processes_of(parent: int) -> dict[int, int]:
    """Process ids by rank."""
    by_rank = {}
    for child in Path("/proc").glob("[0-9]*"):
        try:
            stat, environ = (child / "stat").read_text(), (child / "environ").read_text()
        except OSError:  # it has just ended
            continue
        rank = re.search(r"(?:^|\0)RANK=(\d+)", environ)
        if rank and int(stat.rpartition(")")[2].split()[1]) == parent:
            by_rank[int(rank[1])] = int(child.name)
    return by_rank


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_signals_stop_all_and_the_death_of_one_ends_the_run_as_interrupted(tmp_path: Path) -> None:
    folder, log = tmp_path / "run", tmp_path / "log"
    child = torchrun(*NEW, "--updates", "100000", "--out", folder, log=log)
    wait_for(folder, 1)
    child.send_signal(signal.SIGTERM)
    assert child.wait(60) != 0
    output = log.read_text()
    hint = f"torchrun --nproc-per-node=2 -m surefoot train --resume {folder}"
    assert output.count(f"Stopped by SIGTERM; saved. Continue with: {hint}\n") == 1
    run = RunFolder.open(folder)
    assert run.record.status == "interrupted"
    rows = rows_in(folder)
    assert run.load_checkpoint("latest").meta["update"] == rows

    child = torchrun("train", "--resume", folder, "--updates", "100000", *SHORT, log=log)
    wait_for(folder, rows + 1)
    os.kill(processes_of(child.pid)[1], signal.SIGKILL)
    killed = time.monotonic()
    assert child.wait(60) != 0
    assert time.monotonic() - killed < 40, "the others must not wait for what will not come"
    # Whether it noticed the other's death or was told by torchrun, whichever was first:
    assert RunFolder.open(folder).record.status == "interrupted"

    # What is left is a run like any other: one process takes it on, with all the environments, until some
    # episode has ended for certain.
    end = int(RunFolder.open(folder).load_checkpoint("latest").meta["update"]) + 6
    assert surefoot("train", "--resume", folder, "--updates", str(end), *SHORT) == 0
    run = RunFolder.open(folder)
    assert run.record.status == "finished"
    assert [r["update"] for r in run.ledger.rows()] == list(range(1, end + 1))
    parts = [read_table(p, newest=1) for p in sorted((folder / "episodes").glob("*.parquet"))]
    keys = [key for t in parts for key in zip(t["family"], t["member"], t["episode"], strict=True)]
    assert len(keys) == len(set(keys)) > 0
    assert {int(k[0]) for k in keys} <= set(range(restore_plan(run).recipe.families))


# ---- refusals


class Refused(TorchGroup):
    """One of two processes, of which `both` were refused or not."""

    def __init__(self, rank: int, both: list[bool]) -> None:
        self.rank, self.world, self.both = rank, 2, both

    def gather(self, x: torch.Tensor, dim: int = 0) -> torch.Tensor:
        assert x.tolist() == [self.both[self.rank]]
        return torch.tensor(self.both)


def checked(process: Refused) -> None:
    with process.fail_together():
        if process.both[process.rank]:
            raise SurefootError("Use another.")


@pytest.mark.parametrize("both", [[True, True], [True, False], [False, True]])
def test_what_is_refused_to_one_is_refused_to_all_and_said_once(both: list[bool]) -> None:
    explained = []
    for rank in range(2):
        with pytest.raises((SurefootError, SystemExit)) as caught:
            checked(Refused(rank, both))
        explained.append(isinstance(caught.value, SurefootError))
        assert explained[-1] or caught.value.code == 2
    assert explained == [both[0], not both[0]]


def test_nothing_refused_is_nothing_said() -> None:
    checked(Refused(1, [False, False]))


def test_families_that_cannot_be_split_are_refused_with_what_can() -> None:
    with pytest.raises(
        SurefootError, match=r"over 3 processes; use --nproc-per-node 2 or 4, or a multiple of 3"
    ):
        make_plan("tiny:walk", processes=3)
    check_share(Recipe(), 32)


WHOLE = {
    "RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500",
}


def test_torchruns_variables_are_read_or_refused() -> None:
    assert world_info({}) == WorldInfo()
    assert world_info(WHOLE) == WorldInfo(1, 4, 1, 2)
    for bad, complaint in (
        ({"RANK": "0"}, "without WORLD_SIZE and LOCAL_RANK and LOCAL_WORLD_SIZE"),
        (WHOLE | {"RANK": "4"}, "RANK=4, WORLD_SIZE=4"),
        (WHOLE | {"WORLD_SIZE": "many"}, "WORLD_SIZE=many"),
        (WHOLE | {"LOCAL_RANK": "2"}, "which torchrun would not"),
        ({k: v for k, v in WHOLE.items() if k != "MASTER_PORT"}, "without MASTER_PORT"),
    ):
        with pytest.raises(SurefootError, match=complaint):
            world_info(bad)


def test_every_process_has_a_gpu_of_its_own_or_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert local_device("cuda") == "cuda"
    for name, value in WHOLE.items():
        monkeypatch.setenv(name, value)
    assert (local_device("cuda"), local_device("cuda:0"), local_device("cpu")) == ("cuda:1", "cuda:1", "cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(SurefootError, match=r"this machine has 1 for 2; use --nproc-per-node 1"):
        check_device("cuda:1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    check_device("cuda:1")


def test_memory_is_that_of_a_share() -> None:
    task = make_plan("walk-flat", overrides={"envs": 65536}).task
    assert device_bytes(task, 2) < 0.7 * device_bytes(task)
