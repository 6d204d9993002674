"""The compiled environment does what the plain one does: same scenarios, rewards, ends and observations."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from surefoot.compiler import Untraceable
from surefoot.compiler.expressions import evaluate, lift, symbol
from surefoot.compiler.tensors import Symbols, number
from surefoot.contract import SeedPlan, SurefootError
from surefoot.engines import Parameters, RobotState
from surefoot.env import VecEnv
from surefoot.env.compiled import CompiledEnv
from surefoot.env.scenarios import TrainSampler
from surefoot.learners import Ppo, symmetry
from surefoot.rollout import RolloutBlock
from surefoot.tasks import Ground, TaskState, View, task
from surefoot.tasks.registry import BUILT_IN
from surefoot.terrain import Atlas
from surefoot.training.checks import check_memory, device_bytes
from surefoot.training.iteration import TrainingIteration

STEPS = 40


def make(name: str, envs: int = 48, seed: int = 3) -> VecEnv:
    t = task(name)
    seeds = SeedPlan(root=seed, families=4, envs=envs)
    sampler = TrainSampler(t.contract, t.robot, seeds, 50.0, None, torch.device("cpu"))
    env = VecEnv(t, sampler, t.plant, engine="stride")
    env.state.age[::5] = env.sampler.episode_steps - 7  # some episodes are about to run out of time
    env.state.command = env.current_command()
    robot = env.engine.state()
    view = View(robot, env.state, env.parameters, env.ground(robot), env.const)
    env.obs, env.critic, env.exploration = env.observe(view, env.script)
    return env


def block_of(env: VecEnv | CompiledEnv, steps: int = STEPS) -> RolloutBlock:
    c = env.contract
    return RolloutBlock.empty(
        steps, env.num_envs, c.observation_size, c.critic_size, c.action.size, len(c.rewards)
    )


class Wild:
    """Actions that make robots fall now and then, the same for both."""

    def __init__(self, actions: Tensor) -> None:
        self.actions, self.at = actions, 0
        self.log_std = torch.full((actions.shape[2],), -2.0)

    def mean(self, obs: Tensor) -> Tensor:
        self.at += 1
        return self.actions[self.at - 1]


@pytest.mark.parametrize("name", ["trot-flat", "walk-flat", "walk-anymal-flat", "walk-biped-flat"])
def test_a_compiled_rollout_is_the_plain_one(name: str) -> None:
    plain, compiled = make(name), CompiledEnv(make(name))
    n, size = plain.num_envs, plain.contract.action.size
    wild = Wild(torch.randn(STEPS, n, size, generator=torch.Generator().manual_seed(0)) * 2)
    block = block_of(compiled)
    compiled.rollout(wild, block)
    ended = []
    same = np.ones(n, bool)  # until rounding has taken a robot elsewhere
    for t in range(STEPS):
        if t:
            close = ((block.obs[t] - plain.obs).abs().amax(1) < 2e-3).numpy()
            same &= close
            assert (block.critic[t][same] - plain.critic[same]).abs().max() < 5e-2
        action = wild.actions[t] + wild.log_std.exp() * plain.exploration
        if same.any():
            assert torch.allclose(block.action[t][same], action[same], atol=1e-5)
        step = plain.step(action)
        assert torch.allclose(block.reward[t][same], step.reward[same], atol=2e-3)
        for k in ("terminated", "truncated", "reason", "stratum"):
            assert torch.equal(getattr(block, k)[t][same], getattr(step, k)[same]), (k, t)
        ended += plain.log.take_ended()
    assert same.mean() > 0.9
    assert block.terminated.any()
    assert block.truncated.any()
    stats = compiled.episode_stats(compiled.stats_tensors())
    (ours,) = stats.ended
    theirs = {k: np.concatenate([e[k] for e in ended]) for k in ended[0]}
    alike = [same[part["family"] * (n // 4) + part["member"]] for part in (ours, theirs)]
    for k in ("family", "member", "episode", "stratum", "steps", "reason"):
        assert np.array_equal(ours[k][alike[0]], theirs[k][alike[1]]), k
    for k in ("friction", "payload_kg", "delay_s"):
        assert np.allclose(ours[k][alike[0]], theirs[k][alike[1]])
    assert alike[0].sum() > 5
    assert stats.resets.sum() == len(ours["family"]) + n
    compiled.close()
    plain.close()


@pytest.mark.parametrize("name", ["walk-flat", "walk-rough"])
def test_a_masked_environment_is_the_asking_one(name: str) -> None:
    """Without questions to the device: pushes, failed robots and wraps are handled by masks."""
    t = task(name)
    atlas = Atlas.build(t.tiles) if t.tiles else None
    seeds = SeedPlan(root=5, families=4, envs=16)
    made = []
    for masked in (False, True):
        sampler = TrainSampler(t.contract, t.robot, seeds, 50.0, atlas, torch.device("cpu"))
        env = VecEnv(t, sampler, t.plant, engine="stride", atlas=atlas, auto_reset=False)
        env.masked = masked
        env.script.push_step[:, 0] = env.state.age + 3
        if atlas is not None:  # some are about to leave their tile
            env.engine.translate(torch.arange(16) % 3 == 0, torch.tensor([3.99, 0.0]).repeat(16, 1))
        made.append(env)
    draw = torch.Generator().manual_seed(1)
    for k in range(8):
        made[1].set_graph_state([x.clone() for x in made[1].graph_state()])  # as a graph of one step does
        action = torch.randn(16, 12, generator=draw)
        if k == 5:
            action[3] = torch.nan  # this robot's engine fails
        a, b = (env.step(action) for env in made)
        assert torch.equal(a.obs, b.obs)
        assert torch.equal(a.reward, b.reward)
        assert torch.equal(a.reason, b.reason)
    assert a.reason[3] == len(made[0].reasons) - 1
    for env in made:
        env.close()


def test_too_many_environments_for_a_device_are_foreseen() -> None:
    t = task("walk-flat")
    free = 10 * 2**30
    wide = dataclasses.replace(t, recipe=t.recipe.model_copy(update={"envs": 1 << 19, "horizon": 24}))
    with pytest.raises(SurefootError, match="use --envs") as refused:
        check_memory(wide, free)
    fits = int(re.search(r"--envs (\d+)", str(refused.value)).group(1))  # type: ignore[union-attr]
    assert fits % t.recipe.families == 0
    for envs, fine in ((fits, True), (fits + t.recipe.families, False)):
        some = dataclasses.replace(t, recipe=t.recipe.model_copy(update={"envs": envs, "horizon": 24}))
        assert (device_bytes(some) <= free) == fine
    check_memory(t, free)


class NoQuestions(TorchDispatchMode):
    """Fails where something asks what is in a tensor: on a GPU the host would wait there for the device."""

    ASKING = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "is_nonzero", "bincount")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        assert name not in self.ASKING, f"'{name}' waits for the device"
        return func(*args, **(kwargs or {}))


def cycle_of(device: str = "cpu") -> TrainingIteration:
    t = task("trot-flat")
    where = torch.device(device)
    recipe = t.recipe.model_copy(
        update={"envs": 64, "horizon": 8, "families": 8, "epochs": 2, "hidden": (32,)}
    )
    seeds = SeedPlan(root=2, families=8, envs=64)
    sampler = TrainSampler(t.contract, t.robot, seeds, 50.0, None, where)
    env = CompiledEnv(VecEnv(t, sampler, t.plant, engine="stride", device=device))
    c = t.contract
    learner = Ppo(c, recipe, symmetry(c, t.robot, t.scan, where), seeds, where)
    widths = (c.observation_size, c.critic_size, c.action.size, len(c.rewards))
    block = RolloutBlock.empty(8, 64, *widths, where)
    return TrainingIteration(env, learner, block, recipe, strata=c.strata.shape, action_clip=c.action.clip)


def test_nothing_in_an_iteration_asks_the_device() -> None:
    cycle = cycle_of()
    cycle.run(1)  # buffers and launches are made once
    with NoQuestions():
        cycle.run(2)
        cycle.run(10, with_batch_stats=True)
    with pytest.raises(AssertionError, match="_local_scalar_dense"), NoQuestions():
        bool(cycle.block.terminated.any())
    cycle.env.close()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_nothing_in_an_iteration_waits_for_a_gpu() -> None:
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
    cycle.env.close()


def test_a_restored_cycle_goes_on_to_the_bit() -> None:
    one, other = cycle_of(), cycle_of()
    one.run(1)
    env, learner = one.env.snapshot(), one.learner.tensors()
    for cycle in (one, other):
        if cycle is other:
            cycle.env.restore(env)
            cycle.learner.load(learner)
        cycle.run(2)
        cycle.run(3)
    for name, x in vars(one.block).items():
        assert torch.equal(x, getattr(other.block, name)), name
    after, again = one.learner.tensors(), other.learner.tensors()
    assert all(torch.equal(after[k], again[k]) for k in after)
    for cycle in (one, other):
        cycle.env.close()


def test_what_cannot_be_traced_is_refused_by_name() -> None:
    x = Symbols([[lift(1.0), lift(2.0)]])
    with pytest.raises(Untraceable, match="median"):
        torch.median(x)
    with pytest.raises(Untraceable, match="branches on data"):
        bool(x.sum(1) > 0)
    with pytest.raises(Untraceable, match="mixes environments"):
        x.sum()
    with pytest.raises(Untraceable, match="add with these arguments"):
        torch.add(x, x, alpha=2)
    with pytest.raises(Untraceable, match="div with these arguments"):
        torch.div(x, 2.0, rounding_mode="floor")
    for name, use in (("matmul", lambda: x @ x), ("logical_xor", lambda: (x > 0) ^ (x > 1))):
        with pytest.raises(Untraceable, match=name):
            use()
    with pytest.raises(Untraceable, match="takes a number out"):
        float(x[0, 0])
    with pytest.raises(Untraceable, match="assigns to a part"):
        x[:, 0] = 0.0


@pytest.mark.parametrize("name", BUILT_IN)
def test_traced_terms_have_the_values_of_the_tensors(name: str) -> None:
    t, n = task(name), 7
    draw = torch.Generator().manual_seed(1)

    def some(*shape: int) -> Tensor:
        return torch.randn(n, *shape, generator=draw)

    joints, feet, points = len(t.robot.joints), len(t.robot.feet), len(t.scan)
    robot = RobotState(
        some(3), some(4), some(3), some(3), some(3), some(joints), some(joints), some(joints), some(feet, 3),
        some(feet, 3), some(feet, 3), some() > 0, some() > 9,
    )  # fmt: skip
    state = TaskState(
        some().abs(), some(3), some(joints), some(joints), some().abs() % 1, some(feet) > 0,
        some(feet).abs(), some(feet).abs(),
    )  # fmt: skip
    body = Parameters(*(some(*shape) for shape in ((), (), (3,), (), (), (), ())))
    ground = Ground(some(), some(feet), some(points))
    view = View(robot, state, body, ground, t.constants(torch.device("cpu"), 0.02))
    values: dict[Any, Any] = {}

    def traced(record: Any, tag: str) -> Any:
        out = {}
        for field, x in record.tensors().items():
            a = np.empty((1, *x.shape[1:]), object)
            for at in np.ndindex(*a.shape):
                key = (tag, field, at[1:])
                values[key], a[at] = x[(slice(None), *at[1:])].double().numpy(), symbol(key)
            out[field] = Symbols(a) > 0.5 if x.dtype == torch.bool else Symbols(a)
        return type(record)(**out)

    mirror: Any = View(
        traced(robot, "r"), traced(state, "s"), traced(body, "p"), traced(ground, "g"), view.const
    )
    c = t.contract
    named = [(x.name, {}) for x in (*c.observation, *c.privileged)]
    for term, params in named + [(x.name, x.params) for x in (*c.rewards, *c.terminations)]:
        right = t.terms[term](view, **params).double().numpy()
        expression = number(t.terms[term](mirror, **params))
        traced_values = np.array([np.broadcast_to(x, n) for x in evaluate(expression.flat(), values)]).T
        assert np.allclose(traced_values.reshape(right.shape), right, rtol=1e-5, atol=1e-5), term
