"""Figures, intervals and verdict of a clean run follow from its rows; those that do not are found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from surefoot.artifacts import read_table, table_meta, write_table
from surefoot.audits import audit_run
from surefoot.evidence import row_checks
from surefoot.runs import RunFolder
from surefoot.statistics import clusters, means, rates, summary, verdict


def found(run: Path, name: str, seed: int = 1) -> str:
    audit = audit_run(RunFolder.open(run), only=[name], seed=seed)
    assert not audit.failed, audit.failed
    assert not audit.not_applicable
    return " ".join(f.statement for f in audit.findings)


@pytest.mark.parametrize("name", ["recount", "statistics", "judgement"])
def test_a_clean_run_states_what_its_rows_show(tiny_run: Path, name: str) -> None:
    assert found(tiny_run, name) == ""


def _edited(run: Path, to: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    shutil.copytree(run, to)
    record = json.loads((to / "run.json").read_text())
    change(record["confirmation"])
    (to / "run.json").write_text(json.dumps(record))
    return to


def test_a_stated_figure_that_no_row_gives_is_found(tiny_run: Path, tmp_path: Path) -> None:
    def change(stated: dict[str, Any]) -> None:
        stated["columns"][2]["fall_high"] -= 0.02

    assert "run.json says columns." in found(_edited(tiny_run, tmp_path / "run", change), "recount")


def _half(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given, **named: right(*given, **named) / 2


@pytest.mark.parametrize(
    ("where", "name", "wrong"),
    [
        (rates, "_CAUTION_EVENTS", 2.0),
        (means, "standard_error", _half(means.standard_error)),
        (clusters, "icc_of", _half(clusters.icc_of)),
        (summary, "beats_baselines", lambda columns: True),
        (verdict, "RELIABLE_AT", 0.85),
    ],
)
def test_statistics_by_other_rules_are_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, wrong: Any
) -> None:
    monkeypatch.setattr(where, name, wrong)
    assert found(tiny_run, "statistics") != ""


def test_evidence_that_nobody_checks_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(row_checks.CHECKS, "outcomes", lambda result, panel: iter(()))
    assert "the fall of an episode" in found(tiny_run, "judgement")


def test_episodes_that_were_left_out_are_found(tiny_run: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_run, tmp_path / "run")
    (path,) = (tmp_path / "run" / "panels").glob("*/confirmation/episodes.parquet")
    rows, meta = read_table(path), table_meta(path)
    write_table(path, {k: v[1:] for k, v in rows.items()}, 2, meta)
    assert "The run's own files contradict each other" in found(tmp_path / "run", "recount")
