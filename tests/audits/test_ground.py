"""The ground is made again by a slow twin; tiles, atlases and solids of other figures are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from surefoot.audits import ground
from surefoot.audits.case import Case
from surefoot.audits.slow_ground import heights
from surefoot.terrain import Atlas, TileId, atlas, box_world, solids, tile, tiles
from surefoot.training import make_plan


@pytest.fixture
def case() -> Case:
    """A plan on terrain that has not been trained."""
    case = Case.__new__(Case)
    case.__dict__ |= {"seed": 1, "robot": make_plan("walk-rough"), "_once": {}}
    return case


def found(case: Case) -> str:
    return " ".join(f"[{f.cause}] {f.statement}" for f in ground.look(case))


def test_the_ground_of_a_task_is_what_it_says(case: Case) -> None:
    assert found(case) == ""


@pytest.mark.parametrize("cls", tiles.TRAINED + tiles.HELD_OUT)
def test_the_twin_makes_every_class_to_the_sample(cls: str) -> None:
    for level, key in ((9, 1), (4, 2**20 + 77)):
        assert np.abs(tile(cls, level, key) - heights(cls, level, key)).max() <= ground.QUANTUM_M


def test_lower_levels_are_found(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    easier = tiles.Figure.at
    monkeypatch.setattr(tiles.Figure, "at", lambda self, level: easier(self, level) * 0.9)
    text = found(case)
    assert "[randomisation] Tiles of 'slope_up' are not what their levels" in text
    assert "[perturbation] Tiles of 'curbs'" in text


def test_one_pattern_for_all_keys_is_found(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tiles.draws
    monkeypatch.setattr(tiles, "draws", lambda cls, key: own(cls, 0))
    assert "Tiles of 'rough'" in found(case)


def test_a_rim_that_does_not_go_on_is_found(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    pad = np.pad

    def edge(x: Any, width: Any, mode: str = "constant") -> Any:
        return pad(x, width, mode="edge")

    monkeypatch.setattr(atlas.np, "pad", edge)
    assert "An atlas has other heights than its tile" in found(case)


def test_tiles_in_each_others_places_are_found(case: Case) -> None:
    own = case.robot.atlas()
    assert own is not None
    turned = Atlas(own.tiles, own.heights, own.origins[::-1].copy(), own.spawn_height, own.x0, own.y0, "")
    case._once["atlas"] = turned
    assert "The atlas of training has another tile" in found(case)


def test_solids_of_another_height_are_found(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def lower(one: TileId) -> solids.BoxWorld:
        world = box_world(one)
        return solids.BoxWorld(world.ground_m - 0.02, world.solids)

    monkeypatch.setattr(ground, "box_world", lower)
    assert "[panel-plant] The box world of" in found(case)
