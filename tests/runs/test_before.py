"""A run that was made before the rooms were laid out anew goes on where it stopped."""

from __future__ import annotations

import shutil
from pathlib import Path

from surefoot.runs import RunFolder, read_ledger
from tiny import surefoot

BEFORE = Path(__file__).with_name("before")


def test_a_run_made_before_resumes(tmp_path: Path) -> None:
    """Its contract is today's, its checkpoint's tensors have today's names, and its ledger is continued."""
    folder = tmp_path / "run"
    shutil.copytree(BEFORE, folder)
    rows, _ = read_ledger(folder / "ledger.jsonl")
    options = ("--updates", "3", "--perturb", "none", "--tracker", "none")
    assert surefoot("train", "--resume", folder, *options) == 0
    continued, torn = read_ledger(folder / "ledger.jsonl")
    assert continued[: len(rows)] == rows
    assert (len(continued), torn) == (3, False)
    record = RunFolder.open(folder).record
    assert (record.status, record.figures["updates"]) == ("finished", 3)
    assert record.confirmation is not None
