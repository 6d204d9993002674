"""Remarks on behaviour, physics and the ends of held-out episodes: silent on clean runs, not on these."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from surefoot.audits import audit_run, kept_traces, mechanics, panel_behaviour, panel_ends, training_behaviour
from surefoot.audits.case import Case
from surefoot.audits.detector import NotApplicable
from surefoot.env.compiled import CompiledEnv
from surefoot.rollout import RolloutBlock
from surefoot.runs import RunFolder

UPDATES = 120


def case_of(run: Path) -> Case:
    return Case(RunFolder.open(run), seed=1)


def ledger(reward: np.ndarray, error: np.ndarray, success: float = 0.1) -> list[dict[str, Any]]:
    """Returns rows of a run that was scored every fifth update."""
    noise = np.random.default_rng(0).normal(0, 1e-4, UPDATES)
    rows: list[dict[str, Any]] = [
        {"update": u + 1, "reward_per_step": float(r)} for u, r in enumerate(reward + noise)
    ]
    for u in range(4, UPDATES, 5):
        rows[u] |= {"evaluation.success": success, "evaluation.velocity_error_mps": float(error[u])}
    return rows


def test_runs_that_have_hardly_begun_get_no_remarks(tiny_run: Path) -> None:
    names = ["return-up-success-flat", "ending-pays", "stands-still", "skims-terminations"]
    audit = audit_run(RunFolder.open(tiny_run), only=names, seed=1)
    assert not audit.findings
    assert not audit.failed


def test_reward_that_rises_alone_is_remarked_on(tiny_run: Path) -> None:
    case, up = case_of(tiny_run), np.linspace(0.001, 0.02, UPDATES)
    case.ledger = ledger(up, np.full(UPDATES, 0.5))
    assert len(training_behaviour.look(case)) == 1
    case.ledger = ledger(up, np.linspace(0.6, 0.5, UPDATES))
    assert training_behaviour.look(case) == [], "held-out errors fall: it learns"
    case.ledger = ledger(np.full(UPDATES, 0.01), np.full(UPDATES, 0.5))
    assert training_behaviour.look(case) == [], "nothing rises"
    case.ledger = ledger(up, np.full(UPDATES, 0.5))[:60]
    with pytest.raises(NotApplicable):
        training_behaviour.look(case)


def episodes(early: int, late: int) -> dict[str, np.ndarray]:
    """Returns a table of falls that are `early` steps long in the first half and `late` in the second."""
    update = np.repeat(np.arange(1, UPDATES + 1), 5)
    return {
        "episode": np.ones(len(update), int),
        "update": update,
        "steps": np.where(update <= UPDATES // 2, early, late),
        "reason": np.full(len(update), 2),
        "return": np.zeros(len(update)),
    }


def test_ends_that_pay_are_remarked_on(tiny_run: Path) -> None:
    case, up = case_of(tiny_run), np.linspace(0.001, 0.02, UPDATES)
    case.ledger, case.episodes = ledger(up, np.full(UPDATES, 0.5)), episodes(400, 50)
    assert len(training_behaviour.look_at_ends(case)) == 1
    case.episodes = episodes(50, 400)
    assert training_behaviour.look_at_ends(case) == [], "it lives longer"
    case.ledger, case.episodes = ledger(up[::-1], np.full(UPDATES, 0.5)), episodes(400, 50)
    assert training_behaviour.look_at_ends(case) == [], "it diverges, and is paid less"


def test_standing_still_for_pay_is_remarked_on(tiny_run: Path) -> None:
    case, up = case_of(tiny_run), np.linspace(0.001, 0.02, UPDATES)
    case.ledger = ledger(up, np.full(UPDATES, 0.5))
    n = len(case.result.table["reason"])
    still = {"command_vx": np.full(n, 0.8), "reason": np.full(n, "timeout"), "distance_m": np.full(n, 0.05)}
    case.result = replace(case.result, table=case.result.table | still)
    case_few, panel_behaviour.FEW = panel_behaviour.FEW, 4
    try:
        assert len(panel_behaviour.look_at_standing(case)) == 1
        case.result = replace(case.result, table=case.result.table | {"distance_m": np.full(n, 2.0)})
        assert panel_behaviour.look_at_standing(case) == []
    finally:
        panel_behaviour.FEW = case_few


def test_success_at_the_edge_of_a_fall_is_remarked_on(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(panel_behaviour, "FEW", 4)
    case = case_of(tiny_run)
    n = len(case.result.table["reason"])
    for peak, remarks in ((0.9, 1), (0.5, 0)):
        edge = {"success": np.ones(n, bool), "peak_tilt_rad": np.full(n, peak)}
        case.result = replace(case.result, table=case.result.table | edge)
        assert len(panel_behaviour.look_at_edges(case)) == remarks


# ---- ends of held-out episodes


def test_held_out_episodes_that_should_have_ended_are_found(tiny_run: Path) -> None:
    case = case_of(tiny_run)
    assert panel_ends.look(case) == []
    table = case.result.table
    over = int(np.flatnonzero(table["reason"] == "tilted")[0])
    hidden, reached = table["reason"].copy(), table["peak_tilt_rad"].copy()
    hidden[over], reached[over] = "timeout", 0.99 * np.arccos(0.6)
    for change in ({"reason": hidden}, {"peak_tilt_rad": reached}):
        case.result = replace(case.result, table=table | change)
        assert [f.cause for f in panel_ends.look(case)] != []


@pytest.fixture
def every_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_traces, "MOST", 1000)


@pytest.mark.usefixtures("every_trace")
def test_a_trace_that_fell_and_went_on_is_found(tiny_run: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_run, tmp_path / "run")
    file = next(iter(sorted((tmp_path / "run" / "panels").glob("*/confirmation/traces/nominal*.npz"))))
    with np.load(file) as kept:
        trace = {k: kept[k] for k in kept.files}
    trace["quaternion"][3] = (0, 1, 0, 0)
    np.savez(file, **trace)
    assert any("before their last step" in f.statement for f in panel_ends.look(case_of(tmp_path / "run")))


# ---- physics


def test_bodies_of_a_clean_run_fall_and_land_as_bodies_do(tiny_run: Path) -> None:
    assert audit_run(RunFolder.open(tiny_run), only=["mechanics"], seed=1).passed == ("mechanics",)


def test_energy_from_nothing_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = CompiledEnv.step_into

    def lifted(self: CompiledEnv, block: RolloutBlock, t: int, action: Tensor) -> Tensor:
        out = right(self, block, t, action)
        self.engine.arrays.state[self.engine.buffers.state.first("vel") + 2] += 0.5
        return out

    monkeypatch.setattr(CompiledEnv, "step_into", lifted)
    said = " ".join(f.statement for f in mechanics.look(case_of(tiny_run)))
    assert "do not fall at g" in said
    assert "more energy than they began with" in said


@pytest.mark.usefixtures("every_trace")
def test_feet_in_the_ground_are_found(tiny_run: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_run, tmp_path / "run")
    file = next(iter(sorted((tmp_path / "run" / "panels").glob("*/confirmation/traces/nominal*.npz"))))
    with np.load(file) as kept:
        trace = {k: kept[k] for k in kept.files}
    trace["foot_position"][2:8, 0, 2] = -0.05
    np.savez(file, **trace)
    found = list(mechanics.below(case_of(tmp_path / "run")))
    assert [f.cause for f in found] == ["panel-plant"]
