"""Back-pressure: what equally fast actors bring is never too old when its turn comes, and none idles that
need not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from surefoot.fleet.tickets import may_issue

EVENTS = st.lists(st.sampled_from(["issue", "arrive", "take", "publish"]), max_size=120)
Rule = Callable[[int, int, int, int, bool], bool]


def lags(events: list[str], actors: int, lag: int, rule: Rule) -> list[int]:
    """Lives through `events`, those that cannot happen left out; returns how many versions each fragment was
    old when an update took it. Actors are equally fast: what was asked for first arrives first."""
    version, learning = 0, False
    opened: list[int] = []
    queue: list[int] = []
    out: list[int] = []
    for event in events:
        if event == "issue":
            if len(opened) < actors and rule(len(opened), len(queue), actors, lag, learning):
                opened.append(version)
        elif event == "arrive" and opened:
            queue.append(opened.pop(0))
        elif event == "take" and not learning and len(queue) >= actors:
            out += [version - v for v in queue[:actors]]
            del queue[:actors]
            learning = True
        elif event == "publish" and learning:
            version, learning = version + 1, False
    return out


@given(EVENTS, st.integers(1, 4), st.integers(0, 3))
@example(["issue", "arrive", "take", "issue", "arrive", "issue", "arrive", "publish", "take"] * 3, 1, 1)
@settings(max_examples=300, deadline=None)
def test_nothing_is_older_than_allowed_when_its_turn_comes(events: list[str], actors: int, lag: int) -> None:
    assert all(old <= lag for old in lags(events, actors, lag, may_issue))


@pytest.mark.parametrize("lag", [0, 1, 2])
def test_the_version_that_is_being_learned_counts(lag: int) -> None:
    """A rule that forgets it asks, while the learner learns, for what is stale when its turn comes."""

    def forgetful(opened: int, queued: int, actors: int, lag: int, learning: bool) -> bool:
        return may_issue(opened, queued, actors, lag, False)

    begun, meanwhile = ["issue", "arrive", "take"], ["issue", "arrive"] * (lag + 1)
    events = [*begun, *meanwhile, "publish", *["take", "publish"] * (lag + 1)]
    assert max(lags(events, 1, lag, may_issue)) == lag
    assert max(lags(events, 1, lag, forgetful)) == lag + 1


@pytest.mark.parametrize("lag", [0, 1, 2])
def test_one_ticket_more_could_be_too_old(lag: int) -> None:
    """No rule allows for more: with one ticket beyond it something may be stale."""

    def one_more(opened: int, queued: int, actors: int, lag: int, learning: bool) -> bool:
        return may_issue(opened - 1, queued, actors, lag, learning)

    worst = ["issue", "arrive"] * (lag + 2) + ["take", "publish"] * (lag + 2)
    assert max(lags(worst, 1, lag, may_issue)) == lag
    assert max(lags(worst, 1, lag, one_more)) == lag + 1


@pytest.mark.parametrize("actors", [1, 3])
@pytest.mark.parametrize("lag", [0, 1, 3])
def test_updates_always_go_on(actors: int, lag: int) -> None:
    """Whoever waits for fragments gets them: tickets are issued while fewer are on their way than an update
    takes. With a lag of one or more, actors work while the learner does."""
    for there in range(actors):
        assert may_issue(there, 0, actors, lag, False)
        assert may_issue(there, 0, actors, lag, True) == (lag > 0)
    steady = (["issue"] * actors + ["arrive"] * actors + ["take"] + ["issue"] * actors + ["publish"]) * 10
    assert len(lags(steady, actors, lag, may_issue)) == 10 * actors
