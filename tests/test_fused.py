"""The compiled environment does what the plain one does: same scenarios, rewards, ends and observations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from surefoot.contract import SeedPlan
from surefoot.env import VecEnv
from surefoot.fused.env import FusedEnv
from surefoot.rollout import RolloutBlock
from surefoot.scenarios import TrainSampler
from surefoot.tasks import View, task

STEPS = 40


def make(name: str, envs: int = 48, seed: int = 3) -> VecEnv:
    t = task(name)
    seeds = SeedPlan(root=seed, families=4, envs=envs)
    sampler = TrainSampler(t.contract, t.robot, seeds, 50.0, None, torch.device("cpu"))
    env = VecEnv(t, sampler, t.plant, engine="stride")
    env.state.age[::5] = env.sampler.episode_steps - 7  # some episodes are about to run out of time
    env.state.command = env._command()
    robot = env.engine.state()
    view = View(robot, env.state, env.parameters, env._ground(robot), env.const)
    env.obs, env.critic, env.exploration = env._observe(view, env.script)
    return env


def block_of(env: VecEnv | FusedEnv, steps: int = STEPS) -> RolloutBlock:
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


@pytest.mark.parametrize("name", ["trot-flat", "walk-flat"])
def test_a_fused_rollout_is_the_plain_one(name: str) -> None:
    plain, fused = make(name), FusedEnv(make(name))
    n, size = plain.num_envs, plain.contract.action.size
    wild = Wild(torch.randn(STEPS, n, size, generator=torch.Generator().manual_seed(0)) * 2)
    block = block_of(fused)
    fused.rollout(wild, block)
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
        ended += plain.take_ended()
    assert same.mean() > 0.9
    assert block.terminated.any()
    assert block.truncated.any()
    harvest = fused.harvest(fused.news())
    (found,) = harvest.ended
    mine = {k: np.concatenate([e[k] for e in ended]) for k in ended[0]}
    if same.all():
        for k in ("family", "member", "episode", "stratum", "steps", "reason"):
            assert np.array_equal(found[k], mine[k]), k
        for k in ("friction", "payload_kg", "delay_s"):
            assert np.allclose(found[k], mine[k])
        assert np.array_equal(harvest.resets, plain.take_reset_counts())
    fused.close()
    plain.close()


def test_a_free_environment_is_the_asking_one() -> None:
    """Without questions to the device: pushes and failed robots are handled by masks."""
    t = task("walk-flat")
    seeds = SeedPlan(root=5, families=4, envs=16)
    made = []
    for free in (False, True):
        sampler = TrainSampler(t.contract, t.robot, seeds, 50.0, None, torch.device("cpu"))
        env = VecEnv(t, sampler, t.plant, engine="stride", auto_reset=False, free=free)
        env.script.push_step[:, 0] = env.state.age + 3
        made.append(env)
    draw = torch.Generator().manual_seed(1)
    for k in range(8):
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
