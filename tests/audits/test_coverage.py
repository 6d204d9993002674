"""Feet that are not used are remarked on; environments in lockstep are found in the ledger."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from surefoot.audits import audit_run
from surefoot.audits.coverage import unused_feet
from surefoot.runs import RunFolder

FEET = ("FL", "FR", "RL", "RR")


def test_a_foot_that_never_touches_the_ground_is_remarked_on() -> None:
    down = np.random.default_rng(1).random((4000, 4)) < [0.4, 0.4, 0.4, 0.0005]
    (found,) = unused_feet(down, FEET)
    assert "RR hardly touches the ground" in found.statement


def test_feet_that_are_all_used_or_all_aloft_are_not() -> None:
    g = np.random.default_rng(1)
    assert unused_feet(g.random((4000, 4)) < [0.4, 0.4, 0.4, 0.02], FEET) == []
    assert unused_feet(np.zeros((4000, 4), bool), FEET) == []


def test_a_clean_runs_feet_are_all_used(tiny_run: Path) -> None:
    audit = audit_run(RunFolder.open(tiny_run), only=["unused-feet"], seed=1)
    assert audit.passed == ("unused-feet",)


@pytest.mark.parametrize(("lockstep", "found"), [(0.9, True), (0.2, False)])
def test_lockstep_is_read_from_the_ledger(
    tiny_run: Path, tmp_path: Path, lockstep: float, found: bool
) -> None:
    shutil.copytree(tiny_run, tmp_path / "run")
    path = tmp_path / "run" / "ledger.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[4]["honesty.lockstep"] = lockstep
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    audit = audit_run(RunFolder.open(tmp_path / "run"), only=["lockstep"])
    assert [f.cause for f in audit.findings] == ["batch"] * found
    assert not audit.not_applicable


def test_a_run_without_a_look_is_not_called_passed(tiny_run: Path) -> None:
    audit = audit_run(RunFolder.open(tiny_run), only=["lockstep"])
    assert [a.detector for a in audit.not_applicable] == ["lockstep"]
