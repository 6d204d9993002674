"""The simulated fleet obeys the throughput inequality, and what is shared is shared evenly."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from places import BENCHMARKS

sys.path.append(str(BENCHMARKS))
from fleet_protocol import Clock, Fleet, Shared, play

BOOK: dict[str, Any] = {
    "actors": 64, "per_machine": 16, "cores": 16, "fragment": 64, "collect_s": 0.064, "serialise_s": 0.0,
    "fragment_bytes": 48e3, "weights_bytes": 4e5, "link_bytes": 1.25e9, "latency_s": 2e-4, "receive_s": 1e-6,
    "batch": 512, "update_s": 0.008, "send_s": 1e-6,
}  # fmt: skip
"""A batch of 512 every 8 ms is 64,000 samples a second: 64 actors that collect 1,000 each."""


@pytest.mark.parametrize("work", [[1.0, 1.0], [3.0, 1.0, 2.0], [0.5] * 7])
def test_a_core_that_is_shared_gives_what_it_has(work: list[float]) -> None:
    clock, ended = Clock(), dict[int, float]()
    core = Shared(clock, 1)
    for k, seconds in enumerate(work):
        core.work(seconds, lambda k=k: ended.update({k: clock.now}))  # type: ignore[misc]
    clock.run(100)
    assert max(ended.values()) == pytest.approx(sum(work)), "no second is lost, none is made"
    assert core.worked == pytest.approx(sum(work))
    shortest = min(range(len(work)), key=lambda k: work[k])
    assert ended[shortest] == pytest.approx(work[shortest] * len(work)), "all go at one speed"


@pytest.mark.parametrize(("actors", "busy"), [(16, 0.25), (32, 0.5), (48, 0.75)])
def test_too_few_actors_leave_the_learner_waiting(actors: int, busy: float) -> None:
    made = play(Fleet(**BOOK | {"actors": actors}), 8)
    assert made.busy == pytest.approx(busy, rel=0.02)
    assert made.samples_per_s == pytest.approx(1000 * actors, rel=0.02)


def test_more_than_enough_actors_make_data_older_and_nothing_faster() -> None:
    enough, twice = (play(Fleet(**BOOK | {"actors": m}), 8) for m in (72, 144))
    assert twice.samples_per_s == pytest.approx(enough.samples_per_s, rel=0.02)
    assert twice.busy > 0.95
    assert twice.lag_mean > 1.5 * enough.lag_mean
    assert twice.lag_most <= 2 * 144 / 8 + 2, "back-pressure holds it: two fragments an actor"


@settings(max_examples=20, deadline=None)
@given(
    actors=st.integers(1, 40),
    cores=st.integers(1, 16),
    update_ms=st.floats(1, 50),
    receive_ms=st.floats(0.01, 3),
    megabytes=st.floats(0.01, 8),
)
def test_no_fleet_is_faster_than_its_narrowest_place(
    actors: int, cores: int, update_ms: float, receive_ms: float, megabytes: float
) -> None:
    changes = {"actors": actors, "cores": cores, "update_s": update_ms / 1e3, "receive_s": receive_ms / 1e3}
    fleet = replace(Fleet(**BOOK), **changes, fragment_bytes=megabytes * 1e6, jitter=0.0)
    machines = -(-actors // 16)
    full, rest = divmod(actors, 16)
    working = full * min(16, cores) + min(rest, cores)
    bounds = (
        working * 64 / 0.064,
        512 / (fleet.update_s + 8 * fleet.receive_s + machines * fleet.send_s),
        64 * 1.25e9 / fleet.fragment_bytes,
    )
    made = play(fleet, 8)
    assert made.samples_per_s <= 1.06 * min(bounds) + 512 / 4
    assert made.busy + made.receiving + made.waiting == pytest.approx(1, abs=0.05)
