"""Drawn panels played: fewer scenarios in perturbed columns, tiles of their own, looks, replays."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import tiny
from surefoot.artifacts import read_table
from surefoot.contract import Column, DrawnPanel, SurefootError, columns, load_panel
from surefoot.evaluation import PanelEvaluator, look_until_decided
from surefoot.evaluation.layout import BATCH, Setting
from surefoot.policy.bundle import HoldPose
from surefoot.statistics import LOOKS
from surefoot.tasks import task
from surefoot.training.looks import check_sequential
from surefoot.training.plan_makers import make_plan
from tiny import surefoot


def short(name: str, scenarios: int, perturbed: int) -> DrawnPanel:
    """A shipped panel, cut; its columns play fewer."""
    panel = load_panel(f"{name}+{scenarios}scenarios")
    assert isinstance(panel, DrawnPanel)
    return panel.model_copy(update={"draw": panel.draw.model_copy(update={"perturbed": perturbed})})


def test_columns_play_the_first_of_what_the_nominal_one_plays() -> None:
    panel = short("walk-flat-v2", 8, 3)
    evaluator = PanelEvaluator(tiny.walk(), panel, "all", 50.0, engine="stride")
    nominal = evaluator.run(HoldPose(12), traces=False).rows
    (column,) = columns(panel, ("push_1.5",))
    pushed = evaluator.run(HoldPose(12), column, traces=False).rows
    evaluator.close()
    assert len(nominal["key"]) == 16
    assert pushed["key"].tolist() == [*nominal["key"][:3], *nominal["key"][8:11]], "of either half"
    assert (nominal["family"] == [s.family for s in panel.scenarios]).all()
    assert set(pushed["beyond"]) >= {"push"}, "what a column makes of a scenario is labelled too"
    assert {b for x in nominal["beyond"] for b in x.split(",") if b} <= set(panel.draw.spans)


def test_a_tile_for_every_scenario_in_batches_of_one_size() -> None:
    panel = load_panel("walk-rough-v2")
    setting = Setting(task("walk-rough"), panel, "confirmation", 50.0, "mujoco", "cpu")  # type: ignore[arg-type]
    (stones,) = columns(panel, ("stones_4",))
    confirm, shapes, seen = panel.select("confirmation"), set(), set()
    for batch in (0, 1):
        for column in (Column(), stones):
            atlas = setting.atlas(batch, column)
            assert atlas is not None
            shapes.add(atlas.heights.shape)
            mine = confirm[batch * BATCH : (batch + 1) * BATCH]
            keys = {s.terrain.key for s in mine}
            assert keys <= {t.key for t in atlas.tiles}
            assert {t.cls for t in atlas.tiles if t.key in keys} == (
                {"stones"} if column.name == "stones_4" else {s.terrain.cls for s in mine}
            )
            seen |= keys
    assert len(shapes) == 1, "one kernel for all"
    assert len(seen) == len(confirm)


def test_looks_end_when_the_verdict_is_decided_and_rows_say_so() -> None:
    own = load_panel("walk-flat-v2+8scenarios")
    panel, found = look_until_decided(tiny.walk(), own, 50.0, HoldPose(12), "stride")
    looks = found.rows["look"]
    played = len(panel.select("confirmation"))
    assert played in [8 * k for k in LOOKS]
    assert played < 64, "a robot that does nothing is soon found out"
    assert looks.tolist() == sorted(looks.tolist())
    assert looks.max() == 1 + [8 * k for k in LOOKS].index(played)
    assert found.rows["family"].tolist() == [s.family for s in panel.select("confirmation")]
    evaluator = PanelEvaluator(tiny.walk(), panel, "confirmation", 50.0, engine="stride")
    at_once = evaluator.run(HoldPose(12)).rows
    evaluator.close()
    assert (at_once["states_digest"] == found.rows["states_digest"]).all(), "the same episodes, to the bit"


def test_only_a_drawn_panel_can_be_looked_at_as_it_grows() -> None:
    plan = make_plan("walk-flat")
    assert check_sequential(plan) is plan
    for wrong, half in ((plan, "selection"), (plan.judged_on("walk-flat-v1", "auto"), "confirmation")):
        with pytest.raises(SurefootError, match="leave it out"):
            check_sequential(wrong, half)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("panel", "engine", "perturb"),
    [
        ("walk-flat-v2", "auto", ("bias_x1", "stuck_4", "obs_delay_2")),
        ("walk-rough-v2", "mujoco", ("curbs_4",)),
    ],
)
def test_what_was_played_is_replayed_to_the_bit(
    panel: str, engine: str, perturb: tuple[str, ...], tiny_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    options = ("--scenarios", "3", "--no-baselines", "--engine", engine, "--perturb", *perturb)
    assert surefoot("evaluate", run, "--panel", panel, *options) == 0
    (folder,) = [p.parent for p in (run / "panels").glob(f"{panel}*/*/summary.json")]
    rows, summary = read_table(folder / "episodes.parquet"), json.loads((folder / "summary.json").read_text())
    assert summary["panel"] == folder.parent.name
    assert summary["look"] == rows["look"].max() == 0
    assert summary["figures"]["success"]["unit"] == "scenario"
    where = f"{folder.parent.name}/{folder.name}"
    for column in ("nominal", *perturb):
        number = str(rows["scenario"][rows["column"] == column][-1])
        asked = () if column == "nominal" else ("--perturb", column)
        assert surefoot("replay", run, number, "--where", where, *asked, "--verify") == 0, column
