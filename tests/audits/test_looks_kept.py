"""looks.jsonl beside a run: whole in a clean folder; edited, reordered and cut ones are found or remarked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from planted_faults import copy_of, findings

from surefoot.audits import audit_run
from surefoot.runs import LOOKS, RunFolder

Lines = list[str]


@pytest.fixture
def folder(tiny_run: Path, tmp_path: Path) -> Path:
    """A run in a folder with three looks, of which the second is its own."""
    from surefoot.runs import Look, note_look

    run = copy_of(tiny_run, tmp_path / "tiny")
    r = RunFolder.open(run).record
    assert r.confirmation is not None
    scenarios = f"{r.panel}@{r.panel_seeds.root}"
    for checkpoint in ("a" * 64, r.confirmation.checkpoint, "b" * 64):
        note_look([tmp_path], Look(scenarios, r.panel_digest, "train", (checkpoint,)))
    return run


@pytest.mark.parametrize("name", ["looks", "looks-counted"])
def test_a_folder_that_nobody_touched_has_nothing(folder: Path, tiny_run: Path, name: str) -> None:
    assert findings(folder, name) == []
    assert findings(tiny_run, name) == [], "what training itself has written"


def edited(lines: Lines) -> Lines:
    return [line.replace('"estimate"', '"decision"') for line in lines]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (edited, "line 1 has another content than its hash is of, and 2 more"),
        (lambda lines: [lines[0], lines[2]], "line 2 does not follow the line before it"),
        (lambda lines: [lines[1], lines[0], lines[2]], "line 1 does not follow"),
        (lambda lines: [lines[0], "torn", *lines[1:]], "line 2 is no JSON object"),
    ],
)
def test_lines_that_were_changed_are_found(folder: Path, change: Callable[[Lines], Lines], says: str) -> None:
    path = folder.parent / LOOKS
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")
    (found,) = findings(folder, "looks")
    assert says in found.statement
    assert (found.kind, found.cause) == ("proof", "held-out")


def test_a_look_that_is_not_there_is_remarked_on(folder: Path) -> None:
    path = folder.parent / LOOKS
    path.write_text(path.read_text().splitlines()[0] + "\n")
    assert findings(folder, "looks") == [], "an end that is cut off leaves a chain"
    copy_of(folder, folder.parent / "other")
    (found,) = findings(folder, "looks-counted")
    assert "not among the 1 looks" in found.statement
    assert "nor are those of 1 other runs" in found.statement
    assert found.kind == "behaviour"


def test_a_run_that_was_moved_is_not_asked(folder: Path) -> None:
    renamed = copy_of(folder, folder.parent / "other")
    (folder.parent / LOOKS).rename(folder.parent / "away")
    for run in (renamed, folder):
        audit = audit_run(RunFolder.open(run), only=["looks", "looks-counted"], seed=1)
        assert len(audit.not_applicable) == 2
    assert not json.loads(audit.model_dump_json())["findings"]
