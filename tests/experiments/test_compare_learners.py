"""Learners are compared on one panel and one budget, with training seeds as the independent draws."""

from __future__ import annotations

import csv
import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from places import BENCHMARKS
from surefoot.artifacts import JsonLines
from surefoot.contract import SurefootError
from surefoot.evidence.learners import LearnerComparison, compare_learners, rows_of
from surefoot.reporting.learners import learner_chart, learner_page
from surefoot.runs import RunFolder
from surefoot.runs.results import load_result
from tiny import surefoot


def twin(run: Path, to: Path, learner: str, seed: int, **changes: Any) -> RunFolder:
    """A copy of a run under another learner's name and seed; nothing has to be trained for arithmetic."""
    shutil.copytree(run, to)
    record = json.loads((to / "run.json").read_text())
    record["learner"], record["id"], record["seeds"]["root"] = learner, to.name, seed
    for path, value in changes.items():
        *parents, last = path.split("__")
        at = record
        for key in parents:
            at = at[key]
        at[last] = value
    (to / "run.json").write_text(json.dumps(record))
    return RunFolder.open(to)


def set_success(run: RunFolder, values: list[float]) -> None:
    """Of the evaluations in its ledger, one row per update."""
    rows = run.ledger.rows()
    run.ledger.path.unlink()
    ledger = JsonLines(run.ledger.path, chained=True)
    for row, value in zip(rows, values, strict=True):
        ledger.append(row | {"evaluation.success": value})
    ledger.close()


@pytest.fixture
def runs(tiny_run: Path, tmp_path: Path) -> list[RunFolder]:
    """Two learners, two seeds each."""
    return [
        twin(tiny_run, tmp_path / f"{learner}-{seed}", learner, seed)
        for learner in ("ppo", "other")
        for seed in (1, 2)
    ]


def test_intervals_take_training_seeds_for_the_draws(runs: list[RunFolder]) -> None:
    found = compare_learners(runs)
    assert [of.learner for of in found.learners] == ["ppo", "other"]
    mine = found.learners[0]
    assert mine.seeds == (1, 2)
    by_seed = sorted(float(load_result(r).rows["success"].mean()) for r in runs[:2])
    f = mine.columns["nominal"]
    assert (f.value, f.low, f.high) == (sum(by_seed) / 2, *by_seed), "the typical seed, and the range of two"
    assert (f.n, f.unit, f.confidence) == (2, "seed", 0.5)
    names = {c.column for c in runs[0].record.confirmation.columns if c.policy == "trained"}  # type: ignore[union-attr]
    assert set(mine.columns) == names, "every disturbance that was measured"
    assert mine.host_syncs_per_step is None, "nothing to count on a CPU"


def test_seeds_that_did_not_get_there_are_not_averaged_away(runs: list[RunFolder]) -> None:
    set_success(runs[0], [0.1, 0.5, 0.96, 0.9, 0.97, 1.0])
    set_success(runs[1], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    set_success(runs[2], [0.95] * 6)
    set_success(runs[3], [0.1, 0.95, 0.1, 0.1, 0.1, 0.1])
    one, two = (of.reached for of in compare_learners(runs).learners)
    assert (one.seeds, one.of, one.samples) == (1, 2, (3 * 256, None))
    assert one.samples_figure is None, "a mean over those that did would flatter the others"
    assert (two.seeds, two.samples) == (2, (256, 2 * 256))
    assert two.samples_figure is not None
    assert two.samples_figure.value == 1.5 * 256


def test_the_curve_is_the_mean_over_seeds_and_their_range(runs: list[RunFolder]) -> None:
    set_success(runs[0], [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    set_success(runs[1], [0.0, 0.0, 0.0, 0.0, 0.0, 0.5])
    last = compare_learners(runs).learners[0].curve[-1]
    assert (last.samples, last.success, last.lowest, last.highest) == (6 * 256, 0.75, 0.5, 1.0)


def test_other_panels_and_budgets_are_refused(tiny_run: Path, runs: list[RunFolder], tmp_path: Path) -> None:
    summary = runs[3].path / "panels" / "tiny-v1" / "confirmation" / "summary.json"
    kept = summary.read_text()
    other = json.loads(kept) | {"panel_digest": "0" * 64}
    summary.write_text(json.dumps(other))
    with pytest.raises(SurefootError, match=r"measurement\.panel_digest of summary\.json"):
        compare_learners(runs)
    summary.write_text(kept)
    longer = twin(tiny_run, tmp_path / "longer", "third", 1, figures__samples=1)
    with pytest.raises(SurefootError, match="different sample budgets"):
        compare_learners([*runs, longer])


def test_failed_seeds_are_named_and_in_no_figure(
    tiny_run: Path, runs: list[RunFolder], tmp_path: Path
) -> None:
    broken = twin(tiny_run, tmp_path / "broken", "other", 3, status="failed", confirmation=None)
    of = compare_learners([*runs, broken]).learners[1]
    assert of.failed == (3,)
    assert of.seeds == (1, 2)


def test_the_page_and_the_chart_say_what_the_json_says(runs: list[RunFolder]) -> None:
    found = compare_learners(runs)
    page, chart = learner_page(found), learner_chart(found)
    for name in ("ppo", "other"):
        assert name in page
        assert name in chart
    assert chart.startswith("<svg xmlns")
    assert "http" not in page.replace("http-equiv", ""), "opens without a network"
    assert [row["learner"] for row in rows_of(found)] == ["ppo", "other"]


def test_the_chart_shows_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    script = BENCHMARKS / "learners.py"
    monkeypatch.syspath_prepend(script.parent)
    spec = importlib.util.spec_from_file_location("learners_benchmark", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = LearnerComparison.model_validate(json.loads(module.FOUND.read_text())["comparison"])
    assert module.CHART.read_text() == learner_chart(found)
    assert len({of.learner for of in found.learners}) == 7


def test_the_command_trains_all_of_them_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    out = tmp_path / "learners"
    command = (
        "compare-learners", "tiny:walk", "--learners", "ppo", "cleanrl", "--seeds", "1", "--updates", "3",
        "--perturb", "push_1.0", "--out", str(out),
    )  # fmt: skip
    assert surefoot(*command) == 0
    found = LearnerComparison.model_validate_json((out / "comparison.json").read_text())
    assert [(of.learner, of.seeds) for of in found.learners] == [("ppo", (1,)), ("cleanrl", (1,))]
    assert found.samples == 3 * 256
    with (out / "comparison.csv").open() as text:
        rows = list(csv.DictReader(text))
    assert [row["learner"] for row in rows] == ["ppo", "cleanrl"]
    assert float(rows[1]["success.push_1.0"]) == found.learners[1].columns["push_1.0"].value
    kept = (out / "cleanrl-seed1" / "run.json").read_bytes()
    assert surefoot(*command) == 0
    assert (out / "cleanrl-seed1" / "run.json").read_bytes() == kept, "not trained again"
    assert surefoot(*[a if a != "3" else "4" for a in command]) == 2, "another budget, another folder"
