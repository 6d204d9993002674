"""Advantages never cross the end of an episode, and collection bootstraps from what truly followed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from torch import Tensor

import tiny
from surefoot.contract import SeedPlan
from surefoot.env import Step, VecEnv
from surefoot.env.scenarios import TrainSampler
from surefoot.rollout import RolloutBlock, gae
from surefoot.training import collect


def reference(reward, value, next_value, terminated, truncated, gamma, lam):  # type: ignore[no-untyped-def]
    """One environment, from the definition: the sum over k of (gamma lam)^k delta_(t+k), up to the end."""
    horizon = len(reward)
    delta = [reward[t] + (0.0 if terminated[t] else gamma * next_value[t]) - value[t] for t in range(horizon)]
    out = []
    for t in range(horizon):
        total, weight = 0.0, 1.0
        for k in range(t, horizon):
            total += weight * delta[k]
            if terminated[k] or truncated[k]:
                break
            weight *= gamma * lam
        out.append(total)
    return out


FINITE = st.floats(-10, 10, allow_subnormal=False)


@st.composite
def rollouts(draw: st.DrawFn) -> dict[str, np.ndarray]:
    shape = draw(st.tuples(st.integers(1, 12), st.integers(1, 4)))
    out = {
        k: draw(arrays.arrays(np.float64, shape, elements=FINITE)) for k in ("reward", "value", "next_value")
    }
    # 0 goes on, 1 terminated, 2 truncated: an environment never says both
    ends = draw(arrays.arrays(np.int8, shape, elements=st.sampled_from([0, 0, 0, 1, 2])))
    return out | {"terminated": ends == 1, "truncated": ends == 2}


def tensors(rollout: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {k: torch.from_numpy(v.copy()) for k, v in rollout.items()}


@given(rollouts(), st.floats(0, 1, allow_subnormal=False), st.floats(0, 1, allow_subnormal=False))
@settings(max_examples=200, deadline=None)
def test_gae_agrees_with_its_definition(rollout: dict[str, np.ndarray], gamma: float, lam: float) -> None:
    got = gae(**tensors(rollout), gamma=gamma, lam=lam).numpy()
    for n in range(got.shape[1]):
        column = {k: v[:, n].tolist() for k, v in rollout.items()}
        np.testing.assert_allclose(got[:, n], reference(**column, gamma=gamma, lam=lam), rtol=1e-9, atol=1e-9)


@given(rollouts())
@settings(max_examples=30, deadline=None)
def test_gae_is_the_loop_over_whole_rows_in_float32(rollout: dict[str, np.ndarray]) -> None:
    r = {k: v.float() if v.dtype == torch.float64 else v for k, v in tensors(rollout).items()}
    alive, goes_on = (~r["terminated"]).float(), (~(r["terminated"] | r["truncated"])).float()
    expected = r["reward"] + 0.97 * r["next_value"] * alive - r["value"]
    for t in range(len(expected) - 2, -1, -1):
        expected[t] += 0.97 * 0.9 * goes_on[t] * expected[t + 1]
    out = torch.full_like(expected, torch.nan)
    assert gae(**r, gamma=0.97, lam=0.9, out=out) is out
    assert torch.allclose(out, expected, rtol=1e-5, atol=1e-5)


@given(rollouts(), st.data())
@settings(max_examples=100, deadline=None)
def test_nothing_after_an_end_reaches_back_over_it(
    rollout: dict[str, np.ndarray], data: st.DataObject
) -> None:
    horizon, envs = rollout["reward"].shape
    t, n = data.draw(st.integers(0, horizon - 1)), data.draw(st.integers(0, envs - 1))
    ended = data.draw(st.sampled_from(["terminated", "truncated"]))
    rollout["terminated"][t, n] = rollout["truncated"][t, n] = False
    rollout[ended][t, n] = True
    before = gae(**tensors(rollout), gamma=0.97, lam=0.9)
    for name in ("reward", "value", "next_value"):
        rollout[name][t + 1 :, n] += 1e6
    after = gae(**tensors(rollout), gamma=0.97, lam=0.9)
    assert torch.equal(before[: t + 1, n], after[: t + 1, n])


def test_truncation_bootstraps_and_termination_does_not() -> None:
    one = torch.ones(1, 2)
    advantage = gae(
        one, 0 * one, 10 * one, torch.tensor([[True, False]]), torch.tensor([[False, True]]), 0.5, 0.9
    )
    assert advantage.tolist() == [[1.0, 6.0]]


def test_gae_leaves_its_inputs_alone() -> None:
    given_in = {k: torch.rand(5, 3) for k in ("reward", "value", "next_value")}
    ends = {k: torch.rand(5, 3) < 0.3 for k in ("terminated", "truncated")}
    kept = {k: v.clone() for k, v in (given_in | ends).items()}
    gae(**given_in, **ends, gamma=0.9, lam=0.9)
    assert all(torch.equal(v, kept[k]) for k, v in (given_in | ends).items())


# ---- collection on the real environment


@dataclass
class Recorder:
    """A learner whose answers can be recomputed by hand."""

    weights: Tensor
    actions: int
    stds: float = 0.5

    @property
    def log_std(self) -> Tensor:
        return torch.full((self.actions,), math.log(self.stds))

    def mean(self, obs: Tensor) -> Tensor:
        return 0.1 * obs[:, : self.actions]

    def act(self, obs: Tensor, exploration: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = self.mean(obs)
        return mean + self.stds * exploration, mean, -exploration.square().sum(1)

    def value(self, critic: Tensor) -> Tensor:
        return (critic * self.weights).sum(1)


class Watched(VecEnv):
    """The environment, keeping every step it gave."""

    steps: list[Step]

    def step(self, action: Tensor) -> Step:
        self.steps.append(super().step(action))
        return self.steps[-1]


HORIZON, ENVS = 40, 16
WALK = tiny.walk()


@pytest.fixture(scope="module")
def collected() -> Iterator[tuple[RolloutBlock, Watched, Recorder]]:
    """Two blocks long, so that the one looked at starts in the middle of things."""
    torch.set_num_threads(1)
    task = WALK
    seeds = SeedPlan(root=4, families=4, envs=ENVS)
    sampler = TrainSampler(task.contract, task.robot, seeds, 50.0, None, torch.device("cpu"))
    watched = env = Watched(task, sampler, task.on("mujoco").plant)
    env.steps = []
    env.state.age[:5] = sampler.episode_steps - torch.tensor(
        [45, 60, 79, 41, 80]
    )  # five time out in the second block
    c = task.contract
    widths = (c.observation_size, c.critic_size, c.action.size, len(c.rewards))
    block = RolloutBlock.empty(HORIZON, ENVS, *widths)
    learner = Recorder(torch.linspace(-1, 1, c.critic_size), c.action.size)
    for _ in range(2):
        watched.steps.clear()
        collect(watched, learner, block, 0.9, 0.8)
    yield block, watched, learner
    env.close()


def test_the_block_saw_both_kinds_of_end(collected: tuple[RolloutBlock, Watched, Recorder]) -> None:
    block, _, _ = collected
    assert block.terminated.any(), "no fall: the tests below prove nothing"
    assert block.truncated.sum() >= 3
    assert not (block.terminated & block.truncated).any()


def test_a_truncated_step_bootstraps_with_its_final_observation(
    collected: tuple[RolloutBlock, Watched, Recorder],
) -> None:
    block, env, learner = collected
    for t, n in block.truncated.nonzero().tolist():
        final, restarted = env.steps[t].final_critic, env.steps[t].critic
        assert not torch.equal(final[n], restarted[n]), "the reset happened in the same step"
        assert block.next_value[t, n] == pytest.approx(float(learner.value(final)[n]), abs=1e-5)
        expected = block.reward[t, n] + 0.9 * block.next_value[t, n] - block.value[t, n]
        assert block.advantage[t, n] == pytest.approx(float(expected), abs=1e-5)


def test_a_terminated_step_does_not_bootstrap(collected: tuple[RolloutBlock, Watched, Recorder]) -> None:
    block, _, _ = collected
    for t, n in block.terminated.nonzero().tolist():
        assert block.advantage[t, n] == pytest.approx(float(block.reward[t, n] - block.value[t, n]), abs=1e-5)


def test_a_step_that_goes_on_is_followed_by_the_next_ones_value(
    collected: tuple[RolloutBlock, Watched, Recorder],
) -> None:
    block, env, learner = collected
    on = ~(block.terminated | block.truncated)
    assert torch.equal(block.next_value[:-1][on[:-1]], block.value[1:][on[:-1]])
    assert torch.allclose(block.next_value[-1][on[-1]], learner.value(env.critic)[on[-1]], atol=1e-5)


def test_the_block_holds_what_the_policy_saw_and_the_environment_said(
    collected: tuple[RolloutBlock, Watched, Recorder],
) -> None:
    block, env, learner = collected
    for t, step in enumerate(env.steps):
        assert torch.equal(block.reward[t], step.reward)
        assert torch.equal(block.reason[t], step.reason)
        assert torch.equal(block.stratum[t], step.stratum)
        if t + 1 < HORIZON:
            assert torch.equal(block.obs[t + 1], step.obs), (
                "observations after a reset are those of the new episode"
            )
            assert torch.equal(block.critic[t + 1], step.critic)
            action, mean, log_prob = learner.act(step.obs, step.exploration)
            assert torch.equal(block.action[t + 1], action)
            assert torch.equal(block.mean[t + 1], mean)
            assert torch.equal(block.log_prob[t + 1], log_prob)
    assert torch.equal(block.returns, block.advantage + block.value)


def test_a_restored_environment_ends_its_episodes_alike(
    collected: tuple[RolloutBlock, Watched, Recorder],
) -> None:
    """Lengths and returns of episodes that were under way come back too."""
    env = collected[1]
    twin = VecEnv(env.task, env.sampler, env.task.on("mujoco").plant)
    twin.restore(env.snapshot())
    start = env.snapshot()
    ended = []
    for one in (env, twin):
        one.log.take_ended()
        one.state.age = torch.full_like(one.state.age, env.sampler.episode_steps - 1)
        one.step(torch.zeros(ENVS, WALK.contract.action.size))
        (columns,) = one.log.take_ended()
        ended.append(columns)
    twin.close()
    env.restore(start)
    assert len(ended[0]["steps"]) == ENVS
    for name, column in ended[0].items():
        np.testing.assert_array_equal(column, ended[1][name], err_msg=name)
    assert (env.episode > 0).any(), "without a reset there is little to bring back"


def test_a_block_names_its_bytes() -> None:
    block = RolloutBlock.empty(3, 5, 7, 11, 2, 4)
    assert block.bytes == 15 * (4 * (7 + 11 + 2 + 2 + 4 + 6) + 3 + 8)
    assert block.flat("obs").shape == (15, 7)
