"""A ledger has one row for each update, in order, or somebody says so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from surefoot.runs import RunFolder, ledger_fault
from surefoot.training.resuming import standing
from tiny import surefoot

CLOSE = ("--tracker", "none", "--perturb", "none")


@pytest.mark.parametrize(
    ("updates", "known", "said"),
    [
        ([], None, ""),
        ([1, 2, 3], None, ""),
        ([1, 2, 3], 3, ""),
        ([1, 2, 3], 5, "The ledger lacks updates 4 to 5."),
        ([], 1, "The ledger lacks update 1."),
        ([1, 3, 4, 6], None, "The ledger lacks updates 2, 5."),
        ([2, 3], None, "The ledger lacks update 1."),
        ([1, 2, 2, 3], None, "The ledger has update 2 more than once."),
        ([1, 3, 2], None, "The ledger is out of order at update 2."),
        ([1, 1, 3], None, "The ledger lacks update 2 and has update 1 more than once."),
        ([0, 1], None, "The ledger has a row of an update before the first."),
    ],
)
def test_a_hole_is_found(updates: list[int], known: int | None, said: str) -> None:
    assert ledger_fault([{"update": u} for u in updates], known) == said


@pytest.mark.parametrize(
    "rows", [[1, 2, 3, 4, 5], [1, 2, 4, 5, 6], [1, 2, 3, 4, 4, 5, 6], [2, 1, 3, 4, 5, 6]]
)
def test_a_run_that_has_no_checkpoint_from_before_the_hole_is_refused_and_left_alone(
    rows: list[int], tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(tiny_run, folder)
    path = folder / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    torn = lines[5][:40] if rows == [1, 2, 3, 4, 5] else b""
    path.write_bytes(b"".join(lines[u - 1] for u in rows) + torn)
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert surefoot("train", "--resume", folder, "--updates", "7", *CLOSE) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "The ledger " in said
    assert "cannot go on without a hole in its ledger" in said
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


def test_the_checkpoint_to_go_on_from_is_the_latest_whose_rows_are_there(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    arguments = ("--out", folder, "--quiet", "--updates", "3", *CLOSE)
    assert surefoot("train", "tiny:walk", *arguments) == 0
    run = RunFolder.open(folder)
    assert (standing(run).progress.update, standing(run).fault) == (3, "")
    lines = run.ledger.path.read_bytes().splitlines(keepends=True)
    shutil.copy(run.checkpoint_path("latest"), tmp_path / "third")
    assert surefoot("train", "--resume", folder, "--updates", "5", *CLOSE) == 0
    shutil.copy(tmp_path / "third", run.checkpoint_path("best"))
    run.ledger.path.write_bytes(b"".join(run.ledger.path.read_bytes().splitlines(keepends=True)[:4]))
    at = standing(RunFolder.open(folder))
    assert (at.progress.update, at.fault) == (3, "The ledger lacks update 5.")
    assert surefoot("train", "--resume", folder, "--updates", "5", *CLOSE) == 0
    rows = RunFolder.open(folder).ledger.path.read_bytes().splitlines(keepends=True)
    assert len(rows) == 5
    assert rows[:3] == lines
