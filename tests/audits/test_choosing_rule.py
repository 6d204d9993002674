"""The best checkpoint is chosen; another rule is found, also where a run's own evaluations were all equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from surefoot.audits import audit_run
from surefoot.runs import RunFolder
from surefoot.training import CheckpointSelection


def found(run: Path) -> str:
    audit = audit_run(RunFolder.open(run), only=["choosing-rule"], seed=1)
    assert not audit.failed
    assert not audit.not_applicable
    return " ".join(f.statement for f in audit.findings)


def test_the_best_is_chosen(tiny_run: Path) -> None:
    assert found(tiny_run) == ""


def _keeps_the_first(self: CheckpointSelection, *given: Any) -> bool:
    p = self.progress
    p.successes.append(self.evaluator.evaluate_async(*given).success)
    if p.best >= 0:
        return False
    p.best, p.best_update = p.successes[-1], p.update
    return True


def test_keeping_another_than_the_best_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CheckpointSelection, "score", _keeps_the_first)
    assert "another than the best" in found(tiny_run)


def test_taking_the_last_one_always_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = CheckpointSelection.choose
    monkeypatch.setattr(CheckpointSelection, "choose", lambda self: "latest" if right(self) else "best")
    assert "the one with less success" in found(tiny_run)
