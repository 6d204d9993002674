"""Local or central inference, measured: the run's own policy in the run's own environments, both ways.

As many actors as the run will have act for about a second with their own policy, and for a second with that
of a service, all at once; environments are made for it and thrown away. What is compared is steps per second,
or, where there are prices, steps per dollar: of the actors' cores, and of the share of the learner's machine
that the service keeps busy.
"""

from __future__ import annotations

import os
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

SECONDS = 1.0
"""How long each of the two is tried."""


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
        published = ray.get(service.publish.remote(0, dict(weights), {0}))
        assert published is None
        there = ray.put(dict(weights))
        for k, part in enumerate(parts):
            remote = ray.remote(Trial).options(max_restarts=0, **places.of_actor(k))
            begun.append(remote.remote(order, part, service, there))
        trials = begun[1:]
        ways = []
        for central in (False, True):
            ray.get([t.act.remote(central, 0.0) for t in trials])  # kernels are loaded
            ray.get(service.take_figures.remote())
            acted = ray.get([t.act.remote(central, seconds) for t in trials])
            figures = ray.get(service.take_figures.remote())
            ways.append(_way(acted, figures))
    finally:
        for handle in begun:
            ray.kill(handle)
    return ways[0], ways[1]


def _way(acted: list[tuple[int, float, list[float]]], figures: Mapping[str, Any]) -> Way:
    rate = sum(steps / spent for steps, spent, _ in acted)
    trips = [t for _, _, some in acted for t in some]
    if not trips:
        return Way(rate)
    p50, p99 = (1e3 * float(np.quantile(trips, q)) for q in (0.5, 0.99))
    longest = max(spent for _, spent, _ in acted)
    f = {k.removeprefix("fleet.inference."): v for k, v in figures.items()}
    return Way(rate, p50, p99, f["rows"], f["deadline_share"], min(1.0, f["busy_s"] / longest))


class Trial:
    """An actor's environments twice, for both ways. Runs as a Ray actor."""

    def __init__(self, order: Order, part: range, service: Any, weights: Mapping[str, Tensor]) -> None:
        os.environ[ONE_CORE] = "1"
        prepare_torch()
        plan = make_plan(**order.plan)
        policy = make_policy(plan)
        take_weights(policy, weights)
        self._horizon = plan.recipe.horizon
        self._ways = {who is not None: halves_of(plan, part, 0, policy, who) for who in (None, service)}
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
