"""Local or central inference, measured: the run's own policy in the run's own environments, both ways.

As many actors as the run will have act for about a second with their own policy, and for a second with that
of a service, all at once and in turns, so that both have the machine as it is; environments are made for it
and thrown away. What is compared is steps per second, the median of the turns, or, where there are prices,
steps per dollar: of the actors' cores, and of the share of the learner's machine that the service keeps busy.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor

from surefoot.compute import ONE_CORE, prepare_torch
from surefoot.fleet.on_ray.acting import make_policy, take_weights
from surefoot.fleet.on_ray.actor import Half, Order, halves_of, threads_for
from surefoot.fleet.on_ray.inference import begin_service
from surefoot.fleet.on_ray.placement import Places
from surefoot.fleet.options import Inference
from surefoot.training import make_plan

SECONDS, TURNS = 1.5, 3
"""How long each of the two is tried, in so many turns."""


@dataclass(frozen=True)
class Way:
    """What one way to act gave."""

    steps_per_s: float
    """Environment steps of all actors together."""
    trip_ms_p50: float | None = None
    """Median of the round trips to the service; None where there is none, as what follows."""
    trip_ms_p99: float | None = None
    rows: float | None = None
    """Observations of a batch, on average."""
    deadline_share: float | None = None
    busy_share: float = 0.0
    """Share of its time that the service worked."""

    def steps_per_dollar(self, actors: int, actor_price: float, learner_price: float) -> float:
        """Returns the steps that a dollar buys, of prices per hour."""
        return self.steps_per_s * 3600 / (actors * actor_price + self.busy_share * learner_price)


@dataclass(frozen=True)
class Choice:
    """Where the policy acts, and what was measured for that."""

    inference: Inference
    why: str
    actors: int
    device: str
    """Where the service computes."""
    local: Way
    central: Way

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def choose(local: Way, central: Way, actors: int, device: str, prices: tuple[float, float] | None) -> Choice:
    """Chooses what is faster, or cheaper by `prices`, dollars per hour of an actor's core and of the
    learner's machine. Of two that are as good, local: nobody waits for anybody there."""
    ways: dict[Inference, Way] = {"local": local, "central": central}
    worth = {
        k: w.steps_per_s if prices is None else w.steps_per_dollar(actors, *prices) for k, w in ways.items()
    }
    best: Inference = "central" if worth["central"] > worth["local"] else "local"
    unit = "steps/s" if prices is None else "steps per dollar"
    trip = f", {central.trip_ms_p50:.1f} ms for a round trip" if central.trip_ms_p50 is not None else ""
    cost = "" if prices is None else f"; {local.steps_per_s:,.0f} and {central.steps_per_s:,.0f} steps/s"
    why = (
        f"Inference is {best}: measured with {actors} actors, {worth['local']:,.0f} {unit} where each acts "
        f"for itself, {worth['central']:,.0f} with one service on {device}{trip}{cost}."
    )
    return Choice(best, why, actors, device, local, central)


def measure_inference(
    ray: Any,
    places: Places,
    order: Order,
    parts: Sequence[range],
    weights: Mapping[str, Tensor],
    seconds: float = SECONDS,
) -> tuple[Way, Way]:
    """Measures local and central inference with an actor for each of `parts`."""
    actors = len(parts)
    service = begin_service(ray, places, order.plan, actors)
    begun: list[Any] = [service]
    try:
        ray.get(service.publish.remote(0, dict(weights), {0}))
        there = ray.put(dict(weights))
        for k, part in enumerate(parts):
            remote = ray.remote(Trial).options(max_restarts=0, **places.of_actor(k))
            begun.append(remote.remote(order, part, service, there))
        trials = begun[1:]
        turns: dict[bool, list[_Turn]] = {False: [], True: []}
        for turn in range(1 + TURNS):  # in the first one kernels are loaded
            for central in turns:
                acted = ray.get([t.act.remote(central, seconds / TURNS if turn else 0.0) for t in trials])
                figures = ray.get(service.take_figures.remote())
                if turn:
                    turns[central].append(_Turn(acted, figures))
    finally:
        for handle in begun:
            ray.kill(handle)
    return _way(turns[False]), _way(turns[True])


@dataclass(frozen=True)
class _Turn:
    """What all actors did at once."""

    acted: list[tuple[int, float, list[float]]]
    """For each the steps, the seconds and those of every round trip."""
    figures: Mapping[str, Any]
    """What the service says of it."""

    @property
    def rate(self) -> float:
        return sum(steps / spent for steps, spent, _ in self.acted)

    @property
    def seconds(self) -> float:
        return max(spent for _, spent, _ in self.acted)


def _way(turns: Sequence[_Turn]) -> Way:
    rate = statistics.median(t.rate for t in turns)
    trips = [x for t in turns for _, _, some in t.acted for x in some]
    if not trips:
        return Way(rate)
    p50, p99 = (1e3 * float(np.quantile(trips, q)) for q in (0.5, 0.99))

    def total(name: str) -> float:
        return sum(float(t.figures[f"fleet.inference.{name}"]) for t in turns)

    batches = total("batches")
    rows = sum(t.figures["fleet.inference.batches"] * t.figures["fleet.inference.rows"] for t in turns)
    busy = min(1.0, total("busy_s") / sum(t.seconds for t in turns))
    return Way(rate, p50, p99, rows / batches, total("deadline_misses") / batches, busy)


class Trial:
    """An actor's environments twice, for both ways. Runs as a Ray actor."""

    def __init__(self, order: Order, part: range, service: Any, weights: Mapping[str, Tensor]) -> None:
        os.environ[ONE_CORE] = "1"
        prepare_torch()
        plan = make_plan(**order.plan)
        policy = make_policy(plan)
        take_weights(policy, weights)
        self._horizon = plan.recipe.horizon
        self._ways = {
            who is not None: halves_of(plan, part, 0, policy, who, order.tiled) for who in (None, service)
        }
        self._threads = {central: threads_for(halves) for central, halves in self._ways.items()}

    def act(self, central: bool, seconds: float) -> tuple[int, float, list[float]]:
        """Takes whole rollouts for `seconds`, one at least; returns the steps of all its environments, the
        seconds that they took and those of each round trip."""
        halves, steps, begun = self._ways[central], 0, time.perf_counter()
        while True:
            list(self._threads[central].map(Half.rollout, halves))
            steps += self._horizon * sum(half.env.num_envs for half in halves)
            spent = time.perf_counter() - begun
            if spent >= seconds:
                return steps, spent, [t for half in halves for t in half.policy.take_trips()]
