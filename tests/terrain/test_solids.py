"""Claims about the box world: it has the heights of the tile wherever the ground is level, no seams to trip
on, and no form of what has none."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.contract import FAST_PLANT, SurefootError
from surefoot.engines.scene import FLOOR, build_scene
from surefoot.robots import go1
from surefoot.terrain import HELD_OUT, LEVELS, TRAINED, Atlas, TileId, box_world, has_solids, level_table
from surefoot.terrain.shapes import DIP

CLASSES = [cls for cls in (*TRAINED, *HELD_OUT) if has_solids(cls)]
STEPPED = [cls for cls in CLASSES if not cls.startswith("slope")]
RADIUS = 0.023
tile_ids = st.builds(TileId, st.sampled_from(CLASSES), st.integers(0, LEVELS - 1), st.integers(0, 2**64 - 1))


def places(seed: int, n: int = 600) -> np.ndarray:
    """Anywhere within the metre around the tile that a robot's legs reach."""
    return np.random.default_rng(seed).uniform(-4.95, 4.95, (n, 2))


def around(field: Atlas, xy: np.ndarray, reach: float) -> np.ndarray:
    """The heightfield at a place and at the corners and sides of a square around it, [n, 9]."""
    offsets = reach * np.array([(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)])
    return field.height(xy[:, None] + offsets + field.origins[0])


@given(tile_ids)
@settings(max_examples=20, deadline=None)
def test_solids_have_the_heights_of_the_tile(one: TileId) -> None:
    world, field = box_world(one), Atlas.build([one])
    xy = places(one.key % 1000)
    solid, samples = world.height(xy), around(field, xy.round(1), 0.1)
    low, high = samples.min(1), samples.max(1)
    level = high - low < 1e-6
    assert level.any()
    assert np.abs(solid - low)[level].max() < 1e-3
    # At a riser the two differ by no more than the riser, within the ramp's reach of it.
    assert (solid > low - 1e-3).all()
    assert (solid < high + 1e-3).all()


@given(tile_ids)
@settings(max_examples=10, deadline=None)
def test_solids_have_the_heights_of_every_sample(one: TileId) -> None:
    samples = np.stack(np.meshgrid(*[np.arange(-49, 50) * 0.1] * 2, indexing="ij"), -1)
    field = Atlas.build([one])
    assert np.abs(box_world(one).height(samples) - field.height(samples + field.origins[0])).max() < 2e-4


@pytest.mark.parametrize("cls", ["rough", "wave"])
def test_what_has_no_exact_form_is_refused(cls: str) -> None:
    assert not has_solids(cls)
    with pytest.raises(SurefootError, match=f"'{cls}' has no exact form as boxes"):
        box_world(TileId(cls, 3, 1))


def contacts(one: TileId, xy: np.ndarray, sunk: float) -> list[np.ndarray]:
    """Normals (without their signs) of a foot's contacts in MuJoCo, at each place, sunk into the ground below
    its centre."""
    world = box_world(one)
    model = build_scene(go1(), FAST_PLANT, world=world).model
    data = mujoco.MjData(model)
    foot = model.geom("FR_foot").id
    mujoco.mj_kinematics(model, data)
    others = [g for g in range(model.ngeom) if model.geom_bodyid[g] and g != foot]
    model.geom_contype[others] = 0
    found = []
    for (x, y), z in zip(xy, world.height(xy), strict=True):
        data.qpos[:3] += np.array([x, y, z + RADIUS - sunk]) - data.geom_xpos[foot]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_collision(model, data)
        found.append(np.abs(data.contact.frame[:, :3]))
    return found


@pytest.mark.parametrize("cls", CLASSES)
def test_a_foot_on_level_ground_feels_no_seam(cls: str) -> None:
    """Native prisms lean by 29 degrees on level ground; here nothing leans by more than solids dip."""
    one = TileId(cls, 5, 12)
    xy = places(3, 3000)
    near = around(Atlas.build([one]), xy, 0.13)
    xy = xy[np.ptp(near, axis=1) < 1e-6]
    # Where solids share level ground: on both sides of every line that some solid ends at.
    ends = np.concatenate([s.vertices[:, :2] for s in box_world(one).solids] or [np.zeros((1, 2))])
    joints = ends[np.linspace(0, len(ends) - 1, 300).astype(int)] + places(4, 300) * 0.01
    joints = joints[(np.abs(joints) < 4.9).all(1)]
    joints = joints[np.ptp(around(Atlas.build([one]), joints, 0.13), axis=1) < 1e-6]
    for normals in contacts(one, np.concatenate([xy[:300], joints]), sunk=0.002):
        assert len(normals) >= 1
        assert normals[:, 2].min() > np.cos(1.01 * np.arctan(DIP))


def test_a_foot_in_front_of_a_step_is_stopped_by_an_upright_riser() -> None:
    one = TileId("stairs_up", 9, 4)
    world = box_world(one)
    along = np.stack([np.linspace(0.5, 1.5, 2001), np.zeros(2001)], -1)
    heights = world.height(along)
    (first, *_) = np.flatnonzero(np.diff(heights) > 0.1)
    assert np.diff(heights)[first] == pytest.approx(level_table("stairs_up")[9]["riser_m"], abs=1e-3)
    (normals,) = contacts(one, along[first : first + 1] - (RADIUS - 0.002, 0.0), sunk=0.002)
    assert sorted(normals[:, 2].round(3)) == [0.0, 1.0]


def test_the_plane_is_the_ground_that_everything_stands_on() -> None:
    world = box_world(TileId("stones", 9, 2))
    model = build_scene(go1(), FAST_PLANT, world=world).model
    assert model.geom(FLOOR).type == mujoco.mjtGeom.mjGEOM_PLANE
    assert model.geom(FLOOR).pos[2] == world.ground_m == Atlas.build([TileId("stones", 9, 2)]).min_height
    assert model.nhfield == 0
