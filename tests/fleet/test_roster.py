"""Parts of the environments go to actors evenly, whoever joins or leaves."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.fleet.on_ray.roster import spread


@st.composite
def fleets(draw: st.DrawFn) -> tuple[list[list[int]], list[int]]:
    """Parts in any order, each with any of a few actors or with nobody."""
    actors = draw(st.integers(1, 6))
    having = draw(st.lists(st.integers(-1, actors - 1), min_size=1, max_size=24))
    held = [[part for part, who in enumerate(having) if who == k] for k in range(actors)]
    return held, [part for part, who in enumerate(having) if who == -1]


def moved(held: list[list[int]], to: dict[int, int]) -> list[set[int]]:
    return [
        {*(p for p in h if p not in to), *(p for p, k in to.items() if k == n)} for n, h in enumerate(held)
    ]


@given(fleets())
@settings(max_examples=200, deadline=None)
def test_each_part_has_one_actor_and_none_has_two_more_than_another(
    fleet: tuple[list[list[int]], list[int]],
) -> None:
    held, homeless = fleet
    after = moved(held, spread(held, homeless))
    parts = [p for h in after for p in h]
    assert sorted(parts) == sorted([*homeless, *(p for h in held for p in h)])
    assert max(map(len, after)) - min(map(len, after)) <= 1
    assert spread([sorted(h) for h in after], []) == {}, "what is even stays as it is"


@given(fleets())
@settings(max_examples=200, deadline=None)
def test_no_more_parts_change_hands_than_have_to(fleet: tuple[list[list[int]], list[int]]) -> None:
    held, homeless = fleet
    to = spread(held, homeless)
    share, more = divmod(sum(map(len, held)) + len(homeless), len(held))
    sizes = sorted(map(len, held), reverse=True)
    surplus = sum(max(0, n - share - (k < more)) for k, n in enumerate(sizes))
    assert len(set(to) - set(homeless)) <= surplus


def test_while_others_are_about_to_come_only_idle_actors_are_given_what_nobody_has() -> None:
    assert spread([[0], []], [1, 2], wait=True) == {1: 1}
    assert spread([[0], [3]], [1, 2], wait=True) == {}
    assert spread([[0], [3]], [1, 2]) == {1: 0, 2: 1}
    assert spread([], [1, 2]) == {}
