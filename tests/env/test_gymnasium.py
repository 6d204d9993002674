"""The Gymnasium views keep Gymnasium's conventions, and differ from each other in nothing else."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils import env_checker, passive_env_checker
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import vector as wrappers

from surefoot.contract import SurefootError
from surefoot.gym import ENVIRONMENTS, SurefootEnv, SurefootVectorEnv, register_envs

SAME, NEXT, OFF = AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED
BOTH = pytest.mark.parametrize("mode", [SAME, NEXT], ids=["same", "next"])
N = 6

Make = Callable[..., SurefootVectorEnv]
Transition = tuple[np.ndarray, np.ndarray, float, bool, bool, str, int]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def make() -> Iterator[Make]:
    """Vector environments that are closed at the end."""
    made: list[SurefootVectorEnv] = []

    def build(
        mode: AutoresetMode | str = SAME, task: str = "walk-flat", n: int = N, **options: Any
    ) -> SurefootVectorEnv:
        made.append(SurefootVectorEnv(task, n, autoreset_mode=mode, **options))
        return made[-1]

    yield build
    for env in made:
        env.close()


def reckless(obs: np.ndarray) -> np.ndarray:
    """A policy that falls within a second: a function of what it sees, so of nothing that a mode changes."""
    weights = np.random.default_rng(0).normal(size=(obs.shape[1], 12)).astype(np.float32)
    return np.clip(0.6 * obs @ weights, -6, 6)


def near_the_end(env: SurefootVectorEnv, steps: int, apart: int = 1) -> None:
    """Ages the episodes so that environment k times out after `steps` + `apart` x k steps."""
    left = steps + apart * torch.arange(env.num_envs)
    env.vec.state.age = env.vec.sampler.episode_steps - left


def lives(env: SurefootVectorEnv, steps: int) -> list[list[Transition]]:
    """The steps that each environment took: seen, seen next (no reset), reward, ends, reason, stratum."""
    out: list[list[Transition]] = [[] for _ in range(env.num_envs)]
    obs, _ = env.reset(seed=5)
    near_the_end(env, 3)  # so that the reckless end both ways
    over = np.zeros(env.num_envs, bool)
    for _ in range(steps):
        after, reward, terminated, truncated, infos = env.step(reckless(obs))
        done = terminated | truncated
        for i in np.flatnonzero(~over):
            last = infos["final_obs"][i] if env.autoreset_mode is SAME and done[i] else after[i]
            ends = bool(terminated[i]), bool(truncated[i])
            out[i].append(
                (obs[i], last, float(reward[i]), *ends, str(infos["reason"][i]), int(infos["stratum"][i]))
            )
        over = done if env.autoreset_mode is NEXT else np.zeros_like(done)
        obs = after
    return out


# ---- the two conventions


@pytest.mark.parametrize("task", ["walk-flat", "walk-rough"])
def test_both_modes_live_the_same_episodes(make: Make, task: str) -> None:
    same, late = lives(make(SAME, task), 45), lives(make(NEXT, task), 45)
    reasons = {step[5] for env in same for step in env}
    assert "timeout" in reasons
    assert len(reasons) > 2  # both ways to end were seen
    for a, b in zip(same, late, strict=True):
        assert len(b) < len(a)  # a step is lost to each reset
        assert sum(step[3] or step[4] for step in b) > 1
        for x, y in zip(a, b, strict=False):
            np.testing.assert_array_equal(x[0], y[0])
            np.testing.assert_array_equal(x[1], y[1])
            assert x[2:] == y[2:]


def test_final_obs_is_what_the_robot_saw_last(make: Make) -> None:
    """An environment without autoreset shows what the one that resets must have seen."""
    env, still = make(SAME), make(OFF)
    obs, _ = env.reset(seed=2)
    still.reset(seed=2)
    near_the_end(env, 4)
    near_the_end(still, 4)
    for _ in range(4):
        action = 0.1 * reckless(obs)
        obs, _, _, truncated, infos = env.step(action)
        last, _, _, _, plain = still.step(action)
    assert truncated.tolist() == [True] + [False] * (N - 1)
    np.testing.assert_array_equal(infos["_final_obs"], truncated)
    np.testing.assert_array_equal(infos["final_obs"][0], last[0])
    assert all(x is None for x in infos["final_obs"][1:])
    assert not np.array_equal(obs[0], last[0])
    np.testing.assert_array_equal(obs[1:], last[1:])
    final = infos["final_info"]
    assert final["reason"].tolist() == ["timeout"] + [""] * (N - 1)
    np.testing.assert_array_equal(final["critic_obs"][0], plain["critic_obs"][0])
    assert not np.array_equal(infos["critic_obs"][0], plain["critic_obs"][0])


def test_the_step_after_an_end_ignores_its_action_and_gives_nothing(make: Make) -> None:
    env, twin = make(NEXT), make(NEXT)
    for e in (env, twin):
        e.reset(seed=3)
        near_the_end(e, 1)
        *_, truncated, infos = e.step(np.zeros((N, 12)))
        assert truncated[0]
        assert not {"final_obs", "final_info"} & set(infos)
    wild = np.zeros((N, 12))
    wild[0] = 6.0
    obs, reward, terminated, truncated, infos = env.step(wild)
    other, *_ = twin.step(np.zeros((N, 12)))
    np.testing.assert_array_equal(obs, other)
    assert (reward[0], terminated[0], truncated[0], infos["reason"][0]) == (0, False, False, "alive")
    assert truncated[1]
    assert all(term[0] == 0 for term in infos["reward_terms"].values())
    assert env.vec.state.age[0] == 0
    assert env.vec.episode.tolist() == [1] + [0] * (N - 1)


def test_the_curriculum_does_not_count_the_step_after_an_end(make: Make) -> None:
    env = make(NEXT, "walk-rough")
    env.reset(seed=1)
    near_the_end(env, 1, apart=0)
    *_, truncated, _ = env.step(np.zeros((N, 12)))
    assert truncated.all()
    levels = env.vec.level.tolist()
    assert sum(levels) > 0
    env.vec.progress[:] = torch.tensor(
        [0.0, 1.0]
    )  # a hair more commanded, and standing still would mean demotion
    env.step(np.zeros((N, 12)))
    assert env.vec.level.tolist() == levels
    assert env.vec.episode.tolist() == [1] * N


def test_without_autoreset_stepping_past_an_end_is_refused(make: Make) -> None:
    env = make(OFF)
    env.reset(seed=3)
    near_the_end(env, 1)
    before, _, _, truncated, _ = env.step(np.zeros((N, 12)))
    with pytest.raises(SurefootError, match="reset_mask"):
        env.step(np.zeros((N, 12)))
    obs, infos = env.reset(options={"reset_mask": truncated})
    np.testing.assert_array_equal(obs[1:], before[1:])
    assert not np.array_equal(obs[0], before[0])
    np.testing.assert_array_equal(infos["_critic_obs"], truncated)
    env.step(np.zeros((N, 12)))


# ---- seeding


@BOTH
def test_a_seed_repeats_everything_whatever_happened_before(make: Make, mode: AutoresetMode) -> None:
    used, fresh = make(mode, "walk-rough", stagger=True), make(mode, "walk-rough", seed=7, stagger=True)
    used.reset()
    for _ in range(15):
        used.step(6 * np.ones((N, 12)))
    obs, infos = used.reset(seed=7)
    here, there = used.vec.snapshot(), fresh.vec.snapshot()
    assert [k for k in there if not torch.equal(here[k], there[k])] == []
    same = env_checker.data_equivalence
    assert same((obs, infos), fresh.reset(), exact=True)
    for _ in range(20):
        lived = used.step(reckless(obs))
        assert same(lived, fresh.step(reckless(obs)), exact=True)
        obs = lived[0]


def test_resetting_without_a_seed_goes_on_to_the_next_episode(make: Make) -> None:
    env, again = make(seed=4), make(seed=9)
    first, second = env.reset()[0], env.reset()[0]
    np.testing.assert_array_equal(first, again.reset(seed=4)[0])
    np.testing.assert_array_equal(second, again.reset()[0])
    assert (first != second).any(1).all()
    assert env.vec.episode.tolist() == [1] * N


def test_another_seed_is_another_world(make: Make) -> None:
    env = make()
    assert (env.reset(seed=1)[0] != env.reset(seed=2)[0]).any(1).all()


def test_a_masked_reset_touches_nothing_else(make: Make) -> None:
    env, twin = make(), make()
    mask = np.arange(N) == 2
    for e in (env, twin):
        e.reset(seed=1)
        e.step(np.zeros((N, 12)))
    reset, _ = env.reset(options={"reset_mask": mask})
    obs, other = env.step(np.zeros((N, 12)))[0], twin.step(np.zeros((N, 12)))[0]
    np.testing.assert_array_equal(obs[~mask], other[~mask])
    assert (obs[mask] != other[mask]).any()
    np.testing.assert_array_equal(reset[mask], twin.reset()[0][mask])  # the episode that comes next anyway


def test_a_reset_leaves_what_was_returned_before_alone(make: Make) -> None:
    vec = make(NEXT).vec
    step = vec.step(torch.zeros(N, 12))
    kept = step.obs.clone(), step.critic.clone()
    vec.reset_rows(torch.ones(N, dtype=torch.bool))
    assert torch.equal(step.obs, kept[0])
    assert torch.equal(step.critic, kept[1])
    assert not torch.equal(vec.obs, step.obs)


def test_consecutive_seeds_of_single_environments_see_every_friction_and_payload() -> None:
    env = SurefootEnv(seed=0)
    bins: set[tuple[int, int]] = set()
    for seed in range(9):
        env.reset(seed=seed)
        p, factor = env.vec.parameters, env.task.contract.factor
        f, m = (
            int(factor(k).bin_of(x.numpy())[0])
            for k, x in (("friction", p.friction), ("payload", p.payload_kg))
        )
        bins.add((f, m))
    env.close()
    assert len(bins) == 9


def test_unseeded_single_environments_differ() -> None:
    a, b = SurefootEnv(), SurefootEnv()
    assert (a.reset()[0] != b.reset()[0]).any()
    a.close()
    b.close()


# ---- Gymnasium's own checks


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_single_environments_pass_the_environment_checker(name: str) -> None:
    env = gymnasium.make(name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env_checker.check_env(env.unwrapped)
    # The action is in units of the contract, not of -1..1, and RescaleAction is there for who wants that.
    assert [w for w in caught if "symmetric and normalized" not in str(w.message)] == []
    env.close()


@BOTH
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_vector_environments_pass_every_check_that_takes_them(name: str, mode: AutoresetMode) -> None:
    """Gymnasium has no checker for vector environments; these parts of that for single ones fit them too."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make_vec(name, num_envs=4, autoreset_mode=mode)
        for space in (env.observation_space, env.single_observation_space):
            passive_env_checker.check_observation_space(space)
            env_checker.check_space_limit(space, "observation")
        for space in (env.action_space, env.single_action_space):
            passive_env_checker.check_action_space(space)
        env_checker.check_seed_deprecation(env)
        env_checker.check_reset_return_info_deprecation(env)
        env_checker.check_reset_return_type(env)
        env_checker.check_reset_seed_determinism(env)
        env_checker.check_reset_options(env)
        passive_env_checker.env_reset_passive_checker(env)
        returned = [env.reset(seed=1)]
        env.action_space.seed(1)
        for _ in range(40):  # until the tallest has fallen
            obs, reward, terminated, truncated, infos = env.step(env.action_space.sample())
            passive_env_checker.check_obs(obs, env.observation_space, "step")
            assert (reward.shape, reward.dtype) == ((4,), np.float32)
            assert terminated.dtype == truncated.dtype == np.bool_
            returned.append((obs, infos))
    for k, one in enumerate(returned):
        assert not any(passive_env_checker.data_shares_objects(one, other) for other in returned[:k])
    assert len([i for _, i in returned if "final_obs" in i]) > 0 or mode is NEXT
    env.close()


@BOTH
def test_infos_are_laid_out_as_by_gymnasiums_own_vectorisation(mode: AutoresetMode) -> None:
    def layout(values: dict[str, Any], inner: bool = False) -> dict[str, Any]:
        """Kinds and shapes. Words are objects to them, and their inner masks say what the outer one says."""
        kept = {k: v for k, v in values.items() if not (inner and k[0] == "_")}
        kind = {"U": "O"}
        leaf = {
            k: (kind.get(v.dtype.kind, v.dtype.kind), v.shape)
            for k, v in kept.items()
            if not isinstance(v, dict)
        }
        return leaf | {k: layout(v, inner=True) for k, v in kept.items() if isinstance(v, dict)}

    name, infos = "surefoot/WalkFlat-v0", []
    ours = gymnasium.make_vec(name, 3, autoreset_mode=mode)
    theirs = gymnasium.make_vec(name, 3, "sync", vector_kwargs={"autoreset_mode": mode})
    for env in (ours, theirs):
        obs, info = env.reset(seed=1)
        done = np.zeros(3, bool)
        infos.append(layout(info))
        while not done.any():
            obs, _, terminated, truncated, info = env.step(reckless(obs))
            done = terminated | truncated
        assert not done.all()  # or theirs would have no reward terms, having reset them all
        infos.append(layout(info))
        env.close()
    assert infos[:2] == infos[2:]
    assert ("final_info" in infos[1]) == (mode is SAME)


# ---- wrappers


@BOTH
def test_episode_statistics_add_up(make: Make, mode: AutoresetMode) -> None:
    env = wrappers.RecordEpisodeStatistics(make(mode))
    obs, _ = env.reset(seed=1)
    total, length, over, seen = np.zeros(N), np.zeros(N, int), np.zeros(N, bool), 0
    for _ in range(40):
        obs, reward, terminated, truncated, infos = env.step(reckless(obs))
        total, length = np.where(over, 0, total + reward), np.where(over, 0, length + 1)
        done = terminated | truncated
        if done.any():
            np.testing.assert_allclose(infos["episode"]["r"][done], total[done], rtol=1e-6)
            np.testing.assert_array_equal(infos["episode"]["l"][done], length[done])
            seen += int(done.sum())
        over = done if mode is NEXT else np.zeros(N, bool)
        total, length = (np.where(done & (mode is SAME), 0, x) for x in (total, length))
    assert env.episode_count == seen > N


@BOTH
def test_infos_turn_into_lists(make: Make, mode: AutoresetMode) -> None:
    env = wrappers.DictInfoToList(wrappers.RecordEpisodeStatistics(make(mode)))
    obs, infos = env.reset(seed=1)
    assert [i["family"] for i in infos] == list(range(N))
    done = np.zeros(N, bool)
    while not done.any():
        obs, _, terminated, truncated, infos = env.step(reckless(obs))
        done = terminated | truncated
    for i, info in enumerate(infos):
        assert set(info["reward_terms"]) == set(env.unwrapped.vec.reward_names)
        assert info["critic_obs"].shape == (env.unwrapped.vec.critic.shape[1],)
        assert ("episode" in info) == done[i]
        assert ("final_obs" in info) == ("final_info" in info) == (done[i] and mode is SAME)
        if "final_info" in info:
            assert info["final_info"]["reason"] == info["reason"] != "alive"


@BOTH
@pytest.mark.parametrize("wrapper", [
    wrappers.NormalizeReward,
    wrappers.ClipAction,
    lambda env: wrappers.ClipReward(env, -1.0, 1.0),
    lambda env: wrappers.RescaleAction(env, np.float32(-1), np.float32(1)),
    lambda env: wrappers.TransformReward(env, lambda r: 2 * r),
])  # fmt: skip
def test_action_and_reward_wrappers_fit(make: Make, mode: AutoresetMode, wrapper: Callable[..., Any]) -> None:
    env = wrapper(make(mode))
    obs, _ = env.reset(seed=1)
    for _ in range(10):
        obs, reward, *_ = env.step(env.action_space.sample())
    assert obs in env.observation_space
    assert np.isfinite(reward).all()
    assert reward.shape == (N,)


OBSERVATION = [
    wrappers.NormalizeObservation,
    wrappers.FlattenObservation,
    lambda env: wrappers.DtypeObservation(env, np.float64),
    lambda env: wrappers.RescaleObservation(env, np.float32(-1), np.float32(1)),
    lambda env: wrappers.TransformObservation(env, lambda x: 0.5 * x),
]


@pytest.mark.parametrize("wrapper", OBSERVATION)
def test_observation_wrappers_fit_next_step(make: Make, wrapper: Callable[..., Any]) -> None:
    inner = make(NEXT)
    env = wrapper(inner)
    env.reset(seed=1)
    for _ in range(10):
        obs, *_ = env.step(env.action_space.sample())
        obs[:] = np.nan if obs.dtype.kind == "f" else 0  # in their place, ours must stay
    assert bool(torch.isfinite(inner.vec.obs).all())
    assert env.reset()[0] in env.observation_space


@pytest.mark.parametrize("wrapper", OBSERVATION)
def test_gymnasium_itself_refuses_observation_wrappers_on_same_step(
    make: Make, wrapper: Callable[..., Any]
) -> None:
    with pytest.raises(ValueError, match="NEXT_STEP"):
        wrapper(make(SAME))


# ---- the rest


@BOTH
def test_reward_terms_add_up_to_the_reward(make: Make, mode: AutoresetMode) -> None:
    """Up to the floor at zero, which only ever adds."""
    env = make(mode, "trot-flat")
    obs, _ = env.reset(seed=1)
    ends = 0
    for _ in range(25):
        obs, reward, terminated, *_, infos = env.step(reckless(obs))
        terms = dict(infos["reward_terms"])
        fall = terms.pop("fall")
        np.testing.assert_allclose(reward, np.maximum(sum(terms.values()), 0) + fall, atol=1e-6)
        np.testing.assert_array_equal(fall < 0, terminated)
        ends += int(terminated.sum())
    assert ends > 0


@pytest.mark.parametrize(("envs", "families"), [(64, 32), (33, 11), (37, 1), (6, 6)])
def test_families_are_as_many_as_divide_the_environments_up_to_32(
    make: Make, envs: int, families: int
) -> None:
    assert make(n=envs).vec.sampler.seeds.families == families


def test_registering_twice_is_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register_envs()
    assert set(ENVIRONMENTS) <= set(gymnasium.registry)
    assert gymnasium.spec("surefoot/WalkFlat-v0").to_json()


def test_a_module_prefix_is_enough_to_find_an_environment() -> None:
    env = gymnasium.make_vec("surefoot.gym:surefoot/TrotFlat-v0", num_envs=2, autoreset_mode="NextStep")
    assert env.unwrapped.task.contract.name == "trot-flat"
    assert env.metadata["autoreset_mode"] is NEXT
    assert env.spec is not None
    assert env.spec.kwargs["vectorization_mode"] == "vector_entry_point"
    again = gymnasium.make_vec(env.spec)
    assert again.num_envs == 2
    for e in (env, again):
        e.close()


@BOTH
def test_closing_twice_is_fine(make: Make, mode: AutoresetMode) -> None:
    env, one = make(mode), SurefootEnv()
    for e in (env, env, one, one):
        e.close()
    assert env.closed


def test_mistakes_say_what_to_do(make: Make) -> None:
    with pytest.raises(SurefootError, match="did you mean 'NextStep'"):
        make("NextSte")
    with pytest.raises(SurefootError, match="did you mean 'walk-flat'"):
        make(task="walk-flt")
    with pytest.raises(SurefootError, match="families"):
        make(families=4)
    with pytest.raises(SurefootError, match="number of environments"):
        make(n=0)
    env = make()
    with pytest.raises(SurefootError, match=r"needs \(6, 12\)"):
        env.step(np.zeros(12))
    with pytest.raises(SurefootError, match="bool array"):
        env.reset(options={"reset_mask": np.zeros(N)})
    with pytest.raises(SurefootError, match="not both"):
        env.reset(seed=1, options={"reset_mask": np.arange(N) == 0})
    with pytest.raises(SurefootError, match="root seed"):
        env.reset(seed=-1)
