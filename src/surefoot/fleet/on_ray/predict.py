"""From what was measured to a fleet: how many actors, what binds, and what would push the limit back."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from surefoot.fleet.on_ray.measure import Measured


@dataclass(frozen=True)
class Predicted:
    """A fleet, and the transitions per second that each part of it allows."""

    actors: int
    envs_per_actor: int
    limits: dict[str, float]
    """By what would bind: actors, learner, network, cores."""

    @property
    def rate(self) -> float:
        """Transitions per second that are learned from."""
        return min(self.limits.values())

    @property
    def binds(self) -> str:
        return min(self.limits, key=lambda k: self.limits[k])

    @property
    def utilisation(self) -> float:
        """The share of its time that the learner works."""
        return self.rate / self.limits["learner"]

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {
            "rate_per_s": self.rate,
            "binds": self.binds,
            "learner_utilisation": self.utilisation,
        }


def predict(
    m: Measured, envs_per_actor: int, actors: int | None = None, link_bytes_per_s: float | None = None
) -> Predicted:
    """Predicts a fleet of `actors` (None: the fewest that keep the learner busy), on one machine or on nodes
    that the link joins. Cores are this machine's, which actors and learner share."""
    rate = 1 / m.actor_s(envs_per_actor)
    learner_s = m.learner_s / m.batch + m.read_s
    demand = 1 / learner_s
    count = actors if actors is not None else max(1, math.ceil(demand / rate))
    limits = {"actors": count * rate, "learner": demand}
    if link_bytes_per_s is None:
        limits["cores"] = m.cores / (m.actor_s(envs_per_actor) + m.learner_core_s / m.batch + m.read_s)
    else:
        limits["network"] = link_bytes_per_s / m.bytes_per_transition
    return Predicted(count, envs_per_actor, limits)


def better_codec(
    m: Measured, now: Predicted, actors: int | None = None, link_bytes_per_s: float | None = None
) -> tuple[str, Predicted] | None:
    """Returns the lossless codec with which a fleet would be fastest on this link, and that fleet; None where
    none gives a hundredth more than the plain one."""
    found = []
    for cost in m.codecs[1:]:
        with_it = dataclasses.replace(
            m,
            bytes_per_transition=cost.bytes_per_transition,
            pack_s=cost.pack_s,
            read_s=cost.read_s,
        )
        found.append((cost.name, predict(with_it, now.envs_per_actor, actors, link_bytes_per_s)))
    better = [f for f in found if f[1].rate > 1.01 * now.rate]
    return max(better, key=lambda f: f[1].rate, default=None)


def changes(
    m: Measured, now: Predicted, link_bytes_per_s: float | None = None
) -> list[tuple[str, Predicted]]:
    """Returns the two changes that would give most, each with the fleet that it would need."""
    envs = now.envs_per_actor
    tried = {
        f"{4 * envs} environments per actor": (m, 4 * envs),
        "an update in half the time": (
            dataclasses.replace(m, learner_s=m.learner_s / 2, learner_core_s=m.learner_core_s / 2),
            envs,
        ),
        "twice the cores": (dataclasses.replace(m, cores=2 * m.cores), envs),
        "observations in fp16": (
            dataclasses.replace(m, bytes_per_transition=m.bytes_per_transition / 2),
            envs,
        ),
    }
    found = [(name, predict(with_it, n, None, link_bytes_per_s)) for name, (with_it, n) in tried.items()]
    better = [f for f in found if f[1].rate > 1.01 * now.rate]
    return sorted(better, key=lambda f: -f[1].rate)[:2]
