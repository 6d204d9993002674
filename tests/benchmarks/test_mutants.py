"""Claims about the planted bugs: each still fits the source, is a bug that parses, and has its cause written
down; a third is held back; the kill matrix counts as caught only what was audited and found."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from places import BENCHMARKS, SOURCE

sys.path.append(str(BENCHMARKS / "mutants"))
from corpus import CLASSES, SIZES, Bug, Edit, corpus, plant, to_hold_back
from matrix import by_bug, by_class, matrix

BUGS = corpus()
ROOMS = ("keyed", "contract", "statistics", "engines", "tasks", "rollout", "env", "policy", "learners")
SIZED = [(name, size) for name, bug in BUGS.items() for size in bug.sizes]


@pytest.mark.parametrize(("name", "size"), SIZED)
def test_bug_applies_exactly_once_and_parses(name: str, size: str) -> None:
    for path, text in BUGS[name].edited(size, SOURCE).items():
        assert "@SIZE@" not in text
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(path.read_text())), "it changes what is run"


def test_sizes_of_a_bug_differ() -> None:
    for bug in BUGS.values():
        assert set(bug.sizes) in ({"full"}, set(SIZES)), bug.name
        assert len(set(bug.sizes.values())) == len(bug.sizes), bug.name
        uses = any("@SIZE@" in e.new for e in bug.edits)
        assert uses == (len(bug.sizes) > 1), f"{bug.name} has sizes that its text does not use"


def test_every_bug_has_a_cause_and_says_what_it_does() -> None:
    for bug in BUGS.values():
        assert bug.cause in CLASSES, bug.name
        assert set(bug.also) <= set(CLASSES) - {bug.cause}, bug.name
        assert bug.what.endswith("."), bug.name
        assert bug.path, bug.name
        assert all((SOURCE / "surefoot" / e.file).is_file() for e in bug.edits), bug.name
        assert bug.edits[0].file.split("/")[0] == bug.room, bug.name


def test_there_are_enough_of_every_class_and_in_every_room() -> None:
    assert len(BUGS) >= 40
    causes = Counter(bug.cause for bug in BUGS.values())
    assert causes.keys() == CLASSES.keys()
    assert min(causes.values()) >= 3
    assert {*ROOMS, "evaluation", "training"} <= {bug.room for bug in BUGS.values()}


def test_a_third_is_held_back_by_a_digest_of_the_name() -> None:
    assert [b.name for b in BUGS.values() if b.held_back != to_hold_back(b.name)] == []
    share = sum(b.held_back for b in BUGS.values()) / len(BUGS)
    assert 0.28 <= share <= 0.39


def test_an_edit_that_no_longer_fits_is_refused() -> None:
    for text in ("b", "a a"):
        with pytest.raises(ValueError, match="not once"):
            Edit("x.py", "a", "c").applied(text)


def test_a_bug_is_planted_in_a_copy(tmp_path: Path) -> None:
    bug = BUGS["gamma-wrong"]
    before = (SOURCE / "surefoot" / bug.edits[0].file).read_text()
    root = plant(bug, "weakest", tmp_path / "src")
    assert (root / "surefoot" / bug.edits[0].file).read_text() == bug.edits_at("weakest")[0].applied(before)
    assert (SOURCE / "surefoot" / bug.edits[0].file).read_text() == before
    changed = [p for p in root.rglob("*.py") if p.read_text() != (SOURCE / p.relative_to(root)).read_text()]
    assert len(changed) == 1


def result(bug: Bug | None, *, findings: Any = (), code: int = 0, audited: bool = True) -> dict[str, Any]:
    """Returns what run.py leaves of a run, as read from its JSON."""
    report: dict[str, Any] = {"exit": code, "error": "no"}
    if not code:
        left = {"ledger": "a", "policy": bug.name if bug else "a"}
        report = {"exit": 0, "verdict": "Reliable", "success": 1.0, "left": left}
    audit = {"exit": 0, "findings": list(findings)} if audited else {"exit": 2, "error": "no audit"}
    return {
        "length": "small",
        "bug": bug.name if bug else None,
        "size": "full",
        "seed": 1,
        "task": "trot-flat",
        "what": bug.what if bug else None,
        "room": bug.room if bug else None,
        "cause": bug.cause if bug else None,
        "also": list(bug.also) if bug else [],
        "held_back": bool(bug and bug.held_back),
        "trained": report,
        "audit": None if code else audit,
        "verdict_after": None if code else "Unproven" if findings else "Reliable",
    }


def finding(cause: str, kind: str = "proof") -> dict[str, str]:
    return {"detector": "replays", "kind": kind, "cause": cause, "statement": "It differs."}


def test_matrix_counts_as_caught_only_what_was_audited_and_found() -> None:
    caught, named, missed, silent, broke = list(BUGS.values())[:5]
    elsewhere = next(c for c in CLASSES if c != caught.cause and c not in caught.also)
    made = matrix(
        [
            result(caught, findings=[finding(elsewhere, "behaviour")]),
            result(named, findings=[finding(named.cause)]),
            result(missed),
            result(silent, audited=False),
            result(broke, code=1),
            result(None, findings=[finding("reward")]),
            result(None),
        ]
    )
    total = made["totals"]["all"]["full"]
    assert (total["planted"], total["audited"], total["caught"]) == (5, 3, 2)
    assert (total["by_proof"], total["named"]) == (1, 1)
    assert made["clean"] == {"runs": 2, "audited": 2, "with_alarms": 1, "alarms": {"replays": 1}}
    assert made["bugs"][missed.name]["sizes"]["full"]["changed"] == [["policy"]], "so it was live"
    table = by_bug(made)
    for name, word in ((missed.name, "missed"), (silent.name, "not audited"), (broke.name, "broke off")):
        assert word in next(line for line in table.splitlines() if line.startswith(f"| {name}"))
    assert "false alarms: replays 1" in by_class(made)
