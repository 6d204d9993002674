"""On terrain the nominal column is also played in the box world, and the two are compared class by class."""

from __future__ import annotations

import numpy as np
import pytest

from surefoot.contract import BOX_WORLD, REFERENCE, Panel, make_panel, second_simulator, simulator
from surefoot.evaluation import Passes, evaluate_panel
from surefoot.policy import baseline
from surefoot.statistics import PanelResult, PassInfo, summarise
from surefoot.statistics.columns import agreement, split_columns
from surefoot.tasks import task

ROUGH = task("walk-rough")


@pytest.fixture(scope="module")
def result() -> PanelResult:
    """A second of two scenarios a class, by a robot that trots open-loop."""
    panel = make_panel("walk-rough-v1")
    held = panel.select("confirmation")
    kept = [s for c in sorted({s.terrain.cls for s in held}) for s in held if s.terrain.cls == c][::8]
    calm = tuple(s.model_copy(update={"pushes": ()}) for s in kept)
    short = Panel(name="short", episode_s=1.0, seeds=panel.seeds, scenarios=calm)
    trot = baseline("open-loop-trot", ROUGH.contract, ROUGH.robot, 50.0, panel.seeds)
    return evaluate_panel(ROUGH, short, "confirmation", 50.0, trot, Passes(baselines=()))[0]


def test_the_box_world_plays_the_classes_that_it_has(result: PanelResult) -> None:
    nominal = {e: r for _, e, r in split_columns(result.rows)}
    assert set(nominal) == {REFERENCE, BOX_WORLD}
    here, there = nominal[REFERENCE], nominal[BOX_WORLD]
    assert set(here["terrain"]) - set(there["terrain"]) == {"rough", "wave"}
    expected = here["scenario"][~np.isin(here["terrain"], ["rough", "wave"])]
    assert there["scenario"].tolist() == expected.tolist()


def test_engines_are_compared_on_what_both_played_and_by_class(result: PanelResult) -> None:
    nominal = {e: r for _, e, r in split_columns(result.rows)}
    agreed = agreement(nominal[REFERENCE], nominal[BOX_WORLD])
    assert (agreed.engine, agreed.reference) == (BOX_WORLD, REFERENCE)
    assert agreed.n == len(nominal[BOX_WORLD]["scenario"]) == sum(x.n for x in agreed.terrain.values())
    assert list(agreed.terrain) == sorted(set(nominal[BOX_WORLD]["terrain"]))
    changed = dict(nominal[BOX_WORLD]) | {"success": nominal[BOX_WORLD]["success"].copy()}
    stairs = changed["terrain"] == "stairs_up"
    changed["success"][stairs] ^= True
    other = agreement(nominal[REFERENCE], changed).terrain
    for cls, x in agreed.terrain.items():
        flipped = 1 - x.success_agreement if cls == "stairs_up" else x.success_agreement
        assert other[cls].success_agreement == pytest.approx(flipped)


def test_a_summary_says_that_it_is_of_terrain(result: PanelResult) -> None:
    info = PassInfo("short", "", "confirmation", "", "", "", REFERENCE, 1.0, 1)
    summary = summarise(result.rows, ROUGH.contract, info)
    assert summary.on_terrain
    assert [a.engine for a in summary.agreement] == [BOX_WORLD]
    assert summary.episodes > summary.agreement[0].n


def test_on_terrain_the_box_world_is_second() -> None:
    every = ("stride", REFERENCE, BOX_WORLD)
    assert second_simulator(every, ["stride"], on_terrain=True) == BOX_WORLD
    assert second_simulator(every, ["stride"], on_terrain=False) == REFERENCE
    assert second_simulator(["stride", REFERENCE], ["stride"], on_terrain=True) == REFERENCE
    assert second_simulator(["stride", REFERENCE], [REFERENCE], on_terrain=False) == "stride"
    assert second_simulator(["stride"], ["stride"], on_terrain=False) is None
    assert simulator(REFERENCE, on_terrain=True) == "native MuJoCo, Surefoot's surface contact"
    assert simulator(REFERENCE, on_terrain=False) == "native MuJoCo"
