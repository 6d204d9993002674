"""Held-out episodes of a clean run are those of panel and columns; where they are not, it is found, and where
it lies is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from surefoot.artifacts import load_npz, read_table, save_npz, table_meta, write_table
from surefoot.audits import audit_run
from surefoot.contract import TRAINING_PLANT
from surefoot.env import PanelSampler
from surefoot.env.faults import FaultySensors
from surefoot.runs import Audit, RunFolder
from surefoot.runs.folder import PANEL_ROWS_VERSION


def audited(run: Path, name: str) -> Audit:
    return audit_run(RunFolder.open(run), only=[name], seed=12)


def causes(audit: Audit) -> set[str]:
    assert not audit.failed
    return {f.cause for f in audit.findings}


@pytest.mark.parametrize("name", ["panel-columns", "kept-episodes", "column-rows"])
def test_a_clean_run_was_judged_as_declared(tiny_run: Path, name: str) -> None:
    assert audited(tiny_run, name).passed == (name,)


def test_a_panel_on_the_training_plant_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.evaluation.layout.evaluation_plant", lambda hz, rough: TRAINING_PLANT)
    audit = audited(tiny_run, "panel-columns")
    assert causes(audit) == {"panel-plant"}
    assert any("the training plant would explain it" in f.statement for f in audit.findings)


def test_columns_that_change_nothing_are_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.evaluation.layout.perturb_all", lambda scenarios, column: tuple(scenarios))
    audit = audited(tiny_run, "panel-columns")
    assert causes(audit) == {"perturbation"}
    said = " ".join(f.statement for f in audit.findings)
    for name in ("friction_0.3", "payload_+3kg", "delay_40ms", "push_1.5", "strength_0.8", "noise_x2"):
        assert name in said


def _with_scenarios(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], None]) -> None:
    draw = PanelSampler.draw

    def changed(self: PanelSampler, rows: Any, episode: Any, level: Any) -> Any:
        out = draw(self, rows, episode, level)
        change(out)
        return out

    monkeypatch.setattr(PanelSampler, "draw", changed)


def test_pushes_that_are_weaker_on_the_panel_are_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _with_scenarios(monkeypatch, lambda s: s.script.push_velocity.mul_(0.9))
    audit = audited(tiny_run, "panel-columns")
    assert causes(audit) == {"held-out", "perturbation"}
    assert any("pushes would explain it" in f.statement for f in audit.findings)


def test_a_payload_that_one_scenario_loses_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _with_scenarios(monkeypatch, lambda s: s.parameters.payload_kg[3].fill_(0.0))
    audit = audited(tiny_run, "panel-columns")
    assert causes(audit) == {"held-out", "perturbation"}
    assert any("payload" in f.statement for f in audit.findings)


def test_offsets_of_sensors_that_are_too_small_are_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = FaultySensors.begin

    def smaller(self: FaultySensors, keyed: Any, key: Any, obs: Any, rows: Any) -> Any:
        self._width = 0.9 * self._width
        return begin(self, keyed, key, obs, rows)

    monkeypatch.setattr(FaultySensors, "begin", smaller)
    audit = audited(tiny_run, "panel-columns")
    assert causes(audit) == {"perturbation"}
    assert "bias_x1" in audit.findings[0].statement


@pytest.fixture
def copied(tiny_run: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be edited."""
    shutil.copytree(tiny_run, tmp_path / "run")
    return tmp_path / "run"


def _traces(run: Path, column: str) -> list[Path]:
    return sorted(run.glob(f"panels/*/confirmation/traces/{column}*.npz"))


def test_records_of_other_conditions_are_found(copied: Path) -> None:
    for path in _traces(copied, "friction_0.3"):
        save_npz(path, **load_npz(path) | {"friction": np.float32(0.8)})
    audit = audited(copied, "kept-episodes")
    assert causes(audit) == {"perturbation"}
    assert "friction" in audit.findings[0].statement


def test_recorded_motion_that_physics_does_not_make_is_found(copied: Path) -> None:
    for path in _traces(copied, "nominal"):
        trace = load_npz(path)
        save_npz(path, **trace | {"torque": trace["torque"] * np.float32(0.98)})
    assert audited(copied, "kept-episodes").findings


def test_rows_that_are_the_nominal_columns_are_found(copied: Path) -> None:
    (path,) = copied.glob("panels/*/confirmation/episodes.parquet")
    rows, meta = read_table(path), table_meta(path)
    nominal = np.flatnonzero((rows["column"] == "nominal") & (rows["engine"] == "stride"))
    digest = dict(zip(rows["scenario"][nominal].tolist(), rows["states_digest"][nominal], strict=True))
    at = np.flatnonzero(rows["column"] == "payload_+3kg")[:1]
    rows["states_digest"][at] = [digest[k] for k in rows["scenario"][at].tolist()]
    write_table(path, rows, PANEL_ROWS_VERSION, meta)
    audit = audited(copied, "column-rows")
    assert causes(audit) == {"perturbation"}
    assert "payload_+3kg (1 of" in audit.findings[0].statement
