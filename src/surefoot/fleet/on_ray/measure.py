"""What a task's fleet would give here, measured before it is begun: `surefoot size TASK`.

An actor's fragments are timed over several sizes, with the environments' and the policy's share of them, and
t(B) = a + c B fitted to each: a is what every call costs whatever its size, and more environments share it. A
learner's whole update is timed on fragments that are there already, on the device that learns. All of that in
this process, actors on one core. What needs the other processes (transport, actors beside each other) is
timed on Ray, in crowd.py.
"""

from __future__ import annotations

import dataclasses
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from surefoot.compute import ONE_CORE, SINGLE, cores, memory_bytes, prepare_torch
from surefoot.fleet.codec_costs import CodecCost, costs, lossless
from surefoot.fleet.fragment import Buffer, Fragment, Key, unpack
from surefoot.fleet.on_ray.acting import make_policy, weights_of
from surefoot.fleet.on_ray.actor import FleetActor, Order, order_of
from surefoot.fleet.on_ray.cluster import Cluster
from surefoot.fleet.on_ray.crew import Arrived
from surefoot.fleet.on_ray.crowd import Crowd, time_crowd
from surefoot.fleet.on_ray.curves import Curve, fit
from surefoot.fleet.on_ray.env import FragmentEnv
from surefoot.fleet.on_ray.trainer import correct
from surefoot.fleet.options import check_forgetful
from surefoot.learners import Ppo
from surefoot.rollout import RolloutBlock
from surefoot.training import Plan, block_statistics, collect

SIZES = (1, 4, 16, 64, 256, 1024)
REPEATS = 3
PATIENCE_S = 40.0
"""A size that would take longer than this is left out, and all that are larger."""
RUN = bytes(16)


@dataclass(frozen=True)
class Measured:
    """What was measured; seconds of one core."""

    horizon: int
    """Steps of a fragment."""
    sizes: tuple[int, ...]
    step_s: tuple[float, ...]
    """For one step of so many environments."""
    policy_s: tuple[float, ...]
    fragment_s: tuple[float, ...]
    """For a whole fragment of so many environments: steps, policy, packing and writing down."""
    gpu_policy_s: tuple[float, ...]
    """For one step's actions from the learner's GPU, there and back; empty where the learner has none."""
    batches: tuple[int, ...]
    """Transitions of updates."""
    learner_s: tuple[float, ...]
    """Wall-clock of an update of so many, from fragments to the weights that follow."""
    learner_core_s: float
    """Processor seconds of the largest update, of all cores together."""
    read_s: float
    """For a transition, on the learner's side, to take it in and verify it."""
    bytes_per_transition: float
    weights_bytes: int
    cores: int
    memory_bytes: int | None
    crowd: Crowd
    codecs: tuple[CodecCost, ...] = ()
    """What lossless codecs cost for a fragment; the first is the plain one, which all else is measured
    with."""

    @property
    def step(self) -> Curve:
        return fit(self.sizes, self.step_s)

    @property
    def policy(self) -> Curve:
        return fit(self.sizes, self.policy_s)

    @property
    def gpu_policy(self) -> Curve | None:
        return fit(self.sizes, self.gpu_policy_s) if self.gpu_policy_s else None

    @property
    def fragment(self) -> Curve:
        return fit(self.sizes, self.fragment_s)

    @property
    def transport(self) -> Curve:
        """Seconds from the asking for so many bytes to having them."""
        return fit(self.crowd.message_bytes, self.crowd.message_s)

    @property
    def learner(self) -> Curve:
        """Seconds of an update of so many transitions."""
        return fit(self.batches, self.learner_s)

    def actor_s(self, envs: int) -> float:
        """Returns the seconds that an actor of `envs` environments, with a core to itself and nobody beside
        it, works on a transition."""
        return self.fragment(envs) / (envs * self.horizon)


def measure(plan: Plan, folder: Path, sizes: Sequence[int] = SIZES, repeats: int = REPEATS) -> Measured:
    """Times the parts of a fleet of `plan` on this machine, each as the median of `repeats`; `folder` is for
    what actors write. Starts Ray where it does not run."""
    check_forgetful(plan.recipe)
    prepare_torch()
    all_cores = cores()
    policy = make_policy(plan)
    order = order_of(plan, RUN, folder)
    with _on_one_core():
        timed = _fragments(_roomy(order, plan, max(sizes)), policy, sizes, repeats)
        taken = _whole_block(order, plan, policy, max(4, all_cores))
    batches, learner_s, learner_core_s, read_s = _updates(plan, taken, repeats)
    parts = _parts(plan, all_cores)
    cluster = Cluster(None, len(parts) + 1, 3 * plan.accounting.buffer_bytes)
    try:
        crowd = time_crowd(cluster, order, parts, weights_of(policy), repeats)
    finally:
        cluster.close()
    there = tuple(n for n, _, _, _ in timed)
    return Measured(
        horizon=plan.recipe.horizon,
        sizes=there,
        step_s=tuple(t for _, t, _, _ in timed),
        policy_s=tuple(t for _, _, t, _ in timed),
        fragment_s=tuple(t for _, _, _, t in timed),
        gpu_policy_s=_gpu_policy(plan, there, repeats),
        batches=batches,
        learner_s=learner_s,
        learner_core_s=learner_core_s,
        read_s=read_s,
        bytes_per_transition=statistics.mean(a.fragment.bytes_per_transition for a in taken.fragments),
        weights_bytes=sum(w.nbytes for w in weights_of(policy).values()),
        cores=all_cores,
        memory_bytes=memory_bytes(),
        crowd=crowd,
        codecs=costs(lossless(), taken.actor.describe().schema, taken.fragments[0].fragment),
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


def _roomy(order: Order, plan: Plan, envs: int) -> Order:
    """Returns the order of a plan with at least `envs` environments and all else as it is."""
    r = plan.recipe
    alone = r.families == r.envs  # every environment is a family of its own
    of = math.lcm(1 if alone else r.families, r.minibatches // math.gcd(r.minibatches, r.horizon))
    count = max(r.envs, of * math.ceil(envs / of))
    changed = {"envs": count} | ({"families": count} if alone else {})
    return dataclasses.replace(order, plan=order.plan | {"overrides": order.plan["overrides"] | changed})


def _fragments(
    order: Order, policy: Ppo, sizes: Sequence[int], repeats: int
) -> list[tuple[int, float, float, float]]:
    """Times fragments of so many environments: size, seconds of a step, of its policy, of the fragment."""
    weights, out = weights_of(policy), []
    for n in sizes:
        actor = FleetActor(order, range(n), 0, n, 0)
        schema, steps = actor.describe().schema, policy.recipe.horizon
        times, shares = [], []
        for k in range(repeats + 1):  # in the first kernels are loaded
            begun = time.perf_counter()
            buffer = actor.collect(Key(0, n, k), 0, weights)
            times.append(time.perf_counter() - begun)
            shares.append(unpack(schema, RUN, buffer).extras["seconds"] / steps)
        step, inference = (statistics.median(s[k] for s in shares[1:]) for k in (0, 1))
        out.append((n, float(step), float(inference), statistics.median(times[1:])))
        for half in actor.halves:
            half.env.close()
        if 4 * times[-1] * (repeats + 1) > PATIENCE_S:
            break
    return out


@dataclass(frozen=True)
class _Taken:
    """The fragments of one update, as the learner's side has them."""

    fragments: list[Arrived]
    actor: FleetActor
    buffers: list[Buffer]


def _parts(plan: Plan, most: int) -> list[range]:
    """Splits the environments over at most `most` actors."""
    r = plan.recipe
    count = max(k for k in range(1, most + 1) if r.families % k == 0)
    share = r.envs // count
    return [range(k * share, (k + 1) * share) for k in range(count)]


def _whole_block(order: Order, plan: Plan, policy: Ppo, most: int) -> _Taken:
    """Collects what one update needs, one part after the other."""
    weights, fragments, buffers = weights_of(policy), [], []
    for k, part in enumerate(_parts(plan, most)):
        actor = FleetActor(order, part, k, 0, 0)
        buffer = actor.collect(Key(k, 0, 0), 0, weights)
        fragment: Fragment = unpack(actor.describe().schema, RUN, buffer)
        fragments.append(Arrived(fragment, 0.0, 0.0))
        buffers.append(buffer)
    return _Taken(fragments, actor, buffers)


def _updates(
    plan: Plan, taken: _Taken, repeats: int
) -> tuple[tuple[int, ...], tuple[float, ...], float, float]:
    """Times updates of a quarter, a half and all of the fragments, as the learner of a fleet that does not
    wait makes them; and the reading of a transition."""
    r, c, device = plan.recipe, plan.task.contract, torch.device(plan.device)
    learner = Ppo(c, r, plan.mirror(device), plan.seeds, device)
    described, made = taken.actor.describe(), taken.fragments
    strata = math.prod(c.strata.shape)
    batches, seconds, core_s = [], [], 0.0
    for count in sorted({max(1, len(made) // 4), max(1, len(made) // 2), len(made)}):
        envs = sum(a.fragment.header.envs for a in made[:count])
        if r.horizon * envs % r.minibatches:
            continue
        env = FragmentEnv(plan, described, envs, device, lambda count=count: made[:count])  # type: ignore[misc]
        block = RolloutBlock.empty(
            r.horizon, envs, c.observation_size, c.critic_size, c.action.size, len(c.rewards), device
        )

        def update(env: FragmentEnv = env, block: RolloutBlock = block) -> None:
            collect(env, learner, block, r.gamma, r.lam)
            correct(learner, block)
            block_statistics(block, len(described.reasons), strata, c.action.clip, SINGLE)
            learner.update(block)
            weights_of(learner)  # waits for the device

        update()  # buffers are made, and on CUDA the graph
        took, core_s = _timed(update, repeats)
        batches.append(r.horizon * envs)
        seconds.append(took)
    samples = r.samples_per_update

    def read() -> None:
        for buffer in taken.buffers:
            unpack(described.schema, RUN, buffer)

    return tuple(batches), tuple(seconds), core_s, _timed(read, repeats)[0] / samples


@torch.inference_mode()
def _gpu_policy(plan: Plan, sizes: Sequence[int], repeats: int) -> tuple[float, ...]:
    """Times the policy on the learner's GPU, from observations on the host to actions there."""
    if torch.device(plan.device).type == "cpu":
        return ()
    policy, out = make_policy(plan, plan.device), []
    for n in sizes:
        obs = torch.zeros(n, plan.task.contract.observation_size)

        def act(obs: torch.Tensor = obs) -> None:
            policy.mean(obs.to(plan.device)).cpu()

        for _ in range(10):
            act()
        out.append(_timed(act, 10 * repeats)[0])
    return tuple(out)


def _timed(do: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Returns the median of a few runs, in seconds of wall-clock and in processor seconds."""
    times = []
    for _ in range(repeats):
        begun, worked = time.perf_counter(), time.process_time()
        do()
        times.append((time.perf_counter() - begun, time.process_time() - worked))
    return statistics.median(t for t, _ in times), statistics.median(t for _, t in times)
