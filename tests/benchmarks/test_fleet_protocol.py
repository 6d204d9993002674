"""The simulated fleet obeys the throughput inequality, and what is shared is shared evenly."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from places import BENCHMARKS

sys.path.append(str(BENCHMARKS))
from fleet_protocol import Clock, Fleet, Shared, play


def book(actors: int, **changes: Any) -> Fleet:
    """A learner that takes 64,000 transitions a second, whose actors make 1,000 each: 64 keep it busy."""
    made: dict[str, Any] = {
        "actors": actors, "per_machine": 16, "cores": 16, "fragment": 64, "collect_s": 0.064,
        "fragment_bytes": 48e3, "weights_bytes": 4e5, "link_bytes": 12.5e9, "trip_s": 1e-4, "receive_s": 1e-6,
        "watch_s": 0.0, "update_s": actors * 64 / 64_000, "publish_s": 1e-5,
    }  # fmt: skip
    return Fleet(**made | changes)


@pytest.mark.parametrize("work", [[1.0, 1.0], [3.0, 1.0, 2.0], [0.5] * 7])
def test_a_core_that_is_shared_gives_what_it_has(work: list[float]) -> None:
    clock, ended = Clock(), dict[int, float]()
    core = Shared(clock, 1)
    for k, seconds in enumerate(work):
        core.work(seconds, lambda k=k: ended.update({k: clock.now}))  # type: ignore[misc]
    clock.run(lambda: len(ended) == len(work))
    assert max(ended.values()) == pytest.approx(sum(work)), "no second is lost, none is made"
    assert core.worked == pytest.approx(sum(work))
    shortest = min(range(len(work)), key=lambda k: work[k])
    assert ended[shortest] == pytest.approx(work[shortest] * len(work)), "all go at one speed"


@pytest.mark.parametrize(("actors", "busy"), [(8, 0.125), (16, 0.25), (32, 0.5), (48, 0.75)])
def test_too_few_actors_leave_the_learner_waiting(actors: int, busy: float) -> None:
    made = play(book(actors))
    assert made.busy == pytest.approx(busy, rel=0.03)
    assert made.samples_per_s == pytest.approx(1000 * actors, rel=0.03)
    assert made.busy + made.waiting == pytest.approx(1, abs=0.01)


def test_more_than_enough_actors_make_nothing_faster_and_nothing_older_than_allowed() -> None:
    for actors in (80, 160):
        made = play(book(actors))
        assert made.samples_per_s == pytest.approx(64_000, rel=0.02)
        assert made.busy > 0.98
        assert made.lag_most == 1, "back-pressure: nothing waits that would be too old"
        assert made.dropped < 0.02


def test_one_owner_for_thousands_is_what_binds() -> None:
    """A crew that takes 1 ms for a fragment takes 1,000 of them a second, whatever the actors could give."""
    made = play(book(200, receive_s=1e-3, update_s=0.01))
    assert made.samples_per_s == pytest.approx(64_000, rel=0.03)
    assert made.crew > 0.97
    watching = play(book(200, receive_s=1e-3, watch_s=1e-5, update_s=0.01))
    assert watching.samples_per_s < 0.6 * made.samples_per_s, "and fewer if it looks at every open ticket"


@settings(max_examples=15, deadline=None)
@given(
    actors=st.integers(1, 40),
    cores=st.integers(1, 16),
    update_ms=st.floats(1, 50),
    receive_ms=st.floats(0.01, 3),
    megabytes=st.floats(0.01, 8),
    lag=st.integers(0, 3),
)
def test_no_fleet_is_faster_than_its_narrowest_place(
    actors: int, cores: int, update_ms: float, receive_ms: float, megabytes: float, lag: int
) -> None:
    fleet = book(
        actors, cores=cores, update_s=update_ms / 1e3, receive_s=receive_ms / 1e3, lag=lag, jitter=0.0,
        fragment_bytes=megabytes * 1e6,
    )  # fmt: skip
    full, rest = divmod(actors, 16)
    working = full * min(16, cores) + min(rest, cores)
    bounds = (
        working * 64 / 0.064,
        actors * 64 / (fleet.update_s + fleet.publish_s),
        64 / fleet.receive_s,
        64 * 12.5e9 / fleet.fragment_bytes,
    )
    made = play(fleet, 20)
    assert made.samples_per_s <= 1.25 * min(bounds), "at most what was ahead when the count began is more"
    assert made.lag_most <= lag
