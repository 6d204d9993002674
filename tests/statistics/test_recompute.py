"""Every figure of a summary equals the one that an independent script recomputes from the rows on disk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recompute import differences, recompute
from recompute_page import Figures, page_differences
from surefoot.contract import TaskContract
from surefoot.reporting import write_report
from surefoot.runs import RunFolder
from surefoot.statistics import PassInfo, summarise
from surefoot.tasks import task


@pytest.fixture(scope="module")
def contract() -> TaskContract:
    return task("walk-flat").contract


def write(folder: Path, families: int, contract: TaskContract, success: float = 0.8) -> Path:
    """A panel folder with made-up rows of which some errors are not measured."""
    rng = np.random.default_rng(families)
    n = families * 5 - 2  # the last family is smaller
    family = np.arange(n) // 5
    ease = rng.normal(size=families)[family]
    rows = {
        "family": family,
        "success": rng.normal(size=n) + ease < 1.0 if success < 1 else np.ones(n, bool),
        "fall": rng.random(n) < 0.1,
        "reason": np.where(rng.random(n) < 0.1, "tilted", "timeout"),
        "terrain": np.where(family % 2, "flat", "rough"),
        "steps": rng.integers(1, 500, n),
        "velocity_error_mps": np.where(rng.random(n) < 0.1, np.nan, np.exp(0.3 * ease + rng.normal(size=n))),
        "yaw_error_radps": rng.random(n),
        "cost_of_transport": np.full(n, np.nan),
        "torque_saturation": rng.random(n),
        "return": 20 + 3 * ease + rng.normal(size=n),
    }
    rows[contract.safety.name] = rows.get(contract.safety.name, rng.random(n))
    info = PassInfo(
        panel="p", panel_digest="d", half="all", construct_id="c", training_id="t", checkpoint="k",
        engine="mujoco", seconds=1.0, steps=100,
    )  # fmt: skip
    made = summarise(rows, contract, info)
    folder.mkdir()
    pq.write_table(pa.table({k: pa.array(v) for k, v in rows.items()}), folder / "episodes.parquet")
    (folder / "summary.json").write_text(made.model_dump_json())
    return folder


@pytest.mark.parametrize(("families", "success"), [(6, 0.8), (20, 1.0), (40, 0.8)])
def test_every_figure_is_that_of_the_rows(
    tmp_path: Path, contract: TaskContract, families: int, success: float
) -> None:
    folder = write(tmp_path / "panel", families, contract, success)
    written, _ = recompute(folder)
    assert len(written) > 40
    assert differences(folder) == {}


def test_a_changed_figure_is_noticed(tmp_path: Path, contract: TaskContract) -> None:
    folder = write(tmp_path / "panel", 12, contract)
    summary = json.loads((folder / "summary.json").read_text())
    summary["fall_high"] *= 1.001
    summary["figures"]["return_iqm"]["n_eff"] += 0.01
    (folder / "summary.json").write_text(json.dumps(summary))
    assert differences(folder).keys() == {"fall_high", "figures.return_iqm.n_eff"}


def test_a_changed_row_is_noticed(tiny_run: Path, tmp_path: Path) -> None:
    (panel,) = (tiny_run / "panels").glob("*/confirmation")
    assert differences(panel) == {}, "as the run wrote it"
    copy = tmp_path / "panel"
    shutil.copytree(panel, copy)
    table = pq.read_table(copy / "episodes.parquet")
    flipped = [not table.column("success")[0].as_py(), *table.column("success").to_pylist()[1:]]
    at = table.column_names.index("success")
    pq.write_table(table.set_column(at, "success", pa.array(flipped)), copy / "episodes.parquet")
    assert "success" in differences(copy)


def test_a_run_states_what_its_panel_folder_says(tiny_run: Path) -> None:
    record = RunFolder.open(tiny_run).record
    assert record.confirmation is not None
    (panel,) = (tiny_run / "panels").glob("*/confirmation")
    written = json.loads((panel / "summary.json").read_text())
    assert json.loads(record.confirmation.model_dump_json()) == written
    for name, f in record.confirmation.figures.items():
        assert f.n >= f.n_eff > 0, name


# ---- the page


def test_every_figure_on_the_page_is_that_of_the_files(tiny_run: Path, tmp_path: Path) -> None:
    page = write_report([tiny_run], tmp_path / "r.html", 2.0)
    found = {name for name, _, _ in Figures(page.read_text("utf-8")).found}
    kinds = {
        "success",
        "cost",
        "nominal@mujoco.fall",
        "friction_0.3@stride.change",
        "baseline:random.success",
    }
    assert kinds <= found
    assert sum(n.startswith("stratum.") for n in found) > 3
    assert page_differences(tiny_run, page, 2.0) == {}


def test_a_changed_figure_or_text_on_the_page_is_noticed(tiny_run: Path, tmp_path: Path) -> None:
    page = write_report([tiny_run], tmp_path / "r.html")
    text = page.read_text("utf-8")
    for name in ("fall", "payload_+3kg@stride.velocity_error", "kl"):
        (about,) = [a for n, a, _ in Figures(text).found if n == name]
        was = f'data-figure="{name}" data-value="{about["data-value"]}"'
        assert was in text
        page.write_text(text.replace(was, f'data-figure="{name}" data-value="0.123"'), "utf-8")
        assert f"{name}.value" in page_differences(tiny_run, page), name
    (shown,) = [t for n, _, t in Figures(text).found if n == "steps_per_second"]
    page.write_text(text.replace(f">{shown}<", ">1,234,567<"), "utf-8")
    assert "steps_per_second.text" in page_differences(tiny_run, page)
    page.write_text(text.replace('data-figure="kl"', 'data-figure="made.up"'), "utf-8")
    assert "made.up" in page_differences(tiny_run, page)
