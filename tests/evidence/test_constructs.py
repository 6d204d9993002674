"""Nobody is compared who was measured otherwise, however alike the ids are made to look; and whoever was
measured alike is compared, whatever connects the policy with its robot."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from places import GOLDEN
from surefoot.artifacts import read_table, table_meta, write_table
from surefoot.contract import Field, SurefootError, differences, digest
from surefoot.evaluation import metrics
from surefoot.evidence import Comparison, Refusal, compare, construct_difference
from surefoot.evidence.constructs import interface_difference, other_signals
from surefoot.runs import Result, RunFolder, id_problems, load_result, read_summary
from surefoot.runs.folder import PANEL_ROWS_VERSION
from surefoot.tasks import Task
from surefoot.tasks import task as find_task
from surefoot.training import RobotPlan, robot_plan
from tiny import surefoot


@pytest.fixture(scope="module")
def trot_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "trot"
    options = ("--updates", "1", "--quiet", "--tracker", "none", "--perturb", "friction")
    assert surefoot("train", "tiny:trot", "--out", run, *options) == 0
    return run


def opened(run: Path) -> Result:
    return load_result(RunFolder.open(run))


# ---- measured alike


def test_a_policy_with_a_clock_is_compared_with_one_without(
    tiny_run: Path, trot_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = opened(tiny_run), opened(trot_run)
    assert a.run.measurement_id == b.run.measurement_id
    assert a.run.interface_id != b.run.interface_id
    found = compare(a, b)
    assert isinstance(found, Comparison)
    assert {f.name for f in found.interface} == {"interface.observation.clock", "interface.prior"}
    assert found.other_signals == ()
    icy = (load_result(RunFolder.open(r), column="friction_0.3") for r in (tiny_run, trot_run))
    assert isinstance(compare(*icy, column="friction_0.3"), Comparison)
    assert surefoot("compare", tiny_run, trot_run) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Other interfaces: part of the treatment" in said
    assert "interface.prior" in said


def with_interface(result: Result, **term: Any) -> Result:
    """The result of a policy whose first sensor is another, with fields and ids that say so."""
    contract = result.run.contract
    sensors = (contract.observation[0].model_copy(update=term), *contract.observation[1:])
    measured = {**result.summary.measurement, "noise": {t.name: t.noise for t in sensors if t.noise}}
    run = result.run.model_copy(update={"contract": contract.model_copy(update={"observation": sensors})})
    ids = {"measurement": measured, "measurement_id": digest(measured)}
    return dataclasses.replace(result, run=run, summary=result.summary.model_copy(update=ids))


def test_noise_must_match_for_the_sensors_that_both_have(tiny_run: Path) -> None:
    plain = opened(tiny_run)
    exact = with_interface(plain, noise=0.002)
    assert construct_difference(plain, exact) == (Field("noise.angular_velocity", 0.2, 0.002),)
    assert isinstance(compare(plain, exact), Refusal)
    renamed = with_interface(plain, name="gyroscope", noise=0.002)
    assert construct_difference(plain, renamed) == (), "another sensor is another interface"
    blind = with_interface(plain, noise=0.0)
    assert [f.name for f in construct_difference(plain, blind)] == ["noise.angular_velocity"]


# ---- an extension's functions


def never(v: Any, **limits: float) -> torch.Tensor:
    return torch.zeros(len(v.robot.gravity), dtype=torch.bool)


def true_velocity(v: Any) -> torch.Tensor:
    return v.robot.linear_velocity


def hundredfold(v: Any) -> torch.Tensor:
    return 100 * v.robot.angular_velocity


def replaced(task: Task, **terms: Callable[..., torch.Tensor]) -> Task:
    return dataclasses.replace(task, terms={**task.terms, **terms})


def scaled(task: Task) -> Task:
    first, *others = task.contract.observation
    c = task.contract.model_copy(
        update={"observation": (first.model_copy(update={"scale": 0.0025}), *others)}
    )
    return dataclasses.replace(task, contract=c)


def planned(monkeypatch: pytest.MonkeyPatch, change: Callable[[Task], Task]) -> RobotPlan:
    with monkeypatch.context() as patched:
        task = change(find_task("tiny:walk"))
        patched.setattr("surefoot.training.plan_makers.find_task", lambda name: task)
        return robot_plan("tiny:walk")


@pytest.mark.parametrize("name", ["tilted", "trunk_contact", "sunk"])
def test_a_termination_that_never_happens_is_another_measurement(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    plain, cheat = (planned(monkeypatch, lambda t, k=k: replaced(t, **k)) for k in ({}, {name: never}))
    differ = differences(plain.measurement, cheat.measurement)
    assert [f.name for f in differ] == [f"terminations.{name}.source"]
    assert plain.interface_id == cheat.interface_id


def test_a_sensor_that_tells_something_else_is_another_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = planned(monkeypatch, lambda t: t)
    for change, fields in (
        (lambda t: replaced(t, angular_velocity=true_velocity), ["source"]),
        (lambda t: replaced(scaled(t), angular_velocity=hundredfold), ["scale", "source"]),
    ):
        cheat = planned(monkeypatch, change)
        differ = [f.name for f in differences(plain.interface, cheat.interface)]
        assert sorted(differ) == [f"observation.angular_velocity.{f}" for f in fields]
        assert plain.measurement_id == cheat.measurement_id


def test_a_comparison_says_where_a_signal_is_not_the_same(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = opened(tiny_run)
    cheat = planned(monkeypatch, lambda t: replaced(scaled(t), angular_velocity=hundredfold))
    run = plain.run.model_copy(update={"interface": cheat.interface, "interface_id": cheat.interface_id})
    other = dataclasses.replace(plain, run=run)
    assert other_signals(plain, other) == ("angular_velocity",)
    assert "interface.observation.angular_velocity.source" in {
        f.name for f in interface_difference(plain, other)
    }


# ---- Surefoot's own code, and what it stands on


def test_the_code_of_metrics_is_measured_by_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = robot_plan("tiny:walk")
    for name, value in (("GRAVITY", 9.0), ("length", lambda x: x[..., 0])):
        with monkeypatch.context() as patched:
            patched.setattr(metrics, name, value)
            assert [f.name for f in differences(plain.measurement, robot_plan("tiny:walk").measurement)] == [
                "metrics"
            ]
    assert robot_plan("tiny:walk").measurement == plain.measurement


def test_the_simulator_is_measured_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = robot_plan("tiny:walk")
    stride = plain.measured_on("stride")
    assert stride["engine"] == {"name": "stride", "version": plain.engine_version("stride")}
    assert len(stride["engine"]["version"]) == 64
    monkeypatch.setattr("surefoot.engines.versions.version", lambda package: "9.7.5")
    assert robot_plan("tiny:walk").measurement["mujoco"] == "9.7"


# ---- ids are computed again


def forged(run: Path, to: Path, **contract: Any) -> Path:
    """A run whose record has another contract, and whose ids were left as they are."""
    shutil.copytree(run, to)
    record = json.loads((to / "run.json").read_text())
    for name, changes in contract.items():
        record["contract"][name] |= changes
    (to / "run.json").write_text(json.dumps(record))
    return to


def test_an_id_copied_from_another_run_is_refused_by_its_field(tiny_run: Path, tmp_path: Path) -> None:
    lax = forged(tiny_run, tmp_path / "lax", success={"velocity_error_mps": 1.3})
    with pytest.raises(
        SurefootError, match=r"measurement\.success\.velocity_error_mps of run\.json is 0\.25"
    ):
        opened(lax)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("robot_digest", "0" * 64),
        ("panel_digest", "0" * 64),
        ("mujoco", "2.3"),
        ("metrics", "0" * 64),
        ("noise", {}),
        ("plant", {"dt_s": 0.01}),
    ],
)
def test_a_changed_field_does_not_give_its_id(tiny_run: Path, tmp_path: Path, field: str, value: Any) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    (panel,) = (run / "panels").glob("*/confirmation")
    for path in (run / "run.json", panel / "summary.json"):
        written = json.loads(path.read_text())
        written["measurement"][field] = value
        path.write_text(json.dumps(written))
    problems = id_problems(RunFolder.open(run).record, read_summary(panel))
    assert any("measurement_id of summary.json" in p for p in problems)
    with pytest.raises(SurefootError, match="is not what its ids say"):
        opened(run)


def test_rows_that_name_another_id_are_refused(tiny_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    (table,) = (run / "panels").glob("*/confirmation/episodes.parquet")
    meta = table_meta(table)
    for name in ("measurement_id", "interface_id"):
        write_table(table, read_table(table), PANEL_ROWS_VERSION, meta | {name: "0" * 64})
        with pytest.raises(SurefootError, match="of different evaluations"):
            opened(run)


# ---- results of before


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_results_of_before_are_compared_among_themselves(
    version: str, tmp_path: Path, tiny_run: Path
) -> None:
    old = opened(GOLDEN / version)
    assert not old.run.measurement_id
    assert isinstance(compare(old, old), Comparison)
    assert "version" in {f.name for f in construct_difference(old, opened(tiny_run))}
    lax = forged(GOLDEN / version, tmp_path / "lax", success={"velocity_error_mps": 1.3})
    refused = compare(old, opened(lax))
    assert isinstance(refused, Refusal)
    assert "success.velocity_error_mps" in {f.name for f in refused.differs}
