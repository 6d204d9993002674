"""Held-out episodes are held against plain MuJoCo, their scenarios and each other; faults are found."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from surefoot.artifacts import read_table, table_meta, write_table
from surefoot.audits import (
    audit_run,
    panel_agreement,
    panel_controls,
    panel_drawn,
    panel_physics,
    panel_traces,
    second_evaluator,
)
from surefoot.audits.case import Case
from surefoot.audits.panel_traces import Traced
from surefoot.contract import Panel
from surefoot.evaluation import metrics
from surefoot.runs import RunFolder
from tiny import surefoot, tiny_drawn_panel

NAMES = (
    *("second-evaluator", "panel-physics", "panel-drawn", "panel-given", "panel-unseen"),
    *("panel-replayed", "panel-baselines", "panel-engines"),
)


@pytest.fixture(scope="module")
def drawn_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two updates on a drawn panel of a few short episodes. Read it, do not change it."""
    folder = tmp_path_factory.mktemp("drawn") / "run"
    asked = ("train", "tiny:drawn", "--updates", "2", "--out", folder, "--quiet", "--tracker", "none")
    assert surefoot(*asked) == 0
    return folder


@pytest.fixture(scope="module")
def loaded(drawn_run: Path) -> Case:
    case = Case(RunFolder.open(drawn_run), 1)
    with torch.inference_mode():
        panel_traces.traced(case)
    return case


@pytest.fixture
def case(loaded: Case) -> Iterator[Case]:
    """The run with its traces, of which copies may be changed."""
    copy = Case(loaded.run, 1)
    copy.__dict__ |= {k: loaded.__dict__[k] for k in ("plan", "robot") if k in loaded.__dict__}
    copy._once = {"traced": list(panel_traces.traced(loaded))}
    with torch.inference_mode():
        yield copy


def change(case: Case, which: Callable[[Traced], bool], **frames: Callable[[np.ndarray], Any]) -> None:
    """Changes frames of the traces that are `which`."""
    case._once["traced"] = [
        dataclasses.replace(t, frames=t.frames | {k: f(t.frames[k]) for k, f in frames.items()})
        if which(t)
        else t
        for t in panel_traces.traced(case)
    ]


def test_a_clean_run_has_no_finding(drawn_run: Path) -> None:
    audit = audit_run(RunFolder.open(drawn_run), only=NAMES, seed=1)
    assert (audit.findings, audit.failed) == ((), ())
    assert set(audit.passed) == set(NAMES)


def test_an_untrained_policy_has_no_controls(drawn_run: Path) -> None:
    audit = audit_run(RunFolder.open(drawn_run), only=["panel-controls"], seed=1)
    assert "succeeds in 0%" in audit.not_applicable[0].because


# ---- plain MuJoCo


def embodied(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], dict[str, Any]]) -> None:
    """Gives the second evaluator's robots another body than their scenario's."""
    right = second_evaluator.World.embody
    monkeypatch.setattr(
        second_evaluator.World, "embody", lambda self, s: right(self, s.model_copy(update=change(s)))
    )


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(lambda s: {"payload_kg": 0.9 * s.payload_kg}, id="payload"),
        pytest.param(lambda s: {"strength": 1 + 0.9 * (s.strength - 1)}, id="strength"),
    ],
)
def test_a_body_that_is_a_tenth_off_is_found(
    case: Case, monkeypatch: pytest.MonkeyPatch, body: Callable[[Any], dict[str, Any]]
) -> None:
    embodied(monkeypatch, body)
    found = panel_physics.moved_otherwise(case)
    assert found[0].cause == "panel-plant"


def test_a_column_that_shifts_too_little_is_found(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    case._once["traced"] = [
        dataclasses.replace(
            t, scenario=t.scenario.model_copy(update={"payload_kg": t.scenario.payload_kg - 0.3})
        )
        if t.column.perturbation == "payload"
        else t
        for t in panel_traces.traced(case)
    ]
    (found,) = panel_physics.moved_otherwise(case)
    assert found.cause == "perturbation"
    assert "'payload'" in found.statement


def test_a_start_that_is_easier_is_found(case: Case) -> None:
    change(case, lambda t: True, start_linear_velocity=lambda v: 0 * v)
    assert "begin elsewhere" in panel_physics.moved_otherwise(case)[0].statement


# ---- a second evaluator


def test_halved_errors_are_found(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    right = panel_agreement.figures

    def double(*episode: Any) -> dict[str, float]:
        own = right(*episode)
        return own | {"velocity_error_mps": 2 * own["velocity_error_mps"]}

    monkeypatch.setattr(panel_agreement, "figures", double)
    found = {f.statement.split(", ")[1].split()[0]: f for f in panel_agreement.look(case)}
    f = found["velocity_error_mps"]
    assert f.cause == "metric"
    assert f.p is not None
    assert f.p < 0.01


def test_p_of_tossed_signs_is_honest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panel_agreement, "FLIPS", 2000)
    monkeypatch.setattr(panel_agreement, "CHUNK", 2000)
    numbers = np.random.default_rng(3)
    sizes = numbers.exponential(1, (500, 20)) * (numbers.random((500, 20)) < 0.7)
    p = np.array([panel_agreement.by_chance(d * numbers.choice([-1.0, 1.0], 20), numbers) for d in sizes])
    assert (p < 0.05).mean() < 0.08
    assert (p < 0.01).mean() < 0.025
    assert panel_agreement.by_chance(sizes[0] + 1, numbers) < 2e-3


# ---- scenarios


def panel_with(case: Case, monkeypatch: pytest.MonkeyPatch, panel: Panel) -> None:
    monkeypatch.setattr(panel_drawn, "panels_of", lambda case: [panel])


def test_another_push_than_was_drawn_is_found(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = tiny_drawn_panel()
    weak = [
        s.model_copy(
            update={"pushes": tuple(p.model_copy(update={"vx_mps": 0.9 * p.vx_mps}) for p in s.pushes)}
        )
        for s in panel.scenarios
    ]
    panel_with(case, monkeypatch, panel.model_copy(update={"scenarios": tuple(weak)}))
    found = panel_drawn.look_at_panel(case)
    assert {f.cause for f in found} == {"panel-plant"}
    assert "push in 6" in found[0].statement


def test_a_half_that_is_the_other_is_found(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = tiny_drawn_panel()
    chosen = [s for s in panel.scenarios if s.half == "selection"]
    both = (*chosen, *(s.model_copy(update={"half": "confirmation"}) for s in chosen))
    panel_with(case, monkeypatch, panel.model_copy(update={"scenarios": both}))
    assert "held-out" in {f.cause for f in panel_drawn.look_at_panel(case)}


def test_training_on_the_panels_draws_is_found(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    env = case.robot.environments(range(16))
    own = {k: getattr(env.script, k).numpy() for k in ("family", "member", "episode")}
    own |= {k: getattr(env.parameters, k).numpy() for k in ("delay_s", "friction", "payload_kg")}
    env.close()
    case.__dict__["episodes"] = own
    assert panel_drawn.look_for_leaks(case) == []
    seen = tiny_drawn_panel().model_copy(update={"seeds": case.record.seeds})
    panel_with(case, monkeypatch, seen)
    says = [f.statement for f in panel_drawn.look_for_leaks(case)]
    for quantity in ("delay", "friction", "payload"):
        assert any(f"{quantity} was drawn from the root" in s for s in says)


def test_what_a_column_did_not_give_is_found(case: Case) -> None:
    change(case, lambda t: t.column.perturbation == "friction", friction=lambda x: 0.9 * x)
    change(case, lambda t: t.column.perturbation == "bias", sensor_bias=lambda x: 0 * x)
    found = panel_drawn.look_at_episodes(case)
    assert [f.cause for f in found] == ["perturbation"] * 2


def test_episodes_of_other_scenarios_are_found(case: Case) -> None:
    change(case, lambda t: not t.column.perturbation, command=lambda x: x[:, ::-1])
    (found,) = panel_drawn.look_at_episodes(case)
    assert found.cause == "panel-plant"
    assert "command" in found.statement


# ---- rows, controls, baselines, engines


def test_rows_that_a_replay_does_not_give_are_found(drawn_run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(drawn_run, copy)
    for path in copy.glob("panels/*/confirmation/episodes.parquet"):
        rows, meta = read_table(path), table_meta(path)
        rows["yaw_error_radps"] = 0.9 * rows["yaw_error_radps"]
        write_table(path, rows, 2, meta)
    audit = audit_run(RunFolder.open(copy), only=["panel-replayed"], seed=1)
    assert {f.detector for f in audit.findings} == {"panel-replayed"}
    assert "yaw_error_radps" in audit.findings[0].statement


def test_a_panel_that_anything_passes_is_found(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    case.result.rows["success"][:] = True  # as of a policy that has learned
    assert panel_controls.look_at_controls(case) == []
    monkeypatch.setattr(metrics, "succeeds", lambda rows, rule: np.ones(len(rows["fall"]), bool))
    says = [f.statement for f in panel_controls.look_at_controls(case)]
    assert len(says) == 2


def test_a_baseline_that_is_not_random_is_found(case: Case) -> None:
    change(case, lambda t: t.policy == "random", action=lambda x: 0.9 * x)
    (found,) = panel_controls.look_at_baselines(case)
    assert "baseline random" in found.statement


def test_one_engine_under_two_names_is_found(case: Case) -> None:
    t = case.result.table
    own = {
        int(s): d
        for s, d, e in zip(t["scenario"], t["states_digest"], t["engine"], strict=True)
        if e == "mujoco"
    }
    nominal = t["column"].astype(str) == "nominal"
    digests = [
        own[int(s)] if n else d for s, d, n in zip(t["scenario"], t["states_digest"], nominal, strict=True)
    ]
    t["states_digest"] = np.array(digests)
    (found,) = panel_controls.look_at_engines(case)
    assert "agreement says nothing" in found.statement


def test_a_trot_that_strides_half_as_far_is_found(case: Case) -> None:
    assert panel_controls.look_at_baselines(case) == []
    change(case, lambda t: t.policy == "open-loop-trot", action=lambda a: 0.5 * a)
    assert "of the baseline open-loop-trot" in panel_controls.look_at_baselines(case)[0].statement
