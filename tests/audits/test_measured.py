"""Episodes of a clean run are measured, judged and labelled by the rules; other ways to do so are found."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from surefoot.artifacts import read_table, table_meta, write_table
from surefoot.audits import audit_run, played
from surefoot.evaluation import episodes, gait, metrics, windows
from surefoot.runs import RunFolder
from surefoot.runs.folder import PANEL_ROWS_VERSION


def found(run: Path, name: str) -> str:
    audit = audit_run(RunFolder.open(run), only=[name], seed=1)
    assert not audit.failed, audit.failed
    assert not audit.not_applicable, audit.not_applicable
    return " ".join(f.statement for f in audit.findings)


@pytest.mark.parametrize("name", ["metrics", "rows", "measuring"])
def test_a_clean_run_is_measured_by_the_rules(tiny_run: Path, name: str) -> None:
    assert found(tiny_run, name) == ""


Rows = dict[str, np.ndarray]


def _scaled(rows: Rows, name: str, by: float, where: np.ndarray) -> None:
    rows[name] = np.where(where, rows[name] * by, rows[name])


def _falls_uncounted(rows: Rows) -> None:
    rows["fall"] = np.zeros(len(rows["fall"]), bool)


def _other_label(rows: Rows) -> None:
    failed = np.flatnonzero((rows["label"] != "") & (rows["trace"] != ""))
    rows["label"][failed] = "slipped"


def _other_metrics(rows: Rows) -> None:
    for name in ("velocity_error_mps", "work_j", "vibration_radps", "window_yaw_error_radps", "foot_slip_m"):
        _scaled(rows, name, 0.9, rows["trace"] != "")


def _windows_unasked(rows: Rows) -> None:
    rows["success"] = (rows["reason"] == "timeout") & (rows["velocity_error_mps"] < 9)


CHANGES = [
    ("rows", _falls_uncounted, "'fall'"),
    ("metrics", _other_label, "'label'"),
    ("metrics", _other_metrics, "'vibration_radps'"),
    ("rows", _other_metrics, "'velocity_error_mps'"),
    ("rows", _windows_unasked, "'success'"),
]


@pytest.mark.parametrize(("name", "change", "says"), CHANGES)
def test_rows_that_are_not_what_happened_are_found(
    tiny_run: Path, tmp_path: Path, name: str, change: Callable[[Rows], None], says: str
) -> None:
    shutil.copytree(tiny_run, tmp_path / "run")
    path = next((tmp_path / "run").glob("panels/*/confirmation/episodes.parquet"))
    rows = read_table(path)
    change(rows)
    write_table(path, rows, PANEL_ROWS_VERSION, table_meta(path))
    assert says in found(tmp_path / "run", name)


def _times(by: float) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    return lambda right: lambda *given: right(*given) * by


def _with_what_follows(right: Callable[..., Any]) -> Callable[..., Any]:
    """Metrics that go on after an episode's end."""

    def wrong(frames: dict[str, Tensor], env: Any) -> Any:
        reason = frames["reason"].clone()
        reason[-1], reason[:-1] = reason.amax(0), 0
        return right(frames | {"reason": reason}, env)

    return wrong


FAULTS = [
    (metrics, "length", _times(0.95), "'distance_m'"),
    (gait, "SMOOTH_S", lambda right: 2 * right, "'vibration_radps'"),
    (gait, "SWING_S", lambda right: 2 * right, "'foot_clearance_m'"),
    (windows, "_pushed", lambda right: lambda w, after, push: right(w, 0, push), "'window"),
    (metrics, "succeeds", lambda right: lambda rows, rule: ~rows["fall"], "'success'"),
    (episodes, "recovery", lambda right: lambda each: (0.0, True), "'recovered'"),
    (episodes, "label", lambda right: lambda trace: ("off_course", "reward"), "'label'"),
]


@pytest.mark.parametrize(("where", "name", "fault", "says"), FAULTS)
def test_episodes_measured_otherwise_are_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, fault: Any, says: str
) -> None:
    monkeypatch.setattr(where, name, fault(getattr(where, name)))
    assert says in found(tiny_run, "measuring")


def test_metrics_that_count_what_follows_an_end_are_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(played, "episode_metrics", _with_what_follows(played.episode_metrics))
    assert "'steps'" in found(tiny_run, "measuring")


def test_a_fall_in_one_place_that_is_not_counted_is_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = metrics.episode_metrics

    def but_for_one(frames: dict[str, Tensor], env: Any) -> dict[str, np.ndarray]:
        rows = right(frames, env)
        rows["fall"] = rows["fall"] & (torch.arange(env.num_envs).numpy() != 3)
        return rows

    monkeypatch.setattr(played, "episode_metrics", but_for_one)
    assert "'fall'" in found(tiny_run, "measuring")
