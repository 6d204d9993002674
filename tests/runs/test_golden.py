"""Runs of every released set of schemas stay readable for ever, by the readers that everything else uses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from make_golden import expected_actions
from places import GOLDEN
from recompute import differences
from recompute_page import page_differences
from surefoot.artifacts import JsonLines, load_npz, read_json, read_table, table_meta
from surefoot.contract import SeedPlan, SurefootError
from surefoot.policy.bundle import PolicyBundle, PolicyCard, read_policy
from surefoot.reporting import write_report
from surefoot.runs import (
    RunFolder,
    checkpoint,
    load_result,
    perturbed,
    read_ledger,
    read_rows,
    read_summary,
)
from surefoot.runs.folder import EPISODES_VERSION, PANEL_ROWS_VERSION, STATES_VERSION, RunRecord
from surefoot.statistics import PanelSummary
from surefoot.training.restore import load_policy

RUNS = sorted(p for p in GOLDEN.iterdir() if p.is_dir())
pytestmark = pytest.mark.parametrize("folder", RUNS, ids=lambda p: p.name)


def test_there_is_one_and_it_is_small(folder: Path) -> None:
    assert sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) < 300_000


def test_run_json_is_read(folder: Path) -> None:
    record = RunFolder.open(folder).record
    assert record.status == "finished"
    assert record.confirmation is not None
    assert record.figures["updates"] == 6
    assert record.contract.name == record.task == "walk-flat"
    assert record.accounting.samples_per_update == record.recipe.horizon * record.recipe.envs
    assert len(record.strata) == record.accounting.strata


def test_its_seeds_still_draw_the_same_numbers(folder: Path) -> None:
    record = RunFolder.open(folder).record
    assert isinstance(record.seeds, SeedPlan)
    for family, key in record.seed_set.items():
        env = int(family) * record.seeds.envs_per_family
        assert f"{int(record.seeds.episode_key(env, 0)):016x}" == key


def test_the_ledger_is_read(folder: Path) -> None:
    run = RunFolder.open(folder)
    rows, torn = run.ledger.read()
    assert not torn
    assert [r["update"] for r in rows] == [1, 2, 3, 4, 5, 6]
    for row in rows:
        assert row["samples"] == row["update"] * run.record.accounting.samples_per_update
        assert {f"reward.{t.name}" for t in run.record.contract.rewards} <= row.keys()


def test_old_ledgers_are_read_under_the_names_of_today(folder: Path, tmp_path: Path) -> None:
    path = folder / "ledger.jsonl"
    raw, (rows, _) = JsonLines(path).rows(), read_ledger(path)
    for old, new in zip(raw, rows, strict=True):
        if old["schema_version"] == 1:
            assert new["seconds.environment"] == old["seconds.physics"] + old["seconds.task"]
        assert not {"seconds.physics", "seconds.task"} & new.keys()
    later = tmp_path / "ledger.jsonl"
    later.write_text(json.dumps(raw[0] | {"schema_version": 99}) + "\n")
    with pytest.raises(SurefootError, match="upgrade Surefoot"):
        read_ledger(later)


def test_the_episodes_are_read(folder: Path) -> None:
    run = RunFolder.open(folder)
    table = read_table(folder / "episodes", newest=EPISODES_VERSION)
    assert len(table["return"]) == sum(r["episode.count"] for r in run.ledger.rows()) > 0
    terms = np.sum([table[f"return.{t.name}"] for t in run.record.contract.rewards], 0)
    np.testing.assert_allclose(table["return"], terms, rtol=1e-5, atol=1e-5)


def test_the_checkpoint_is_read_and_its_policy_acts_as_it_did(folder: Path) -> None:
    found, bundle = load_policy(RunFolder.open(folder), "best")
    assert found.meta["update"] in (3, 6)
    assert {k.split(".")[0] for k in found.tensors} == {"learner", "env", "policy"}
    expected = json.loads((folder / "expected.json").read_text())["actions"]
    assert expected_actions(folder) == pytest.approx(expected, abs=1e-5)
    exported = checkpoint.load_checkpoint(folder / "policy.safetensors")
    again = PolicyBundle(PolicyCard.model_validate(exported.meta["policy"]), exported.tensors)
    assert again.card == bundle.card
    assert all((again.tensors[k] == v).all() for k, v in bundle.tensors.items())


def test_the_panel_folder_is_read(folder: Path) -> None:
    record = RunFolder.open(folder).record
    (panel,) = (folder / "panels").glob("*/confirmation")
    summary = read_json(panel / "summary.json", PanelSummary)
    assert summary == record.confirmation
    rows = table = read_table(panel / "episodes.parquet", newest=PANEL_ROWS_VERSION)
    if "column" in rows:  # from version 2 on
        nominal = (rows["column"] == "nominal") & (rows["engine"] == summary.engine)
        rows = {k: v[nominal] for k, v in rows.items()}
    assert len(rows["success"]) == summary.episodes
    assert rows["success"].mean() == pytest.approx(summary.success)
    assert table_meta(panel / "episodes.parquet")["construct_id"] == summary.construct_id
    (trace,) = (panel / "traces").glob("*.npz")
    i = np.flatnonzero(table["trace"] == trace.stem)[0] if "trace" in table else int(trace.stem)
    assert len(load_npz(trace)["position"]) == table["steps"][i]


def test_rows_of_every_version_say_which_pass_they_are_of(folder: Path) -> None:
    """Version 1 did not: it is read as what it was, and postmortem, comparison and page see one layout."""
    run = RunFolder.open(folder)
    (panel,) = (folder / "panels").glob("*/confirmation")
    summary = read_summary(panel)
    rows = read_rows(panel, summary)
    nominal = (rows["column"] == "nominal") & (rows["policy"] == "trained") & (rows["perturbation"] == "")
    assert (nominal & (rows["engine"] == summary.engine)).sum() == summary.episodes
    assert set(rows["strength"][nominal].tolist()) == {0.0}
    result = load_result(run)
    assert (result.engine, len(result.rows["success"])) == (summary.engine, summary.episodes)
    disturbed = [c.episodes for c in summary.columns if c.perturbation and c.policy == "trained"]
    assert len(perturbed(result)) == sum(disturbed)


def test_policies_scored_while_training_are_read(folder: Path) -> None:
    """From version 2 on they are kept beside their rows."""
    found = list((folder / "panels").glob("*/selection-*"))
    assert len(found) == (0 if folder.name == "v1" else 1)
    for panel in found:
        summary = read_json(panel / "summary.json", PanelSummary)
        policy = read_policy(panel / "policy.safetensors")
        assert policy.normaliser_digest == summary.normaliser
        action, _ = policy(torch.zeros(1, sum(t.size for t in policy.card.observation)), torch.zeros(1, 0))
        assert action.shape == (1, 12)


def test_it_can_be_reported_and_its_figures_are_those_of_its_rows(folder: Path, tmp_path: Path) -> None:
    page = write_report([folder], tmp_path / "r.html")
    assert 'data-figure="success"' in page.read_text("utf-8")
    if folder.name != "v1":  # its summary had no columns, and its page few figures
        assert page_differences(folder, page) == {}
        (panel,) = (folder / "panels").glob("*/confirmation")
        assert differences(panel) == {}


def test_the_newest_one_has_the_present_schemas(folder: Path) -> None:
    if folder != RUNS[-1]:
        return
    record = json.loads((folder / "run.json").read_text())
    assert record["schema_version"] == RunRecord.model_fields["schema_version"].default
    (panel,) = (folder / "panels").glob("*/confirmation")
    written = json.loads((panel / "summary.json").read_text())
    assert written["schema_version"] == PanelSummary.model_fields["schema_version"].default
    assert written.keys() == PanelSummary.model_fields.keys()
    assert read_table(panel / "episodes.parquet", newest=PANEL_ROWS_VERSION).keys() >= {"label", "column"}
    (trace,) = (panel / "traces").glob("*.npz")
    assert int(load_npz(trace)["schema_version"]) == STATES_VERSION
    assert any(c["perturbation"] for c in written["columns"])
