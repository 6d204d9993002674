"""Runs of every released set of schemas stay readable for ever, by the readers that everything else uses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from make_golden import expected_actions
from surefoot.artifacts import load_npz, read_json, read_table, table_meta
from surefoot.commands import load_policy
from surefoot.contract import SeedPlan
from surefoot.evidence import PanelSummary, RunFolder
from surefoot.evidence.run import EPISODES_VERSION, PANEL_ROWS_VERSION
from surefoot.learners import checkpoint
from surefoot.policy import PolicyBundle, PolicyCard

GOLDEN = sorted(p for p in (Path(__file__).parent / "golden").iterdir() if p.is_dir())
pytestmark = pytest.mark.parametrize("folder", GOLDEN, ids=lambda p: p.name)


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
    exported = checkpoint.load(folder / "policy.safetensors")
    again = PolicyBundle(PolicyCard.model_validate(exported.meta["policy"]), exported.tensors)
    assert again.card == bundle.card
    assert all((again.tensors[k] == v).all() for k, v in bundle.tensors.items())


def test_the_panel_folder_is_read(folder: Path) -> None:
    record = RunFolder.open(folder).record
    (panel,) = (folder / "panels").glob("*/*")
    summary = read_json(panel / "summary.json", PanelSummary)
    assert summary == record.confirmation
    rows = read_table(panel / "episodes.parquet", newest=PANEL_ROWS_VERSION)
    if "column" in rows:  # from version 2 on
        nominal = (rows["column"] == "nominal") & (rows["engine"] == summary.engine)
        rows = {k: v[nominal] for k, v in rows.items()}
    assert len(rows["success"]) == summary.episodes
    assert rows["success"].mean() == pytest.approx(summary.success)
    assert table_meta(panel / "episodes.parquet")["construct_id"] == summary.construct_id
    (trace,) = (panel / "traces").glob("*.npz")
    i = np.flatnonzero(rows["trace"] == trace.stem)[0] if "trace" in rows else int(trace.stem)
    assert len(load_npz(trace)["position"]) == rows["steps"][i]
