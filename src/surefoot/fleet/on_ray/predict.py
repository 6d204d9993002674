"""From what was measured to a fleet: how many actors, what binds, and what would push the limit back."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from surefoot.fleet.on_ray.curves import Curve
from surefoot.fleet.on_ray.measure import Measured

MOST = 100_000
"""More actors are not thought of."""


@dataclass(frozen=True)
class Place:
    """Where a fleet would be, and what it costs there."""

    link_bytes_per_s: float | None = None
    """What the learner's link carries. None: all of it is on this machine, whose cores and memory actors and
    learner share."""
    dollars_per_hour: float | None = None
    """The price of the learner's machine."""
    dollars_per_actor_hour: float | None = None
    """The price of an actor's core; None: it is in the machine's."""


HERE = Place()


@dataclass(frozen=True)
class Predicted:
    """A fleet, and the transitions per second that each part of it allows."""

    actors: int
    envs_per_actor: int
    batch: int
    """Transitions of an update."""
    limits: dict[str, float]
    """By what would bind: actors, learner, network, memory, cores."""
    dollars_per_hour: float | None = None

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

    @property
    def dollars_per_million(self) -> float | None:
        """Dollars for a million transitions that are learned from."""
        return None if self.dollars_per_hour is None else self.dollars_per_hour / 3600 / self.rate * 1e6

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {
            "rate_per_s": self.rate,
            "binds": self.binds,
            "learner_utilisation": self.utilisation,
            "dollars_per_million": self.dollars_per_million,
        }


def predict(m: Measured, envs_per_actor: int, actors: int | None = None, place: Place = HERE) -> Predicted:
    """Predicts a fleet of `actors`; None: the fewest that keep the learner busy, or all that there is room
    for."""
    if actors is not None:
        return _fleet(m, envs_per_actor, actors, place)
    few, many = 1, 1
    while many < MOST and not _enough(_fleet(m, envs_per_actor, many, place)):
        few, many = many, 2 * many
    while few < many:
        middle = (few + many) // 2
        few, many = (few, middle) if _enough(_fleet(m, envs_per_actor, middle, place)) else (middle + 1, many)
    return _fleet(m, envs_per_actor, many, place)


def _enough(fleet: Predicted) -> bool:
    """Whether more actors would give no more."""
    return fleet.limits["actors"] >= min(v for k, v in fleet.limits.items() if k != "actors")


def _fleet(m: Measured, envs: int, actors: int, place: Place) -> Predicted:
    samples = m.horizon * envs
    batch = samples * actors
    beside = min(actors, m.cores) - 1  # machines of actors are taken to be as this one
    slower = 1 + (m.crowd.slower - 1) * beside / max(1, m.crowd.actors - 1)
    works = m.actor_s(envs) * slower
    waits = m.transport(samples * m.bytes_per_transition) / samples + m.read_s
    limits = {"learner": batch / (m.learner(batch) + batch * m.read_s)}
    if place.link_bytes_per_s is not None:
        limits["network"] = place.link_bytes_per_s / (m.bytes_per_transition + m.weights_bytes / samples)
    else:
        limits["cores"] = m.cores / (works + m.learner_core_s / max(m.batches) + m.read_s)
        if m.memory_bytes is not None:
            fit = m.memory_bytes // (m.crowd.actor_bytes + samples * m.bytes_per_transition)
            limits["memory"] = max(1, fit) / (works + waits)
    limits["actors"] = actors / (works + waits)  # last: what is as fast as the actors holds them back
    price = place.dollars_per_hour
    if price is not None:
        price += actors * (place.dollars_per_actor_hour or 0.0)
    return Predicted(actors, envs, batch, limits, price)


def better_codec(
    m: Measured, now: Predicted, actors: int | None = None, place: Place = HERE
) -> tuple[str, Predicted] | None:
    """Returns the lossless codec with which a fleet would be fastest, and that fleet; None where none gives a
    hundredth more than the plain one."""
    found = []
    for cost in m.codecs[1:]:
        packs = cost.pack_s - m.codecs[0].pack_s
        with_it = dataclasses.replace(
            m,
            bytes_per_transition=cost.bytes_per_transition,
            fragment_s=tuple(t + packs * n * m.horizon for n, t in zip(m.sizes, m.fragment_s, strict=True)),
            read_s=cost.read_s,
        )
        found.append((cost.name, predict(with_it, now.envs_per_actor, actors, place)))
    better = [f for f in found if f[1].rate > 1.01 * now.rate]
    return max(better, key=lambda f: f[1].rate, default=None)


def changes(m: Measured, now: Predicted, place: Place = HERE) -> list[tuple[str, Predicted]]:
    """Returns the two changes that would give most, each with the fleet that it would need."""
    envs = now.envs_per_actor
    half = dataclasses.replace(
        m, learner_s=tuple(t / 2 for t in m.learner_s), learner_core_s=m.learner_core_s / 2
    )
    light = dataclasses.replace(
        m, bytes_per_transition=m.bytes_per_transition / 2, weights_bytes=m.weights_bytes // 2
    )
    more = dataclasses.replace(
        m,
        cores=2 * m.cores,
        memory_bytes=None if m.memory_bytes is None else 2 * m.memory_bytes,
        crowd=dataclasses.replace(m.crowd, actors=2 * m.crowd.actors),
    )
    wider = {} if place.link_bytes_per_s is None else {"link_bytes_per_s": 2 * place.link_bytes_per_s}
    tried = {
        f"{4 * envs} environments per actor": (m, 4 * envs, place),
        "an update in half the time": (half, envs, place),
        "twice the cores and memory": (more, envs, place),
        "numbers in fp16 on their way": (light, envs, place),
        "a link twice as wide": (m, envs, dataclasses.replace(place, **wider)),
    }
    if now.binds == "actors":
        tried["as many actors as keep the learner busy"] = (m, envs, place)
    found = [(name, predict(with_it, n, None, there)) for name, (with_it, n, there) in tried.items()]
    better = [f for f in found if f[1].rate > 1.01 * now.rate]
    return sorted(better, key=lambda f: -f[1].rate)[:2]


def shared(m: Measured) -> tuple[str, float, float]:
    """Returns what the environments of an actor share most of: its name, its fixed seconds per step, and all
    that is fixed per step."""
    whole = m.fragment.fixed / m.horizon
    parts = {"the policy": m.policy.fixed, "the environments' step": m.step.fixed}
    parts["what there is once per fragment"] = max(0.0, whole - sum(parts.values()))
    name = max(parts, key=lambda k: parts[k])
    return name, parts[name], sum(parts.values())


def amortised(m: Measured, envs: int) -> list[tuple[str, Curve, float, str]]:
    """Returns for each curve: what it is of, the curve, the share of a call on `envs` that is fixed, and what
    it counts."""
    curves: list[tuple[str, Curve | None, float, str]] = [
        ("a step", m.step, envs, "environments"),
        ("the policy on a CPU core", m.policy, envs, "environments"),
        ("the policy on the GPU", m.gpu_policy, envs, "environments"),
        ("a fragment", m.fragment, envs, "environments"),
        ("transport", m.transport, envs * m.horizon * m.bytes_per_transition, "bytes"),
        ("an update", m.learner, max(m.batches), "transitions"),
    ]
    return [(what, c, c.fixed / c(n) if c(n) else 0.0, of) for what, c, n, of in curves if c is not None]
