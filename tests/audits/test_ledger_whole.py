"""The ledger of a clean run is that of its episodes, and its choice that of the selection half."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from surefoot.artifacts import read_table, table_meta, write_table
from surefoot.audits import audit_run
from surefoot.runs import RunFolder
from surefoot.runs.folder import EPISODES_VERSION, PANEL_ROWS_VERSION

Ledger = list[dict[str, Any]]


def found(run: Path, name: str) -> str:
    audit = audit_run(RunFolder.open(run), only=[name], seed=1)
    assert not audit.failed, audit.failed
    assert not audit.not_applicable, audit.not_applicable
    return " ".join(f.statement for f in audit.findings)


@pytest.mark.parametrize("name", ["ledger-whole", "choosing"])
def test_a_clean_run_keeps_its_books(tiny_run: Path, name: str) -> None:
    assert found(tiny_run, name) == ""


def _smoothed(rows: Ledger) -> None:
    kept = 0.0
    for row in rows:
        kept = 0.5 * kept + 0.5 * row["reward.air"]
        row["reward.air"] = kept


def _raised(name: str, by: float, only: int | None = None) -> Callable[[Ledger], None]:
    def change(rows: Ledger) -> None:
        for row in rows if only is None else rows[only : only + 1]:
            row[name] = by * (row[name] or 0)

    return change


def _resets_moved(rows: Ledger) -> None:
    row = next(r for r in rows if r["reset.tilted"])
    row["reset.tilted"], row["reset.timeout"] = 0, row["reset.timeout"] + row["reset.tilted"]


def _evaluation_lost(rows: Ledger) -> None:
    for name in [k for k in rows[2] if k.startswith("evaluation.")]:
        rows[2].pop(name)


CHANGES: list[tuple[str, Callable[[Ledger], None], str]] = [
    ("ledger-whole", _smoothed, "'air' paid"),
    ("ledger-whole", _raised("steps_per_second", 1.1), "steps_per_second"),
    ("ledger-whole", _raised("wall_seconds", 1.2, 3), "wall_seconds"),
    ("ledger-whole", _raised("learning_rate", 0.5, 4), "learning_rate"),
    ("ledger-whole", _raised("entropy", 1.2, 3), "entropy"),
    ("ledger-whole", _resets_moved, "Resets by reason"),
    ("choosing", _raised("evaluation.velocity_error_mps", 0.9, 2), "the ledger says velocity_error_mps"),
    ("choosing", _evaluation_lost, "not every 3 updates"),
]


@pytest.mark.parametrize(("name", "change", "says"), CHANGES)
def test_a_ledger_that_is_not_what_happened_is_found(
    tiny_run: Path, tmp_path: Path, name: str, change: Callable[[Ledger], None], says: str
) -> None:
    shutil.copytree(tiny_run, tmp_path / "run")
    path = tmp_path / "run" / "ledger.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    change(rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert says in found(tmp_path / "run", name)


def test_an_episode_that_is_missing_or_late_is_found(tiny_run: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_run, tmp_path / "run")
    path = sorted((tmp_path / "run" / "episodes").glob("*.parquet"))[-1]
    rows, meta = read_table(path), table_meta(path)
    write_table(path, rows | {"steps": rows["steps"] + 16}, EPISODES_VERSION, meta)
    assert "lived between their ends" in found(tmp_path / "run", "ledger-whole")
    write_table(path, {k: v[:-1] for k, v in rows.items()}, EPISODES_VERSION, meta)
    assert "episode.count" in found(tmp_path / "run", "ledger-whole")


def test_a_better_checkpoint_that_was_not_chosen_is_found(tiny_run: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_run, tmp_path / "run")
    path = next((tmp_path / "run").glob("panels/*/selection-update-000003/episodes.parquet"))
    rows = read_table(path)
    rows["success"] = np.ones(len(rows["success"]), bool)
    write_table(path, rows, PANEL_ROWS_VERSION, table_meta(path))
    said = found(tmp_path / "run", "choosing")
    assert "confirmed_update is 6 where the selection half chose 3" in said


def test_weights_of_another_update_are_found(tiny_run: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_run, tmp_path / "run")
    first, last = (
        next((tmp_path / "run").glob(f"panels/*/selection-update-00000{k}/policy.safetensors"))
        for k in (3, 6)
    )
    shutil.copyfile(first, last)
    assert "not the one that was scored at update 6" in found(tmp_path / "run", "choosing")
