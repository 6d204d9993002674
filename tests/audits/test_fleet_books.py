"""The books of a fleet, held to its files: silent where they balance, each fault named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from surefoot.audits.case import Case
from surefoot.audits.detector import NotApplicable
from surefoot.audits.fleet_books import look, look_at_supply
from surefoot.fleet.books import TRAINED, Books, Diary
from surefoot.fleet.fragment import Key


@pytest.fixture
def run(tmp_path: Path) -> dict[str, Any]:
    """Three updates of two actors, kept by the fleet's own books and diaries."""
    books, rows, used = Books(), [], []
    for update in range(1, 4):
        for actor in (0, 1):
            key, digest = Key(actor, 0, update), bytes([10 * update + actor] * 32)
            Diary(tmp_path / "fleet", actor, 0).write(key, digest)
            books.issue(key, update - 1)
            books.end(key, TRAINED)
            used.append({**key._asdict(), "update": update, "digest": digest.hex()})
        rows.append({"update": update, **books.row(), "fleet.lag.max": 1.0, "family.samples": [64, 64]})
    return {"path": tmp_path, "rows": rows, "used": used}


def case(run: dict[str, Any], collection: str = "asynchronous, at most 1 versions old") -> Case:
    lines = "".join(json.dumps(u) + "\n" for u in run["used"])
    (run["path"] / "fleet" / "trained.jsonl").write_text(lines)
    folder, record = SimpleNamespace(path=run["path"]), SimpleNamespace(collection=collection)
    return cast(Case, SimpleNamespace(run=folder, record=record, ledger=run["rows"]))


def test_books_that_balance_are_silent(run: dict[str, Any]) -> None:
    assert look(case(run)) == []
    assert look_at_supply(case(run | {"rows": run["rows"] * 20})) == []


def change(edit: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], None]:
    def changed(run: dict[str, Any]) -> None:
        edit(run)

    return changed


@pytest.mark.parametrize(
    ("edit", "says", "cause"),
    [
        (change(lambda r: r["rows"][1].update({"fleet.open": 1})), "not all trained, dropped", ""),
        (change(lambda r: r["used"].pop()), "the fleet's list has 5", ""),
        (change(lambda r: r["used"][0].update(r["used"][2] | {"update": 1})), "more than once", "batch"),
        (change(lambda r: r["used"][3].update(digest="00" * 32)), "1 of 6 fragments", "batch"),
        (change(lambda r: r["used"][3].update(incarnation=1)), "1 of 6 fragments", "batch"),
        (
            change(lambda r: r["rows"][2].update({"fleet.lag.max": 2.0})),
            "older than the 1 versions",
            "learning",
        ),
    ],
)
def test_each_fault_is_named(
    run: dict[str, Any], edit: Callable[[dict[str, Any]], None], says: str, cause: str
) -> None:
    edit(run)
    found = look(case(run))
    assert [f for f in found if says in f.statement and f.cause == cause]


def test_a_lag_where_updates_wait_is_found(run: dict[str, Any]) -> None:
    assert "older than the 0 versions" in look(case(run, ""))[0].statement


def test_families_that_gave_less_are_a_remark(run: dict[str, Any]) -> None:
    run["rows"] = [r | {"family.samples": [96, 32]} for r in run["rows"]] * 20
    assert "gave 5,760 samples and another 1,920 samples" in look_at_supply(case(run))[0].statement


def test_uneven_parts_are_told_as_a_cause(run: dict[str, Any]) -> None:
    columns = {"family.samples": [128, 0], "fleet.actor.by_part": [4, 5, 5]}
    run["rows"] = [*(r | columns for r in run["rows"] * 19), *run["rows"]]
    (found,) = look_at_supply(case(run))
    assert "(in 57 of 60 updates some had more parts than others)" in found.statement
    run["rows"] = [r | {"fleet.actor.by_part": [4, 5]} for r in run["rows"]]
    assert "more parts" not in look_at_supply(case(run))[0].statement


def test_runs_without_a_fleet_are_not_asked(run: dict[str, Any]) -> None:
    run["rows"] = [{"update": 1}]
    with pytest.raises(NotApplicable, match="no fleet"):
        look(case(run))
