"""Runs are compared on the scenarios they share, and refused by name where they were measured differently."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extended import restate
from remeasured import under_another_contract
from surefoot.artifacts import read_table, write_table
from surefoot.contract import SurefootError
from surefoot.evidence.compare import Comparison, Refusal, compare, shared_scenarios
from surefoot.printing import forest_bar
from surefoot.runs import RunFolder
from surefoot.runs.results import load_result
from surefoot.statistics import paired
from surefoot.statistics.strata import panel_strata
from tiny import surefoot


def copy(run: Path, to: Path) -> Path:
    shutil.copytree(run, to)
    return to


def change_rows(run: Path, **columns: Any) -> None:
    """Rewrites columns of the confirmation rows."""
    (folder,) = (run / "panels").glob("*/confirmation")
    rows = read_table(folder / "episodes.parquet")
    rows |= {k: f(rows) for k, f in columns.items()}
    write_table(folder / "episodes.parquet", rows, 1, {})


def only_nominal(run: Path) -> None:
    """Leaves the nominal pass on native MuJoCo alone."""
    (folder,) = (run / "panels").glob("*/confirmation")
    rows = read_table(folder / "episodes.parquet")
    keep = (rows["column"] == "nominal") & (rows["engine"] == "mujoco")
    write_table(folder / "episodes.parquet", {k: v[keep] for k, v in rows.items()}, 2, {})


@pytest.fixture
def pair(tiny_run: Path, tmp_path: Path) -> tuple[Path, Path]:
    pair = copy(tiny_run, tmp_path / "a"), copy(tiny_run, tmp_path / "b")
    for run in pair:
        only_nominal(run)
        restate(run)
    return pair


def between(a: Path, b: Path, **options: Any) -> Comparison | Refusal:
    return compare(load_result(RunFolder.open(a)), load_result(RunFolder.open(b)), **options)


# ---- what is compared


def test_differences_are_those_of_the_same_scenarios(pair: tuple[Path, Path]) -> None:
    a, b = pair
    change_rows(b, velocity_error_mps=lambda r: r["velocity_error_mps"] - 0.1)
    # Rows may be in any order on disk; scenarios are matched by their key.
    order = np.random.default_rng(1).permutation(8)
    names = list(read_table(next((b / "panels").glob("*/confirmation")) / "episodes.parquet"))
    change_rows(b, **{k: (lambda r, k=k: r[k][order]) for k in names})
    found = between(a, b)
    assert isinstance(found, Comparison)
    d = found.metrics["velocity error m/s"]
    known = np.isfinite(load_result(RunFolder.open(a)).rows["velocity_error_mps"]).sum()
    assert d.n == known
    assert d.value == pytest.approx(-0.1, abs=1e-6)
    assert d.families == 2
    assert d.low < -1.5, "two families say next to nothing about differences of up to 2 m/s"
    assert d.high > 1.5
    assert found.metrics["success"].n == found.n == 8
    assert "return" not in found.metrics, "what is paid belongs to the treatment"


def test_every_scenario_is_in_one_stratum_of_each_factor(tiny_run: Path) -> None:
    result = load_result(RunFolder.open(tiny_run))
    strata = panel_strata(result.rows, result.run.contract)
    for factor in ("friction", "payload", "command"):
        assert (np.sum([m for k, m in strata.items() if k.startswith(factor)], 0) == 1).all()


def test_strata_hold_the_differences_of_their_scenarios(pair: tuple[Path, Path]) -> None:
    a, b = pair
    change_rows(a, success=lambda r: r["command_vx"] <= 0)
    change_rows(b, success=lambda r: np.ones(len(r["family"]), bool))
    found = between(a, b)
    assert isinstance(found, Comparison)
    assert found.strata["command forward"].value == 1
    assert found.strata["command backward"].value == 0


def test_a_scenario_with_another_command_is_another_scenario(pair: tuple[Path, Path]) -> None:
    a, b = pair
    change_rows(b, command_vx=lambda r: r["command_vx"] + np.eye(8)[0])
    pairs = shared_scenarios(load_result(RunFolder.open(a)), load_result(RunFolder.open(b)))
    assert pairs[:, 0].tolist() == list(range(1, 8))


def test_columns_and_engines_are_told_apart(pair: tuple[Path, Path]) -> None:
    """Rows with perturbations: the nominal ones on native MuJoCo are meant unless another column is asked."""
    a, b = pair
    for run in pair:
        (folder,) = (run / "panels").glob("*/confirmation")
        rows = read_table(folder / "episodes.parquet")
        many = {k: np.concatenate([v] * 3) for k, v in rows.items()}
        many["column"] = np.repeat(["nominal", "nominal", "friction_0.3"], 8)
        many["engine"] = np.repeat(["mujoco", "stride", "stride"], 8)
        many["success"] = np.repeat([True, False, run == b], 8)
        write_table(folder / "episodes.parquet", many, 1, {})
    result = load_result(RunFolder.open(a))
    assert (result.engine, len(result.rows["success"])) == ("mujoco", 8)
    assert result.rows["success"].all()
    ice = [load_result(RunFolder.open(r), column="friction_0.3") for r in pair]
    assert ice[0].engine == "stride"
    found = compare(*ice, column="friction_0.3")
    assert isinstance(found, Comparison)
    assert found.metrics["success"].value == 1
    with pytest.raises(SurefootError, match=r"choose one of: friction_0\.3, nominal"):
        load_result(RunFolder.open(a), column="friction_0.4")


# ---- what is refused


def test_another_success_definition_is_refused_by_its_field(
    pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = pair
    success = RunFolder.open(b).record.contract.success
    under_another_contract(b, success=success.model_copy(update={"velocity_error_mps": 0.5}))
    assert surefoot("compare", a, b) == 3
    said = capsys.readouterr().out
    assert "success.velocity_error_mps" in said
    assert "0.25" in said
    assert "0.5" in said
    assert "Differences" not in said
    assert "--shared-panel" not in said, "another panel would not help"
    assert surefoot("compare", a, b, "--shared-panel", "--json") == 3
    (found,) = json.loads(capsys.readouterr().out)
    assert not found["comparable"]
    assert {"name": "success.velocity_error_mps", "a": 0.25, "b": 0.5} in found["differs"]
    assert found["shared"] == 8


def test_an_id_that_its_fields_do_not_give_is_refused(pair: tuple[Path, Path]) -> None:
    a, b = pair
    (panel,) = (b / "panels").glob("*/confirmation")
    summary = json.loads((panel / "summary.json").read_text())
    for name in ("construct_id", "measurement_id"):
        (panel / "summary.json").write_text(json.dumps(summary | {name: "0" * 64}))
        with pytest.raises(SurefootError, match=f"{name} of summary.json is 000000000000"):
            between(a, b)


def test_another_panel_is_refused_and_the_shared_part_offered(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = tmp_path / "small"
    options = ("--eval-families", "2", "--updates", "1", "--quiet", "--tracker", "none")
    assert surefoot("train", "tiny:walk", "--out", small, *options) == 0
    capsys.readouterr()
    assert surefoot("compare", tiny_run, small) == 3
    said = capsys.readouterr().out
    assert "panel_digest" in said
    assert "They share 4 scenarios; compare on those with --shared-panel" in said
    assert surefoot("compare", tiny_run, small, "--shared-panel") == 0
    said = capsys.readouterr().out
    assert "4 scenarios that both have" in said
    assert "recipe.eval_families" in said
    assert surefoot("compare", tiny_run, small, "--shared-panel", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["comparable"]
    assert found["n"] == 4
    assert {"n", "n_eff", "p", "low", "high", "detectable"} <= found["metrics"]["success"].keys()


def test_training_differences_are_shown_and_not_refused(
    pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = pair
    run = RunFolder.open(b)
    factors = tuple(
        f.model_copy(update={"train": (0.1, 2.0)}) if f.name == "friction" else f
        for f in run.record.contract.factors
    )
    changed = run.record.contract.model_copy(update={"factors": factors})
    run.write_record(contract=changed, contract_digest=changed.digest, engine="elsewhere")
    for name in ("policy.safetensors", "checkpoints/confirmed.safetensors"):  # which name the old contract
        (b / name).unlink()
    assert surefoot("compare", a, b) == 0
    said = capsys.readouterr().out
    assert "contract.factors.friction.train" in said
    assert "trained on different distributions of friction" in said
    assert "elsewhere" in said


def test_three_runs_are_compared_with_the_first(
    pair: tuple[Path, Path], tiny_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert surefoot("compare", *pair, tiny_run, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)) == 2


# ---- bad input


def test_what_cannot_be_compared_says_what_to_do(
    pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = pair
    for arguments, hint in (
        ((a,), "two runs or more"),
        ((a, b, "--panel-half", "all"), "surefoot evaluate"),
        ((a, b, "--panel-half", "confirm"), "did you mean 'confirmation'"),
        ((a, b, "--column", "friction_0.3"), "choose one of: nominal"),
        ((a, b / "panels"), "no run.json"),
    ):
        assert surefoot("compare", *arguments) == 2
        assert hint in capsys.readouterr().err.replace("\n", " ")
    (panel,) = (b / "panels").glob("*/confirmation")
    shutil.rmtree(panel)
    assert surefoot("compare", a, b) == 2
    assert "--resume" in capsys.readouterr().err


def test_selection_half_is_that_of_the_chosen_checkpoint(pair: tuple[Path, Path]) -> None:
    result = load_result(RunFolder.open(pair[0]), "selection")
    assert result.summary.half == "selection"
    assert result.folder.name == f"selection-update-{result.run.figures['chosen_update']:06d}"


def test_forest_bars_show_where_zero_is() -> None:
    better = paired(np.zeros(60), 0.5 + 0.01 * np.arange(60), np.arange(60) // 3, (0, 1))
    bar = forest_bar(better, 1.0)
    assert len(bar) == 21
    assert bar[10] == "|"
    assert bar.index("o") > 10
    assert "-" not in bar[:10]
