"""Episodes of a clean run fill its time and come to its ledger; what is lost, repeated or moved is found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from surefoot.artifacts import read_table, write_table
from surefoot.audits import audit_run
from surefoot.audits.case import Case
from surefoot.audits.history import history
from surefoot.runs import AuditFinding, RunFolder, save_checkpoint

Columns = dict[str, np.ndarray]


def findings(run: Path) -> list[AuditFinding]:
    audit = audit_run(RunFolder.open(run), only=["episode-history"], seed=3)
    assert not audit.failed, audit.failed
    assert not audit.not_applicable
    return list(audit.findings)


def said(run: Path) -> str:
    return " ".join(f.statement for f in findings(run))


@pytest.fixture
def copied(tiny_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(tiny_run, tmp_path / "run")
    return tmp_path / "run"


def with_episodes(run: Path, change: Callable[[Columns], Columns]) -> Path:
    """Rewrites the table of episodes, as one part."""
    parts = sorted((run / "episodes").glob("*.parquet"))
    columns = change(read_table(run / "episodes"))
    for part in parts[:-1]:
        part.unlink()
    write_table(parts[-1], columns, 1)
    return run


def with_row(run: Path, update: int, **changes: Any) -> Path:
    path = run / "ledger.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[update - 1] |= changes
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run


def test_a_clean_runs_episodes_fit_together(tiny_run: Path) -> None:
    assert findings(tiny_run) == []
    h = history(Case(RunFolder.open(tiny_run), 1))
    assert h.steps == 6 * 16
    assert (h.reason > 0).sum() == len(read_table(tiny_run / "episodes")["steps"])


def test_an_episode_that_was_not_recorded_is_found(copied: Path) -> None:
    run = with_episodes(copied, lambda e: {k: np.delete(v, 0) for k, v in e.items()})
    assert "missing" in said(run)


def test_an_episode_that_was_counted_twice_is_found(copied: Path) -> None:
    run = with_episodes(copied, lambda e: {k: np.append(v, v[:1]) for k, v in e.items()})
    assert "recorded twice" in said(run)
    assert findings(run)[0].cause == "batch"


def test_an_episode_that_is_one_step_short_is_found(copied: Path) -> None:
    def shorter(e: Columns) -> Columns:
        e["steps"] = e["steps"].copy()
        e["steps"][0] -= 1
        return e

    assert "do not add up to the 96 steps of training in 1 of 16" in said(with_episodes(copied, shorter))


def test_first_episodes_that_are_not_staggered_are_found(copied: Path) -> None:
    run = RunFolder.open(copied)
    checkpoint = run.load_checkpoint("latest")
    tensors = dict(checkpoint.tensors)
    born = tensors["env.born"]
    tensors |= {"env.born": torch.zeros_like(born), "env.task.age": tensors["env.task.age"] - born}
    save_checkpoint(run.checkpoint_path("latest"), tensors, checkpoint.meta)
    assert [f.cause for f in findings(copied)] == ["batch"]
    assert "staggered ages" in said(copied)


@pytest.mark.parametrize("name", ["stratum.samples", "stratum.resets", "family.resets"])
def test_a_ledger_that_counts_otherwise_is_found(copied: Path, name: str) -> None:
    row = json.loads((copied / "ledger.jsonl").read_text().splitlines()[2])
    moved = np.roll(row[name], 1).tolist() if max(row[name]) else [1, *row[name][1:]]
    assert f"The ledger's {name}" in said(with_row(copied, 3, **{name: moved}))


def test_a_reason_that_is_counted_as_another_is_found(copied: Path) -> None:
    rows = [json.loads(line) for line in (copied / "ledger.jsonl").read_text().splitlines()]
    update, falls = next((r["update"], r["reset.tilted"]) for r in rows if r["reset.tilted"])
    run = with_row(
        copied, update, **{"reset.tilted": 0, "reset.timeout": falls + rows[update - 1]["reset.timeout"]}
    )
    assert "reset.tilted" in said(run)
