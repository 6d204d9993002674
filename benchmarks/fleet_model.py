"""From the measured parts of a fleet to its simulation."""

from __future__ import annotations

from typing import Any

from fleet_protocol import Fleet
from surefoot.fleet.on_ray import Crowd, Measured


def measured_from(said: dict[str, Any]) -> Measured:
    """Reads what `asdict` wrote."""
    listed = {k: tuple(v) if isinstance(v, list) else v for k, v in said.items()}
    crowd = {k: tuple(v) if isinstance(v, list) else v for k, v in said["crowd"].items()}
    return Measured(**listed | {"crowd": Crowd(**crowd)})


def slower(m: Measured, beside: int) -> float:
    """How many times as long an actor takes for its work with `beside` others on its machine."""
    return 1 + (m.crowd.slower - 1) * min(beside, m.cores - 1) / max(1, m.crowd.actors - 1)


def here(m: Measured, actors: int, envs_per_actor: int) -> Fleet:
    """A fleet on the machine that its parts were measured on; the learner has a core among theirs."""
    samples = m.horizon * envs_per_actor
    batch = samples * actors
    t = m.learner(batch)
    transport = m.transport
    return Fleet(
        actors=actors,
        per_machine=actors,
        cores=m.cores,
        fragment=samples,
        collect_s=m.fragment(envs_per_actor) * slower(m, actors - 1),
        fragment_bytes=samples * m.bytes_per_transition,
        weights_bytes=m.weights_bytes,
        link_bytes=2 / transport.each if transport.each else 1e12,  # a fragment passes two links
        trip_s=transport.fixed,
        receive_s=samples * m.read_s,
        watch_s=0.0,
        update_s=t,
        publish_s=0.0,
        pieces=max(1, round(m.learner_core_s / m.learner(max(m.batches)))),
        shares_cores=True,
    )


def spread(
    m: Measured, actors: int, envs_per_actor: int, *, link_bytes: float, trip_s: float, watch_s: float = 0.0
) -> Fleet:
    """A fleet on machines as this one, all of whose cores have an actor, with the learner on one of its own;
    `watch_s` is the owner's work for each open ticket, every time that it takes a fragment in."""
    samples = m.horizon * envs_per_actor
    return Fleet(
        actors=actors,
        per_machine=m.cores,
        cores=m.cores,
        fragment=samples,
        collect_s=m.fragment(envs_per_actor) * slower(m, m.cores - 1),
        fragment_bytes=samples * m.bytes_per_transition,
        weights_bytes=m.weights_bytes,
        link_bytes=link_bytes,
        trip_s=trip_s,
        receive_s=samples * m.read_s,
        watch_s=watch_s,
        update_s=m.learner(samples * actors),
        publish_s=0.0,
    )
