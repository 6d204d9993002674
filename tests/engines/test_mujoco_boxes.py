"""Native MuJoCo in a box world keeps every engine's promises, and robots stand where its ground is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch

from surefoot.contract import FAST_PLANT, SurefootError, evaluation_plant
from surefoot.engines import MujocoBoxesEngine, MujocoEngine, Parameters, Start, make_engine
from surefoot.engines.conformance import (
    CHECKS,
    Check,
    assert_same,
    begin,
    default_targets,
    mask_of,
    run,
    standing,
)
from surefoot.robots import go1
from surefoot.terrain import HELD_OUT, TRAINED, Atlas, TileId, box_world, has_solids

GO1 = go1()
CLASSES = [cls for cls in (*TRAINED, *HELD_OUT) if has_solids(cls)]
EVERY = Atlas.build([TileId(cls, 6, 5) for cls in CLASSES])
PLANT = evaluation_plant(50.0, True)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """MuJoCo writes MUJOCO_LOG.TXT into the working folder when a simulation explodes."""
    monkeypatch.chdir(tmp_path)
    return


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__.removeprefix("check_"))
def test_the_box_world_conforms(check: Check) -> None:
    flat = Atlas.build([TileId("flat", 0, 0)])
    plant = FAST_PLANT.model_copy(update={"iterations": 50, "ls_iterations": 50})
    check(lambda n: MujocoBoxesEngine(GO1, plant, n, atlas=flat, threads=1))


def on_tiles(engine: MujocoEngine, atlas: Atlas, x: float = 0.0) -> Start:
    """One robot on each tile, at rest `x` ahead of its centre, above the highest ground below it."""
    start = standing(engine)
    start.tile = torch.arange(engine.num_envs)
    around = np.stack(np.meshgrid(x + np.linspace(-0.3, 0.3, 25), np.linspace(-0.3, 0.3, 25)), -1)
    highest = [box_world(one).height(around).max() for one in atlas.tiles]
    start.position[:, :2] = torch.from_numpy(atlas.origins + np.float32([x, 0.0]))
    start.position[:, 2] += torch.tensor(highest, dtype=torch.float32)
    return start


def test_a_robot_stands_on_every_class() -> None:
    with closing(MujocoBoxesEngine(GO1, PLANT, len(CLASSES), atlas=EVERY, threads=2)) as engine:
        begin(engine, on_tiles(engine, EVERY))
        last = run(engine, 50, targets=default_targets(engine))[-1]
    assert not last.failed.any()
    assert not last.trunk_contact.any()
    assert (last.gravity[:, 2] < -0.99).all()
    above = last.foot_position[..., 2] - torch.tensor(EVERY.spawn_height)[:, None]
    assert ((above > 0.019) & (above < 0.024)).all(), "feet of 0.023 m rest on the platform"
    weight = 9.81 * GO1.mass_kg
    assert torch.allclose(last.foot_force[..., 2].sum(1), torch.tensor(weight), rtol=0.02)


def test_feet_on_stairs_rest_on_their_treads() -> None:
    """Dropped astride the steps; a foot that stands on a tread is its radius above it, less what it sinks
    in."""
    stairs = Atlas.build([TileId("stairs_up", 2, 3), TileId("stairs_down", 2, 3)])
    with closing(MujocoBoxesEngine(GO1, PLANT, 2, atlas=stairs, threads=1)) as engine:
        begin(engine, on_tiles(engine, stairs, 2.0))
        last = run(engine, 100, targets=default_targets(engine))[-1]
    for k, one in enumerate(stairs.tiles):
        feet = last.foot_position[k].numpy()
        ground = box_world(one).height(feet[:, :2] - stairs.origins[k])
        on_face = last.foot_force[k, :, :2].norm(dim=1).numpy() < 0.5 * last.foot_force[k, :, 2].numpy()
        assert on_face.sum() >= 2
        assert np.abs(feet[on_face, 2] - ground[on_face] - 0.021).max() < 0.003
        assert (ground[on_face] > box_world(one).ground_m + 0.04).all(), "on steps, not on the plane below"


def test_classes_without_an_exact_form_are_refused_when_a_robot_is_put_there() -> None:
    atlas = Atlas.build([TileId("flat", 0, 0), TileId("rough", 1, 1)])
    with closing(make_engine("mujoco-boxes", GO1, PLANT, 2, atlas=atlas, threads=1)) as engine:
        start = standing(engine)
        engine.reset(mask_of(engine, [0, 1]), start, Parameters.nominal(2))
        start.tile[1] = 1
        with pytest.raises(SurefootError, match="'rough' has no exact form"):
            engine.reset(mask_of(engine, [1]), start, Parameters.nominal(2))


def test_a_plane_needs_no_box_world() -> None:
    with pytest.raises(SurefootError, match="this ground is a plane; use 'mujoco'"):
        make_engine("mujoco-boxes", GO1, FAST_PLANT, 1)


def test_any_number_of_threads_gives_the_same_bits_and_a_snapshot_goes_on_with_them() -> None:
    engines = [MujocoBoxesEngine(GO1, PLANT, len(CLASSES), atlas=EVERY, threads=k) for k in (1, 3)]
    for engine in engines:
        begin(engine, on_tiles(engine, EVERY))
    kept = engines[0].snapshot()
    one, three = (run(engine, 10) for engine in engines)
    assert_same(one[-1], three[-1], "three threads")
    start = standing(engines[1])  # all on the first tile
    begin(engines[1], start)
    engines[1].restore(kept)
    assert_same(run(engines[1], 10)[-1], one[-1], "a snapshot holds the tiles")
    for engine in engines:
        engine.close()


def test_on_a_flat_tile_it_is_native_mujoco_on_a_plane() -> None:
    flat = Atlas.build([TileId("flat", 0, 0)])
    engines = MujocoBoxesEngine(GO1, PLANT, 2, atlas=flat, threads=1), MujocoEngine(GO1, PLANT, 2, threads=1)
    for engine in engines:
        begin(engine)
    boxes, plane = (run(engine, 25)[-1] for engine in engines)
    assert_same(boxes, plane, "the same ground")
    for engine in engines:
        engine.close()
