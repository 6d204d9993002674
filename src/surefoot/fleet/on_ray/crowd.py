"""What of a fleet can only be timed with its processes there: transport, and actors beside each other.

A process alone on a machine is faster than one among many: clocks are lower then, and memory is shared.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.fleet.fragment import Key, unpack
from surefoot.fleet.on_ray.actor import FleetActor, Order
from surefoot.fleet.on_ray.cluster import Cluster

MESSAGES = (1 << 10, 1 << 14, 1 << 18, 1 << 22)
"""Bytes of the messages that transport is timed with."""
TRIPS = 100


class TimedActor(FleetActor):
    """An actor that can be asked for bytes, and how much memory it takes."""

    def give(self, size: int) -> np.ndarray[Any, Any]:
        """Returns `size` bytes."""
        return np.zeros(size, np.uint8)

    def memory(self) -> int:
        """Returns the most bytes of memory that this process has had."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@dataclass(frozen=True)
class Crowd:
    """Actors timed one by one and all at once."""

    actors: int
    message_bytes: tuple[int, ...]
    message_s: tuple[float, ...]
    """From the asking for so many bytes to having them."""
    trip_p50_s: float
    """The median of calls that bring nothing."""
    trip_p99_s: float
    alone_s: float
    """In an actor, for a fragment, while the others wait."""
    together_s: float
    """While all of them work."""
    spread: float
    """The largest of the actors' times alone over the smallest."""
    actor_bytes: int
    """Memory of an actor."""

    @property
    def slower(self) -> float:
        """How many times as long a fragment takes where all actors work."""
        return max(1.0, self.together_s / self.alone_s)


def time_crowd(
    cluster: Cluster, order: Order, parts: Sequence[range], weights: Any, repeats: int = 3
) -> Crowd:
    """Times actors of the environments `parts`."""
    ray = cluster.ray
    kind = ray.remote(TimedActor).options(num_cpus=1, max_restarts=0, max_task_retries=0)
    actors = [kind.remote(order, part, k, 0, 0) for k, part in enumerate(parts)]
    try:
        schema = ray.get([a.describe.remote() for a in actors])[0].schema
        there = ray.put(dict(weights))
        sequence = 0

        def collect(some: Sequence[int]) -> list[float]:
            """Lets some actors make a fragment each; returns the seconds that they were at it."""
            nonlocal sequence
            sequence += 1
            made = ray.get([actors[k].collect.remote(Key(k, 0, sequence), 0, there) for k in some])
            clocks = [unpack(schema, order.run, b).extras["clock"] for b in made]
            return [float(end - begun) for begun, end in clocks]

        everyone = range(len(actors))
        collect(everyone)  # what is loaded at the first step is
        some = list(everyone)[: min(4, len(actors))]
        alone = [statistics.median(collect([k])[0] for _ in range(repeats)) for k in some]
        together = [statistics.median(collect(everyone)) for _ in range(repeats)]
        timed = []
        for size in (0, *MESSAGES):
            trips = []
            for _ in range(TRIPS if size == 0 else 10):
                begun = time.perf_counter()
                ray.get(actors[0].give.remote(size))
                trips.append(time.perf_counter() - begun)
            timed.append(trips)
        return Crowd(
            actors=len(actors),
            message_bytes=MESSAGES,
            message_s=tuple(statistics.median(t) for t in timed[1:]),
            trip_p50_s=float(np.quantile(timed[0], 0.5)),
            trip_p99_s=float(np.quantile(timed[0], 0.99)),
            alone_s=statistics.median(alone),
            together_s=statistics.median(together),
            spread=max(alone) / min(alone),
            actor_bytes=max(ray.get([a.memory.remote() for a in actors])),
        )
    finally:
        for a in actors:
            ray.kill(a)
