"""What a task's fleet would give here, measured before it is begun: `surefoot size TASK`.

Environments and policy are timed over several sizes, and t(B) = a + c B fitted to each: a is what every call
costs whatever its size, and more environments share it. A learner's update, a fragment's packing and its
reading are timed on the recipe's own block. All of it in this process, on one core, as an actor would.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from surefoot.compute import ONE_CORE, cores, prepare_torch
from surefoot.fleet.codec_costs import CodecCost, costs, lossless
from surefoot.fleet.fragment import Key, pack, unpack
from surefoot.fleet.on_ray.acting import weights_of
from surefoot.fleet.on_ray.actor import FleetActor, order_of
from surefoot.learners import Ppo
from surefoot.rollout import RolloutBlock
from surefoot.training import Plan, collect

SIZES = (1, 4, 16, 64, 256, 1024)
REPEATS = 3
RUN = bytes(16)


@dataclass(frozen=True)
class Curve:
    """Seconds of a call on B environments: `fixed` + `each` B."""

    fixed: float
    each: float

    def __call__(self, size: float) -> float:
        return self.fixed + self.each * size

    @property
    def flat_from(self) -> float:
        """The size from which what is fixed is less than a tenth."""
        return 9 * self.fixed / self.each if self.each else float("inf")


def fit(sizes: Sequence[float], seconds: Sequence[float]) -> Curve:
    """Fits a line by least squares of relative errors, with neither part negative."""
    x, t = np.asarray(sizes, np.float64), np.asarray(seconds, np.float64)
    rows = np.stack([1 / t, x / t], 1)
    fixed, each = np.linalg.lstsq(rows, np.ones(len(t)), rcond=None)[0]
    if fixed < 0:
        return Curve(0.0, float((x / t).sum() / ((x / t) ** 2).sum()))
    if each < 0:
        return Curve(float((1 / t).sum() / ((1 / t) ** 2).sum()), 0.0)
    return Curve(float(fixed), float(each))


@dataclass(frozen=True)
class Measured:
    """What was measured; seconds of one core."""

    sizes: tuple[int, ...]
    step_s: tuple[float, ...]
    """For one step of so many environments."""
    policy_s: tuple[float, ...]
    batch: int
    """Transitions of an update."""
    learner_s: float
    """Wall-clock of an update."""
    learner_core_s: float
    """Processor seconds of an update, of all cores together."""
    pack_s: float
    """For a transition, on the actor's side."""
    read_s: float
    """For a transition, on the learner's side."""
    bytes_per_transition: float
    cores: int
    codecs: tuple[CodecCost, ...] = ()
    """What lossless codecs cost for the fragment that was packed; the first is the plain one."""

    @property
    def step(self) -> Curve:
        return fit(self.sizes, self.step_s)

    @property
    def policy(self) -> Curve:
        return fit(self.sizes, self.policy_s)

    def actor_s(self, envs: int) -> float:
        """Returns the seconds that an actor of `envs` environments spends on a transition."""
        return (self.step(envs) + self.policy(envs)) / envs + self.pack_s


def measure(plan: Plan, folder: Path, sizes: Sequence[int] = SIZES) -> Measured:
    """Times the parts of a fleet of `plan` on this machine; `folder` is for what an actor writes."""
    prepare_torch()
    all_cores = cores()
    there = [n for n in sizes if n <= plan.recipe.envs] or [plan.recipe.envs]
    c, r = plan.task.contract, plan.recipe
    policy = Ppo(c, r, plan.mirror(torch.device("cpu")), plan.seeds, torch.device("cpu"))
    widths = (c.observation_size, c.critic_size, c.action.size, len(c.rewards))
    learner_s, learner_core_s = _update(plan, policy, widths)
    with _on_one_core():
        step_s, policy_s = _steps(plan, policy, there, widths)
        actor = FleetActor(order_of(plan, RUN, folder), range(max(there)), 0, 0, 0)
        schema = actor.describe().schema
        buffer = actor.collect(Key(0, 0, 0), 0, weights_of(policy))
    samples = r.horizon * max(there)
    fragment = unpack(schema, RUN, buffer)

    def again() -> None:
        pack(schema, RUN, Key(0, 0, 1), 0, fragment.arrays, fragment.extras)

    return Measured(
        tuple(there),
        step_s,
        policy_s,
        r.samples_per_update,
        learner_s,
        learner_core_s,
        _timed(again)[0] / samples,
        _timed(lambda: unpack(schema, RUN, buffer))[0] / samples,
        fragment.bytes_per_transition,
        all_cores,
        costs(lossless(), schema, fragment),
    )


@contextmanager
def _on_one_core() -> Iterator[None]:
    """Works as an actor does, on one core."""
    before = os.environ.get(ONE_CORE)
    os.environ[ONE_CORE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[ONE_CORE]
        else:
            os.environ[ONE_CORE] = before


def _steps(
    plan: Plan, policy: Ppo, sizes: Sequence[int], widths: tuple[int, int, int, int]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Times a step of so many environments, and the policy's share of it, apart."""
    horizon = plan.recipe.horizon
    step_s, policy_s = [], []
    for n in sizes:
        env, block = plan.environments(range(n)), RolloutBlock.empty(horizon, n, *widths)

        def rollout(env: Any = env, block: Any = block) -> tuple[float, float]:
            before = env.seconds + env.physics_seconds
            inference, _ = env.rollout(policy, block)
            return env.seconds + env.physics_seconds - before, inference

        with torch.inference_mode():
            rollout()  # kernels are loaded
            times = [rollout() for _ in range(REPEATS)]
        step_s.append(statistics.median(t for t, _ in times) / horizon)
        policy_s.append(statistics.median(t for _, t in times) / horizon)
        env.close()
    return tuple(step_s), tuple(policy_s)


def _update(plan: Plan, policy: Ppo, widths: tuple[int, int, int, int]) -> tuple[float, float]:
    """Times an update on a whole block, collected for it: wall-clock, and seconds of all cores."""
    r = plan.recipe
    env, block = plan.environments(range(r.envs)), RolloutBlock.empty(r.horizon, r.envs, *widths)
    collect(env, policy, block, r.gamma, r.lam)
    env.close()
    policy.update(block)  # buffers are made
    return _timed(lambda: policy.update(block))


def _timed(do: Callable[[], object]) -> tuple[float, float]:
    """Returns the median of a few runs, in seconds of wall-clock and in processor seconds."""
    times = []
    for _ in range(REPEATS):
        begun, worked = time.perf_counter(), time.process_time()
        do()
        times.append((time.perf_counter() - begun, time.process_time() - worked))
    return statistics.median(t for t, _ in times), statistics.median(t for _, t in times)
