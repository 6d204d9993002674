"""The compiled environment on terrain: height queries, tiles, levels and wraps are the plain one's."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
import warp as wp
from test_compiled import NoQuestions, block_of
from torch import Tensor

from surefoot.compiler import Target, Untraceable
from surefoot.contract import SeedPlan, SurefootError
from surefoot.env import VecEnv
from surefoot.env.compiled import CompiledEnv
from surefoot.env.compiled.kernels import generate
from surefoot.env.compiled.tables import Table
from surefoot.env.compiled.warp_kernels import make_act, make_observe, make_task
from surefoot.env.scenarios import TrainSampler
from surefoot.learners import Ppo, symmetry
from surefoot.rollout import RolloutBlock
from surefoot.tasks import Task, task
from surefoot.terrain import SIZE_M, Atlas
from surefoot.training.batch import _terrain
from surefoot.training.iteration import TrainingIteration
from surefoot.training.plan_makers import make_plan

ENVS, FAMILIES = 48, 4
ROUGH = task("walk-rough")
LEVELS = ROUGH.contract.terrain_levels


@cache
def atlas() -> Atlas:
    return Atlas.build(ROUGH.tiles)


def short(steps: int, of: Task = ROUGH) -> Task:
    """Episodes end, and commands change, much sooner."""
    c = of.contract
    command = c.command.model_copy(update={"resample_s": 0.5})
    return dataclasses.replace(
        of, contract=c.model_copy(update={"episode_s": steps / 50, "command": command})
    )


def make(of: Task = ROUGH, envs: int = ENVS, device: str = "cpu") -> VecEnv:
    seeds = SeedPlan(root=3, families=FAMILIES, envs=envs)
    sampler = TrainSampler(of.contract, of.robot, seeds, 50.0, atlas(), torch.device(device))
    env = VecEnv(of, sampler, of.plant, engine="stride", atlas=atlas(), device=device)
    env.level = torch.arange(envs, device=device) % LEVELS
    env.reset_rows(torch.ones(envs, dtype=torch.bool, device=device))
    return env


class Stumbling:
    """Noise around the default pose, so that robots stand for a while and then fall."""

    def __init__(self, size: float = 1.0) -> None:
        self.size, self.draw = size, torch.Generator().manual_seed(0)
        self.log_std = torch.full((12,), -2.0)

    def mean(self, obs: Tensor) -> Tensor:
        return torch.randn(len(obs), 12, generator=self.draw) * self.size


@pytest.mark.parametrize(("name", "noise"), [("walk-rough", 1.0), ("walk-anymal-rough", 1.5)])
def test_every_step_on_terrain_is_the_plain_ones(name: str, noise: float) -> None:
    """Step by step from the same state: rewards, ends, levels, tiles, starts, wraps and what is seen."""
    of = short(40, task(name))
    assert of.tiles == ROUGH.tiles
    plain, compiled = make(of), CompiledEnv(make(of))
    block, wild, draw = block_of(compiled, 1), Stumbling(noise), torch.Generator().manual_seed(1)
    moves, wraps, seen, ended, compiled_ended = set(), 0, set(), [], []
    parted, ends = set(), np.zeros(len(plain.reasons), int)
    origins = torch.tensor(atlas().origins)
    plain.log.take_ended()
    for t in range(320):
        # Episodes are too short to have walked anywhere: the curriculum is told what it counts.
        walked = torch.rand(ENVS, 1, generator=draw) * torch.tensor([[10.0, 0.0]]) + torch.tensor([0.0, 9.0])
        compiled.memory.write("progress", torch.where(torch.rand(ENVS, 1, generator=draw) < 0.8, walked, 0.0))
        if t % 20 == 10:  # to a corner of the tile, with a kick outwards
            local = plain.engine.state().position[:, :2] - origins[plain.script.tile]
            some = torch.rand(ENVS, generator=draw) < 0.3
            compiled.engine.translate(some, torch.tensor([3.99, -3.99]) - local)
            compiled.engine.push(some, torch.tensor([3.0, -3.0]).repeat(ENVS, 1))
        plain.restore(compiled.snapshot())
        before = plain.level.clone()
        _, (late, whose, critic) = compiled.rollout(wild, block)
        step = plain.step(block.action[0])
        for name in ("terminated", "truncated", "reason", "stratum"):
            assert torch.equal(getattr(block, name)[0], getattr(step, name)), (name, t)
        assert torch.allclose(block.reward[0], step.reward, atol=1e-5), t
        assert torch.allclose(block.terms[0], step.terms, atol=1e-4), t
        # Steep risers turn a rounding of positions at 65 m (4e-6) into one of heights, scaled by 10.
        assert torch.allclose(compiled.obs, plain.obs, atol=1e-3), t
        assert torch.allclose(compiled.critic, plain.critic, atol=2e-3), t
        assert torch.equal(late >= 0, step.truncated)
        late = late >= 0
        assert torch.allclose(critic[whose[late]], step.final_critic[late], atol=2e-3), t
        ours, theirs = compiled.snapshot(), plain.snapshot()
        for name, value in theirs.items():
            if name in ("exploration", "reset_counts", "obs", "critic"):
                continue
            if value.is_floating_point():
                # Forces and accelerations of a heavy robot run into the hundreds.
                near = 2e-3 + 1e-5 * float(value.abs().max())
                same = torch.isclose(ours[name], value, atol=near, rtol=1e-3)
                if name.startswith("engine."):  # a foot within a rounding of the ground lands now or then
                    parted |= {(t, row) for row in (~same.all(1)).nonzero()[:, 0].tolist()}
                    if name == "engine.state":
                        assert same[:, :7].all(), ("where robots are and how they stand", t)
                else:
                    assert same.all(), (name, t)
            else:
                assert torch.equal(ours[name].long(), value.long()), (name, t)
        done = step.terminated | step.truncated
        after = plain.level
        moves |= set(zip(before[done].tolist(), after[done].tolist(), strict=True))
        seen |= set(plain.script.tile.tolist())
        jump = (plain.robot_state.position - step.view.robot.position)[:, :2].abs().amax(1)
        wraps += int(((jump > 4) & ~done).sum())
        ends += np.bincount(step.reason.numpy(), minlength=len(ends))
        ended += plain.log.take_ended()
        compiled_ended += compiled.episode_stats(compiled.stats_tensors()).ended
    assert len(parted) <= 2, "of all robots in all steps"
    assert {(3, 4), (4, 3), (0, 0), (0, 1)} <= moves
    beyond = {after for level, after in moves if level == LEVELS - 1}
    assert LEVELS - 2 in beyond
    assert len(beyond - {LEVELS - 1, LEVELS - 2}) >= 3, "past the top anywhere"
    assert wraps > 20
    assert len(seen) > 130
    assert ends[1] > 50
    assert (ends[[2, 3, 4]] > 0).sum() >= 2
    one, other = (
        {k: np.concatenate([e[k] for e in part]) for k in part[0]} for part in (compiled_ended, ended)
    )
    assert one.keys() == other.keys()
    for name, column in one.items():
        if column.dtype.kind == "f":
            assert np.allclose(column, other[name], atol=2e-3), name
        else:
            assert np.array_equal(column, other[name]), name
    assert [atlas().tiles[k].level for k in one["tile"]] == one["level"].tolist()
    assert [atlas().tiles[k].cls for k in one["tile"]] == one["terrain"].tolist()
    compiled.close()
    plain.close()


def test_a_long_rollout_stays_with_the_plain_environments() -> None:
    """Resets bring robots that rounding has taken elsewhere back to the same scenarios."""
    of, steps = short(60), 200
    plain, compiled = make(of), CompiledEnv(make(of))
    same = torch.ones(ENVS, dtype=torch.bool)
    together, wild = 0, Stumbling(0.6)
    for part in range(steps // 50):
        block = block_of(compiled, 50)
        compiled.rollout(wild, block)
        for t in range(50):
            step = plain.step(block.action[t])
            if part or t:
                close = (block.reward[t] - step.reward).abs() < 2e-3
                same &= close & (block.reason[t] == step.reason) & (block.stratum[t] == step.stratum)
            # whoever begins the same episode on the same tile is together again
            if t < 49:
                same |= (block.critic[t + 1] - plain.critic).abs().amax(1) < 1e-3
            together += int(same.sum())
    assert together > 0.8 * steps * ENVS
    assert torch.equal(compiled.memory.integers("episode").long()[same], plain.episode[same])
    assert int(plain.episode.min()) > 2
    compiled.close()
    plain.close()


def test_a_failed_robot_on_terrain_ends_and_begins_again() -> None:
    env = CompiledEnv(make())
    block, still = block_of(env, 2), Stumbling(0.0)
    env.engine.arrays.state[env.engine.buffers.state.first("vel"), 5] = torch.nan
    env.rollout(still, block)
    assert block.reason[0, 5] == len(env.reasons) - 1
    assert (block.reason[:, :5] == 0).all()
    assert all(torch.isfinite(x).all() for x in (block.obs, block.critic, block.reward, env.critic))
    (failure,) = env.episode_stats(env.stats_tensors()).failures
    assert len(failure["state"]) == 1
    env.close()


def cycle_of(device: str = "cpu") -> TrainingIteration:
    where, of = torch.device(device), short(30)
    recipe = of.recipe.model_copy(
        update={"envs": ENVS, "horizon": 16, "families": FAMILIES, "epochs": 2, "hidden": (32,)}
    )
    env = CompiledEnv(make(of, device=device))
    c = of.contract
    learner = Ppo(c, recipe, symmetry(c, of.robot, of.scan, where), env.sampler.seeds, where)
    widths = (c.observation_size, c.critic_size, c.action.size, len(c.rewards))
    block = RolloutBlock.empty(16, ENVS, *widths, where)
    return TrainingIteration(env, learner, block, recipe, strata=c.strata.shape, action_clip=c.action.clip)


def test_nothing_in_an_iteration_on_terrain_asks_the_device() -> None:
    cycle = cycle_of()
    cycle.run(1)
    with NoQuestions():
        cycle.run(2)
        cycle.run(10, with_batch_stats=True)
    assert cycle.episode_stats(cycle.run(11)).ended, "resets were among what was watched"
    cycle.env.close()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_nothing_in_an_iteration_on_terrain_waits_for_a_gpu() -> None:
    cycle = cycle_of("cuda")
    cycle.prepare()
    cycle.run(1).wait()
    cycle.run(2).wait()
    torch.cuda.set_sync_debug_mode("error")
    try:
        iterations = [cycle.run(k) for k in (3, 4)]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for iteration in iterations:
        iteration.wait()
    assert cycle.episode_stats(iterations[1]).ended
    cycle.env.close()


def test_a_restored_cycle_on_terrain_goes_on_to_the_bit() -> None:
    one, other = cycle_of(), cycle_of()
    one.run(1)
    one.run(2)
    env, learner = one.env.snapshot(), one.learner.tensors()
    for cycle in (one, other):
        if cycle is other:
            cycle.env.restore(env)
            cycle.learner.load(learner)
        for number in (3, 4, 5):
            cycle.run(number)
    for name, x in vars(one.block).items():
        assert torch.equal(x, getattr(other.block, name)), name
    after, again = one.env.snapshot(), other.env.snapshot()
    assert all(torch.equal(after[k], again[k]) for k in after if k != "exploration")
    assert one.env.state.age.max() < 30 <= 5 * 16, "every robot has begun a new episode since"
    for cycle in (one, other):
        cycle.env.close()


def test_threads_do_not_matter_on_terrain() -> None:
    blocks, rows = [], []
    for count in (1, 3):
        with mock.patch("os.sched_getaffinity", return_value=set(range(count))):
            env = CompiledEnv(make(short(30)))
        assert (len(env.engine.shares) > 1) == (count > 1)
        blocks.append(block_of(env, 25))
        for _ in range(3):
            env.rollout(Stumbling(), blocks[-1])
        (ended,) = env.episode_stats(env.stats_tensors()).ended
        rows.append(ended)
        env.close()
    for name in ("obs", "critic", "reward", "terms", "reason", "stratum", "log_prob"):
        assert torch.equal(getattr(blocks[0], name), getattr(blocks[1], name)), name
    assert all(np.array_equal(rows[0][k], rows[1][k]) for k in rows[0])


def test_a_thread_per_environment_does_what_a_register_of_them_does() -> None:
    """The shape of the kernels on CUDA, on the CPU."""
    blocks, rows = [], []
    for solo in (False, True):
        with ExitStack() as patches:
            if solo:
                text = lambda env, memory, *_: generate(env, memory, Target("solo"))  # noqa: E731
                patches.enter_context(mock.patch("surefoot.env.compiled.env.generate", text))
                patches.enter_context(mock.patch("surefoot.env.compiled.env.WIDTH", 1))
            env = CompiledEnv(make(short(30)))
        blocks.append(block_of(env, 1))
        wild, ended = Stumbling(), []
        for _ in range(70):
            env.rollout(wild, blocks[-1])
            ended += env.episode_stats(env.stats_tensors()).ended
        rows.append({k: np.concatenate([e[k] for e in ended]) for k in ended[0]})
        env.close()
    same = (blocks[0].obs[0] - blocks[1].obs[0]).abs().amax(1) < 1e-3
    assert same.float().mean() > 0.8
    for name in ("critic", "reward", "stratum", "log_prob"):
        one, other = (getattr(b, name)[0][same] for b in blocks)
        assert torch.allclose(one, other, atol=1e-2), name
    named = ("family", "member", "episode", "tile")
    keys = [set(zip(*(r[k].tolist() for k in named), strict=True)) for r in rows]
    assert len(keys[0] & keys[1]) > 0.9 * len(keys[0]) > 80


def test_the_texts_for_cuda_compile(tmp_path: Path) -> None:
    """To a binary for an H200, which takes no GPU."""
    env = make()
    compiled = CompiledEnv(env)
    if 90 not in wp.get_cuda_supported_archs():
        pytest.skip("Warp has no compiler for CUDA here")
    texts = generate(env, compiled.memory, Target("solo", cuda=True))
    kernels = {
        "act": make_act(texts.act),
        "task": make_task(texts.task),
        "observe": make_observe(texts.observe),
    }
    for name, kernel in kernels.items():
        wp.compile_aot_module(kernel.module, arch=90, module_dir=tmp_path / name, use_ptx=False)
        assert list((tmp_path / name).glob("*.cubin"))
    compiled.close()


def test_a_class_without_a_tile_at_some_level_is_refused() -> None:
    holes = tuple(t for t in ROUGH.tiles if (t.cls, t.level) != ("wave", 7))
    with pytest.raises(SurefootError, match="no tile of it at level 7"):
        dataclasses.replace(ROUGH, tiles=holes)


def test_the_ledger_says_where_environments_stand() -> None:
    cycle = cycle_of()
    stats = cycle.episode_stats(cycle.run(1))
    for number in range(2, 6):
        if not stats.ended:
            stats = cycle.episode_stats(cycle.run(number))
    row = _terrain(stats)
    names = ROUGH.contract.factor("terrain").categories
    standing = np.array([row[f"terrain.envs.{n}"] for n in names])
    script = cycle.env.script
    assert standing.sum() == ENVS
    assert standing.sum(0).tolist() == np.bincount(script.level.numpy(), minlength=LEVELS).tolist()
    on = [atlas().tiles[k].cls for k in script.tile.tolist()]
    assert standing.sum(1).tolist() == [on.count(n) for n in names]
    assert row["terrain.level"] == pytest.approx(float(script.level.float().mean()))
    (ended,) = stats.ended
    assert len(ended["tile"]) > 10
    for n in names:
        on_terrain = ended["terrain"] == n
        count = np.bincount(ended["level"][on_terrain], minlength=LEVELS)
        assert row[f"terrain.episodes.{n}"] == count.tolist()
        fell = np.bincount(ended["level"][on_terrain & (ended["reason"] > 1)], minlength=LEVELS)
        assert row[f"terrain.falls.{n}"] == fell.tolist()
        for level, share in enumerate(row[f"terrain.walked.{n}"]):
            here = on_terrain & (ended["level"] == level)
            commanded = ended["commanded_m"][here].sum()
            assert (share is None) == (commanded == 0)
            if share is not None:
                assert share == pytest.approx(ended["walked_m"][here].sum() / commanded, rel=1e-4)
    cycle.env.close()


def test_training_on_terrain_is_compiled() -> None:
    plan = make_plan("walk-rough", overrides={"envs": 32, "families": 4, "horizon": 4}, engine="stride")
    env = plan.environments(range(32))
    assert isinstance(env, CompiledEnv)
    env.close()


def test_an_atlas_that_float32_cannot_count_is_refused() -> None:
    with pytest.raises(Untraceable, match="fewer tiles"):
        Table(0, (4096, 4096))
    Table(0, (4095, 4096))


def test_wrapped_robots_are_inside_their_tiles() -> None:
    env = CompiledEnv(make())
    everyone = torch.ones(ENVS, dtype=torch.bool)
    env.engine.translate(everyone, torch.tensor([SIZE_M / 2 + 0.2, 0.0]).repeat(ENVS, 1))
    env.rollout(Stumbling(0.0), block_of(env, 1))
    local = env.engine.state().position[:, :2].numpy() - atlas().origins[env.script.tile.numpy()]
    assert np.abs(local).max() <= SIZE_M / 2 + 1e-4
    assert (local[:, 0] < 0).sum() > ENVS / 2
    env.close()
