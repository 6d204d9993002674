"""Every training environment keeps what `TrainingEnv` promises, and the checks would see it if not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import gymnasium
import pytest
import torch
from torch import Tensor

import tiny
from surefoot.contract import SeedPlan
from surefoot.env import EpisodeStats, Finals, Step, TrainingEnv, TrainSampler, VecEnv
from surefoot.env.compiled import CompiledEnv
from surefoot.env.conformance import CHECKS, ENVS, Check, check
from surefoot.env.conformance.episodes import (
    check_episodes_add_up,
    check_first_episodes_end_apart,
    check_resets_are_counted_by_stratum,
    check_scenarios_differ,
)
from surefoot.env.conformance.sameness import (
    check_a_part_is_that_of_the_whole,
    check_same_seeds_give_the_same_bits,
    check_snapshot_and_restore_are_exact,
)
from surefoot.env.conformance.steps import (
    check_a_step_says_what_was_before_the_reset,
    check_ages_count_steps,
    check_an_end_is_of_one_kind,
    check_final_observations_are_the_true_ones,
    check_rollouts_are_steps,
    check_shapes_and_kinds,
)
from surefoot.env.external import ExternalEnv, external_task
from surefoot.rollout import RolloutBlock
from surefoot.tasks import Task, task
from surefoot.terrain import Atlas

SEEDS = SeedPlan(root=3, families=4, envs=ENVS)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def short(of: Task, seconds: float = 1.6) -> Task:
    return replace(of, contract=of.contract.model_copy(update={"episode_s": seconds}))


WALK = short(tiny.walk())


def vec_env(
    part: range, kind: type[VecEnv] = VecEnv, of: Task = WALK, engine: str = "mujoco", **options: Any
) -> VecEnv:
    atlas = Atlas.build(of.tiles) if of.tiles else None
    sampler = TrainSampler(of.contract, of.robot, SEEDS, 50.0, atlas, torch.device("cpu"), part)
    return kind(of, sampler, of.on(engine).plant, engine=engine, atlas=atlas, **options)


def compiled(part: range) -> TrainingEnv:
    return CompiledEnv(vec_env(part, of=task("walk-flat"), engine="stride"))


def external(part: range) -> TrainingEnv:
    limited = "surefoot-test/Pendulum-v1"
    if limited not in gymnasium.registry:
        entry = gymnasium.spec("Pendulum-v1").entry_point
        gymnasium.register(limited, entry_point=entry, max_episode_steps=60)
    return ExternalEnv(external_task(f"gym:{limited}"), SEEDS, part, "cpu")


@pytest.mark.parametrize("one", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("make", [vec_env, compiled], ids=lambda m: m.__name__)
def test_environments_keep_their_promises(make: Callable[[range], TrainingEnv], one: Check) -> None:
    one(make)


def test_an_external_environment_keeps_them_in_one_call() -> None:
    check(external)


@pytest.mark.slow
def test_environments_on_terrain_keep_their_promises() -> None:
    check(lambda part: vec_env(part, of=short(task("walk-rough"))))


# ---- planted faults


class FinalIsNext(VecEnv):
    """Says of an end what the next episode shows: what bootstrapping must not be done from."""

    def step(self, action: Tensor) -> Step:
        return replace(super().step(action), final_critic=self.critic)


class FinalIsBefore(VecEnv):
    """Says of an end what was seen before it."""

    def step(self, action: Tensor) -> Step:
        before = self.critic
        return replace(super().step(action), final_critic=before)


class TimeoutsTerminate(VecEnv):
    def step(self, action: Tensor) -> Step:
        step = super().step(action)
        return replace(step, terminated=step.terminated | step.truncated)


class NoReason(VecEnv):
    def step(self, action: Tensor) -> Step:
        step = super().step(action)
        return replace(step, reason=torch.zeros_like(step.reason))


class DoubleObservations(VecEnv):
    def step(self, action: Tensor) -> Step:
        step = super().step(action)
        self.obs = self.obs.double()
        return step


class Unwritten(VecEnv):
    """Leaves the last reward as the block had it."""

    def rollout(self, actor: Any, block: RolloutBlock) -> tuple[float, Finals]:
        result = super().rollout(actor, block)
        block.reward[-1] = torch.nan
        return result


class SharedAge(VecEnv):
    def age(self) -> Tensor:
        return self.state.age


class LateObservations(VecEnv):
    """Rollouts write down what was seen a step ago."""

    def rollout(self, actor: Any, block: RolloutBlock) -> tuple[float, Finals]:
        result = super().rollout(actor, block)
        block.obs[1:] = block.obs[:-1].clone()
        return result


class ForgottenEnd(VecEnv):
    def episode_stats(self, host: Mapping[str, Tensor]) -> EpisodeStats:
        stats = super().episode_stats(host)
        return replace(stats, ended=stats.ended[1:])


class WrongStratum(VecEnv):
    def episode_stats(self, host: Mapping[str, Tensor]) -> EpisodeStats:
        stats = super().episode_stats(host)
        return replace(stats, resets=stats.resets[::-1].copy())


class DoubledReturns(VecEnv):
    def episode_stats(self, host: Mapping[str, Tensor]) -> EpisodeStats:
        stats = super().episode_stats(host)
        for columns in stats.ended:
            for name in columns:
                if name.startswith("return"):
                    columns[name] = 2 * columns[name]
        return stats


class ForgetfulRestore(VecEnv):
    """Restores everything but what episodes have collected so far."""

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        returns = self.returns
        super().restore(snapshot)
        self.returns = returns


class SharedSnapshot(VecEnv):
    def snapshot(self) -> dict[str, Tensor]:
        return super().snapshot() | {"episode": self.episode}


class Unrepeatable(VecEnv):
    made = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        type(self).made += 1
        self.obs = self.obs + 1e-6 * self.made


def together(part: range) -> TrainingEnv:
    return vec_env(part, stagger=False)


def numbered_from_zero(part: range) -> TrainingEnv:
    return vec_env(range(len(part)))


def copies(part: range) -> TrainingEnv:
    env = vec_env(part)
    env.script.put(torch.tensor([1]), env.script.take(torch.tensor([0])))
    env.parameters.put(torch.tensor([1]), env.parameters.take(torch.tensor([0])))
    return env


FAULTS: dict[Any, Check] = {
    FinalIsNext: check_final_observations_are_the_true_ones,
    FinalIsBefore: check_a_step_says_what_was_before_the_reset,
    TimeoutsTerminate: check_an_end_is_of_one_kind,
    NoReason: check_an_end_is_of_one_kind,
    DoubleObservations: check_shapes_and_kinds,
    Unwritten: check_shapes_and_kinds,
    SharedAge: check_ages_count_steps,
    LateObservations: check_rollouts_are_steps,
    ForgottenEnd: check_episodes_add_up,
    DoubledReturns: check_episodes_add_up,
    WrongStratum: check_resets_are_counted_by_stratum,
    ForgetfulRestore: check_snapshot_and_restore_are_exact,
    SharedSnapshot: check_snapshot_and_restore_are_exact,
    Unrepeatable: check_same_seeds_give_the_same_bits,
    together: check_first_episodes_end_apart,
    numbered_from_zero: check_a_part_is_that_of_the_whole,
    copies: check_scenarios_differ,
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_a_planted_fault_is_caught(fault: Any) -> None:
    make = (lambda part: vec_env(part, fault)) if isinstance(fault, type) else fault
    with pytest.raises(AssertionError):
        FAULTS[fault](make)
