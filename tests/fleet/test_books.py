"""Every ticket ends once or is open, whatever happens in whatever order; diaries count on their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from surefoot.fleet.books import LOST, TRAINED, WHY_DROPPED, Books, Diary, next_incarnation, read_diaries
from surefoot.fleet.fragment import Key


class Fleet(RuleBasedStateMachine):
    """Issues and ends tickets at random, and counts them apart from the books."""

    def __init__(self) -> None:
        super().__init__()
        self.books, self.next = Books(), 0
        self.open: list[Key] = []
        self.count = {"issued": 0, TRAINED: 0, LOST: 0, "dropped": 0}

    @rule(actor=st.integers(0, 2), incarnation=st.integers(0, 1))
    def issue(self, actor: int, incarnation: int) -> None:
        key = Key(actor, incarnation, self.next)
        self.next += 1
        self.books.issue(key, 0)
        self.open.append(key)
        self.count["issued"] += 1

    @rule(which=st.integers(0, 99), how=st.sampled_from([TRAINED, *WHY_DROPPED]))
    def end(self, which: int, how: str) -> None:
        if self.open:
            self.books.end(self.open.pop(which % len(self.open)), how)
            self.count[how if how == TRAINED else "dropped"] += 1

    @rule(actor=st.integers(0, 2), incarnation=st.integers(0, 1))
    def kill(self, actor: int, incarnation: int) -> None:
        gone = [k for k in self.open if k[:2] == (actor, incarnation)]
        assert sorted(self.books.lose(actor, incarnation)) == sorted(gone)
        self.open = [k for k in self.open if k not in gone]
        self.count[LOST] += len(gone)

    @rule()
    def resume(self) -> None:
        row = self.books.row()
        self.books = Books()
        self.books.resume(row)
        self.count[LOST] += len(self.open)
        self.open = []

    @invariant()
    def balanced(self) -> None:
        row = {k.removeprefix("fleet."): v for k, v in self.books.row().items()}
        assert row["issued"] == row["trained"] + row["dropped"] + row["lost"] + row["open"]
        assert {k: row[k] for k in self.count} == self.count
        assert row["open"] == len(self.open)


TestFleet = Fleet.TestCase
TestFleet.settings = settings(max_examples=40, deadline=None)


def test_a_ticket_ends_once() -> None:
    books, key = Books(), Key(0, 0, 0)
    with pytest.raises(RuntimeError, match="not open"):
        books.end(key, TRAINED)
    books.issue(key, 0)
    with pytest.raises(RuntimeError, match="twice"):
        books.issue(key, 0)
    books.end(key, TRAINED)
    with pytest.raises(RuntimeError, match="not open"):
        books.end(key, LOST)
    with pytest.raises(ValueError, match="cannot end as mislaid"):
        books.end(key, "mislaid")


def test_what_has_arrived_of_an_actor_that_is_gone_is_still_learned_from() -> None:
    books, waits, away = Books(), Key(1, 0, 0), Key(1, 0, 1)
    for key in (waits, away):
        books.issue(key, 0)
    assert books.lose(1, 0, [waits]) == [away]
    books.end(waits, TRAINED)
    assert books.row()["fleet.lost"] == books.row()["fleet.trained"] == 1


def test_diaries_are_read_by_ticket(tmp_path: Path) -> None:
    assert next_incarnation(tmp_path) == 0
    for k in Key(0, 0, 0), Key(0, 0, 1), Key(1, 4, 0):
        Diary(tmp_path, k.actor, k.incarnation).write(k, bytes([k.sequence] * 32))
    said = read_diaries(tmp_path)
    assert said == {k: f"{k.sequence:02x}" * 32 for k in (Key(0, 0, 0), Key(0, 0, 1), Key(1, 4, 0))}
    assert next_incarnation(tmp_path) == 5
    Diary(tmp_path, 0, 0).write(Key(0, 0, 1), b"again")
    with pytest.raises(ValueError, match="twice"):
        read_diaries(tmp_path)
