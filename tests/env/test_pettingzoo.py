"""PettingZoo's view passes PettingZoo's own tests, and is the same environments."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

pytest.importorskip("pettingzoo")

from pettingzoo.test import parallel_api_test, parallel_seed_test

from surefoot.contract import SurefootError
from surefoot.gym import SurefootVectorEnv
from surefoot.zoo import SurefootParallelEnv

ROBOTS = 3


@pytest.fixture
def env() -> SurefootParallelEnv:
    return SurefootParallelEnv("walk-flat", ROBOTS, engine="mujoco")


def test_it_passes_the_parallel_api_test_without_a_warning(env: SurefootParallelEnv) -> None:
    """With random actions every robot falls or runs out of time within the cycles."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(env, num_cycles=1100)
    assert env.agents == []


def test_it_passes_the_seed_test() -> None:
    parallel_seed_test(lambda: SurefootParallelEnv("walk-flat", ROBOTS, engine="mujoco"), num_cycles=100)


def test_agents_live_what_the_vector_environment_lives(env: SurefootParallelEnv) -> None:
    vector = SurefootVectorEnv(
        "walk-flat", ROBOTS, autoreset_mode="Disabled", engine="mujoco", families=ROBOTS
    )
    obs, _ = env.reset(seed=7)
    theirs, _ = vector.reset(seed=7)
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert np.array_equal(np.stack([obs[a] for a in env.agents]), theirs)
        actions = rng.normal(size=(ROBOTS, 12)).astype(np.float32)
        obs, reward, ended, cut, infos = env.step(dict(zip(env.possible_agents, actions, strict=True)))
        theirs, rewards, terminated, truncated, _ = vector.step(actions)
        assert list(reward.values()) == rewards.tolist()
        assert list(ended.values()) == terminated.tolist()
        assert list(cut.values()) == truncated.tolist()
        assert set(infos["robot_0"]) == {"critic_obs", "stratum", "family", "reason", "reward_terms"}
        if len(env.agents) < ROBOTS:
            break
    assert env.state().shape == (ROBOTS, env.task.contract.critic_size)


def test_who_has_no_action_is_named(env: SurefootParallelEnv) -> None:
    env.reset(seed=1)
    with pytest.raises(SurefootError, match="robot_1 has no action"):
        env.step({a: np.zeros(12, np.float32) for a in ("robot_0", "robot_2")})
