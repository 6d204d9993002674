"""Claims about terrain: tiles are reproducible and periodic; all readers of an atlas see the same ground."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints

import mujoco
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.contract.errors import SurefootError
from surefoot.terrain import (
    HELD_OUT,
    LEVELS,
    SAMPLES,
    TRAINED,
    Atlas,
    Figure,
    HeightField,
    TerrainClass,
    TileId,
    generators,
    level_table,
    mujoco_hfield,
    tile,
    wrap,
)

CLASSES = TRAINED + HELD_OUT
PYRAMIDS = ("slope_up", "slope_down", "stairs_up", "stairs_down")
each_class = pytest.mark.parametrize("cls", CLASSES)
tile_ids = st.builds(TileId, st.sampled_from(CLASSES), st.integers(0, LEVELS - 1), st.integers(0, 2**64 - 1))


@pytest.fixture(scope="module")
def atlas() -> Atlas:
    """Every class, easy and hard: 20 tiles on a 4 x 5 grid, so that rows and columns cannot be confused."""
    return Atlas.build([TileId(cls, level, 11 * level + 3) for cls in CLASSES for level in (2, 9)])


def around_centre(heights: np.ndarray, samples: int) -> np.ndarray:
    centre = SAMPLES // 2
    return heights[centre - samples : centre + samples + 1, centre - samples : centre + samples + 1]


def steps(heights: np.ndarray) -> tuple[float, float]:
    """The largest step between neighbouring samples inside the tile, and across its seam."""
    inside = max(np.abs(np.diff(heights, axis=axis)).max() for axis in (0, 1))
    seam = max(np.abs(heights[0] - heights[-1]).max(), np.abs(heights[:, 0] - heights[:, -1]).max())
    return float(inside), float(seam)


# --- tiles


@given(tile_ids)
@settings(max_examples=50, deadline=None)
def test_a_tile_is_the_same_bits_every_time(one):
    np.random.seed(one.key % 1000)  # noqa: NPY002 (global state must not matter)
    again = tile(*one)
    assert again.dtype == np.float32
    assert again.shape == (SAMPLES, SAMPLES)
    assert tile(*one).tobytes() == again.tobytes()


def test_tiles_are_pinned_across_releases():
    """A frozen panel names tiles by key: this digest changes only with a new panel and RNG version."""
    every = Atlas.build([TileId(cls, level, 7) for cls in CLASSES for level in range(LEVELS)])
    assert every.digest == "d5e302f2fd613cea17aa6456f6d72c05cf650480a5f1c9f5ff373c9478ce7d43"


def test_draws_are_plain_philox_bits():
    """What makes the pinned bits independent of numpy's distributions."""
    drawn = np.random.Generator(np.random.Philox(key=5)).random(100)
    assert (drawn == (np.random.Philox(key=5).random_raw(100) >> np.uint64(11)) * 2.0**-53).all()


@each_class
def test_keys_give_different_tiles(cls):
    distinct = len({tile(cls, 5, key).tobytes() for key in range(20)})
    if cls == "flat":
        assert distinct == 1
    else:
        # Stairs have 81 variants, so 20 keys fall together now and then; the others hardly ever.
        assert distinct >= (12 if cls.startswith("stairs") else 19)


def test_classes_do_not_share_their_draws():
    """The same key in two classes is not the same pattern: the class is part of the Philox key."""
    up, down = tile("slope_up", 9, 0), tile("slope_down", 9, 0)
    assert not np.allclose(up, -down, atol=1e-3)


@each_class
def test_tiles_join_without_a_step(cls):
    for key in range(10):
        inside, seam = steps(tile(cls, 9, key))
        assert seam <= inside
        if cls in PYRAMIDS:
            assert seam == 0.0


@pytest.mark.parametrize("cls", PYRAMIDS)
def test_pyramids_have_their_rim_at_zero(cls):
    for key in range(10):
        heights = tile(cls, 9, key)
        for edge in (heights[:3], heights[-2:], heights[:, :3], heights[:, -2:]):
            assert (edge == 0).all()


def test_wave_continues_smoothly_through_the_seam():
    """Not only no step but no kink: the second difference across the seam is that of a sine of 5 periods."""
    for key in range(10):
        around = np.roll(tile("wave", 9, key), 2, axis=0)[:4]
        bend = np.abs(np.diff(around, n=2, axis=0)).max()
        assert bend <= 0.06 * (2 * np.pi * 5 / SAMPLES) ** 2 + 4 / 4096


def test_rough_ground_is_straight_between_its_nodes_also_through_the_seam():
    heights = tile("rough", 9, 3)
    for ground in (heights[:, :20], heights.T[:, :20]):  # a strip that the platform does not reach
        nodes, between = ground[0::2], ground[1::2]
        assert np.abs(between - (nodes + np.roll(nodes, -1, axis=0)) / 2).max() <= 1 / 4096


@each_class
@pytest.mark.parametrize("key", [0, 1, 2**63])
def test_roughness_grows_with_level(cls, key):
    roughness = [float(tile(cls, level, key).std()) for level in range(LEVELS)]
    if cls == "flat":
        assert roughness == [0.0] * LEVELS
    else:
        assert roughness[0] > 0
        assert (np.diff(roughness) > 0).all()


@given(tile_ids)
@settings(max_examples=100, deadline=None)
def test_the_spawn_platform_is_flat(one):
    platform = around_centre(tile(*one), 7)  # 1.4 m wide
    assert np.ptp(platform) == 0.0


@pytest.mark.parametrize("kind", ["slope", "stairs"])
def test_up_starts_at_the_bottom_and_down_at_the_top(kind):
    up, down = tile(f"{kind}_up", 4, 1), tile(f"{kind}_down", 4, 1)
    assert around_centre(up, 5).max() == up.min() < 0
    assert around_centre(down, 5).min() == down.max() > 0


def test_stairs_have_the_riser_and_tread_of_the_table():
    for level in (0, 9):
        walk_out = tile("stairs_up", level, 3)[SAMPLES // 2 :, SAMPLES // 2]  # from the centre along +x
        rises = np.flatnonzero(np.diff(walk_out))
        assert len(rises) == 10
        assert (np.diff(rises) == 3).all()
        assert np.diff(walk_out)[rises] == pytest.approx(
            level_table("stairs_up")[level]["riser_m"], abs=2 / 4096
        )


def test_slopes_have_the_slope_of_the_table():
    for level in (0, 9):
        walk_out = tile("slope_up", level, 3)[SAMPLES // 2 :, SAMPLES // 2]
        assert np.diff(walk_out).max() / 0.1 == pytest.approx(
            level_table("slope_up")[level]["slope"], abs=0.003
        )


@pytest.mark.parametrize(("cls", "half"), [("rough", 1.0), ("boxes", 0.5), ("wave", 1.0)])
def test_random_ground_fills_the_range_of_the_table_and_no_more(cls, half):
    (bound,) = level_table(cls)[9].values()
    highest = max(float(np.abs(tile(cls, 9, key)).max()) for key in range(5))
    assert 0.9 * half * bound < highest <= half * bound + 1 / 4096


def test_stones_are_bounded_in_depth():
    for level, figures in enumerate(level_table("stones")):
        heights = tile("stones", level, 5)
        assert heights.min() == pytest.approx(-figures["depth_m"], abs=1 / 4096)
        assert heights.max() <= 0.0201


def test_curbs_are_one_or_two_ledges_across_the_tile_along_either_axis():
    axes, counts = set(), set()
    for key in range(40):
        raised = tile("curbs", 9, key) > 0
        across_y, across_x = raised.all(axis=1), raised.all(axis=0)
        assert (raised == (across_y[:, None] | across_x[None, :])).all()  # nothing but full ledges
        starts = [int((full & ~np.roll(full, 1)).sum()) for full in (across_y, across_x)]
        axes |= {axis for axis in (0, 1) if starts[axis]}
        counts.add(sum(starts))
    assert axes == {0, 1}
    assert counts == {1, 2}


def test_heights_are_exact_in_float32():
    for cls in CLASSES:
        scaled = tile(cls, 7, 1).astype(np.float64) * 4096
        assert (scaled == np.round(scaled)).all()


def test_held_out_classes_are_never_trained_on():
    assert not set(TRAINED) & set(HELD_OUT)
    assert set(TRAINED) | set(HELD_OUT) == set(CLASSES) == set(generators())


# --- bad input and extension


def test_an_unknown_class_names_the_nearest():
    with pytest.raises(SurefootError, match="did you mean 'stairs_up'"):
        tile("stair_up", 0, 0)
    with pytest.raises(SurefootError, match="terrain class"):
        level_table("swamp")


@pytest.mark.parametrize("level", [-1, 10, 2.5, "3"])
def test_a_level_out_of_range_is_refused(level):
    with pytest.raises(SurefootError, match="level must be an integer from 0 to 9"):
        tile("rough", level, 0)


@pytest.mark.parametrize("key", [-1, 2**64, 0.5])
def test_a_key_out_of_range_is_refused(key):
    with pytest.raises(SurefootError, match="key must be an integer"):
        tile("rough", 0, key)


def test_an_empty_atlas_is_refused():
    with pytest.raises(SurefootError, match="at least one tile"):
        Atlas.build([])


def ridge(rng: np.random.Generator, height_m: float) -> np.ndarray:
    heights = np.zeros((SAMPLES, SAMPLES))
    heights[5 + int(5 * rng.random())] = height_m
    return heights


RIDGE = TerrainClass(ridge, (Figure("height_m", 0.1, 0.2),))
NOT_A_CLASS = ridge


def install(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    points = EntryPoints([EntryPoint(name, value, "surefoot.terrains")])
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points.select(group=group))


def test_another_package_can_bring_a_class(monkeypatch):
    install(monkeypatch, "ridge", f"{__name__}:RIDGE")
    assert tile("ridge", 9, 1).max() == pytest.approx(0.2, abs=1 / 4096)
    assert level_table("ridge")[0] == {"height_m": 0.1}
    assert Atlas.build([TileId("ridge", 9, 1)]).max_height == pytest.approx(0.2, abs=1 / 4096)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("stones", "RIDGE", "is taken"),
        ("ridge", "NOT_A_CLASS", "must be a surefoot TerrainClass"),
        ("ridge", "MISSING", "cannot be loaded"),
    ],
)
def test_a_bad_plugin_is_named(monkeypatch, name, value, message):
    install(monkeypatch, name, f"{__name__}:{value}")
    with pytest.raises(SurefootError, match=message):
        generators()


@pytest.mark.parametrize("made", [np.zeros((80, 81)), np.full((80, 80), np.nan)])
def test_a_plugin_that_makes_nonsense_is_refused(made):
    with pytest.raises(SurefootError, match="must return finite heights"):
        tile("odd", 0, 0, {"odd": TerrainClass(lambda rng: made)})


def test_torch_is_only_loaded_for_the_height_field():
    code = "import sys, surefoot.terrain; assert not {'torch', 'mujoco'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- atlas


def test_the_atlas_shows_each_tile_and_its_continuation_in_place(atlas):
    """Every sample within 1 m of a tile, read at its world position, is the tile's own, modulo the period."""
    offset = np.arange(-50, 51)  # samples from the centre: 4 m of tile and 1 m of margin on every side
    x, y = np.meshgrid(offset * 0.1, offset * 0.1, indexing="ij")
    index = (offset + SAMPLES // 2) % SAMPLES
    for k, one in enumerate(atlas.tiles):
        seen = atlas.height(np.stack([x, y], -1) + atlas.origins[k].astype(np.float64))
        assert np.abs(seen - tile(*one)[np.ix_(index, index)]).max() < 1e-4


def test_samples_lie_where_the_atlas_says(atlas):
    rows, cols = atlas.heights.shape
    i, j = np.meshgrid(np.arange(0, rows, 7), np.arange(0, cols, 7), indexing="ij")
    xy = np.stack([atlas.x0 + i * 0.1, atlas.y0 + j * 0.1], -1)
    assert np.abs(atlas.height(xy) - atlas.heights[i, j]).max() < 1e-9
    assert atlas.size_m == pytest.approx(((rows - 1) * 0.1, (cols - 1) * 0.1))
    assert atlas.min_height == atlas.heights.min()
    assert atlas.max_height == atlas.heights.max()


def test_spawn_height_is_the_platform(atlas):
    for k, one in enumerate(atlas.tiles):
        assert atlas.spawn_height[k] == tile(*one)[SAMPLES // 2, SAMPLES // 2]
    bumpy = {"odd": TerrainClass(lambda rng: np.pad([[2.0]], ((44, 35), (43, 36))))}  # 0.5 m from the centre
    assert Atlas.build([TileId("odd", 0, 0)], bumpy).spawn_height[0] == 2.0


def test_wrapping_keeps_the_ground_under_the_robot(atlas):
    rng = np.random.default_rng(0)
    k = rng.integers(len(atlas.tiles), size=5000)
    xy = atlas.origins[k] + rng.uniform(-5, 5, (5000, 2))
    wrapped = atlas.wrap(xy, k)
    local = wrapped - atlas.origins[k]
    assert (local >= -4 - 1e-5).all()
    assert (local < 4 + 1e-5).all()
    assert (np.abs(xy - wrapped) > 7).any()  # some did leave their tile
    assert np.abs(atlas.height(wrapped) - atlas.height(xy)).max() < 1e-9


@given(st.floats(-1000, 1000), st.floats(-60, 60))
def test_wrap_moves_by_whole_periods_into_the_tile(position, origin):
    wrapped = wrap(np.float64(position), origin)
    periods = (position - wrapped) / 8.0
    assert abs(periods - round(periods)) < 1e-9
    assert -4 - 1e-9 <= wrapped - origin < 4 + 1e-9
    assert wrap(torch.tensor(position, dtype=torch.float64), origin).item() == pytest.approx(
        wrapped, abs=1e-9
    )


def test_the_digest_names_tiles_and_order():
    a, b = TileId("rough", 3, 1), TileId("rough", 3, 2**63)
    assert Atlas.build([a, b]).digest == Atlas.build([a, b]).digest
    others = [
        [a],
        [b, a],
        [a, b, b],
        [a, TileId("rough", 4, 2**63)],
        [TileId("flat", 0, 0)],
        [TileId("flat", 1, 0)],
    ]
    digests = {Atlas.build(tiles).digest for tiles in ([a, b], *others)}
    assert len(digests) == len(others) + 1


def test_an_atlas_cannot_be_changed(atlas):
    with pytest.raises(ValueError):
        atlas.heights[0, 0] = 1.0


# --- the same ground for numpy, torch and MuJoCo


def anywhere(atlas: Atlas, n: int) -> np.ndarray:
    half = np.array(atlas.size_m) / 2 - 1e-3
    return np.random.default_rng(1).uniform(-half, half, (n, 2))


def test_torch_and_numpy_see_the_same_ground(atlas):
    xy = anywhere(atlas, 20000)
    expected = atlas.height(xy)
    double = HeightField.of(atlas, dtype=torch.float64)
    assert np.abs(double.height(torch.tensor(xy)).numpy() - expected).max() < 1e-12
    single = HeightField.of(atlas)
    seen = single.height(torch.tensor(xy, dtype=torch.float32).reshape(100, 200, 2))
    assert seen.shape == (100, 200)
    assert seen.dtype == torch.float32
    # The steepest cells are cliffs between blocks, 4 m over 0.1 m: position rounding (2 um) times that slope.
    assert np.abs(seen.numpy().reshape(-1) - expected).max() < 2e-4


def test_torch_wraps_like_numpy(atlas):
    rng = np.random.default_rng(2)
    k = rng.integers(len(atlas.tiles), size=1000)
    xy = atlas.origins[k] + rng.uniform(-4.5, 4.5, (1000, 2))
    field = HeightField.of(atlas)
    wrapped = field.wrap(torch.tensor(xy, dtype=torch.float32), torch.tensor(k))
    assert np.abs(wrapped.numpy() - atlas.wrap(xy, k)).max() < 1e-5
    before = field.height(torch.tensor(xy, dtype=torch.float32))
    assert (field.height(wrapped) - before).abs().max() < 1e-4


def test_positions_off_the_map_are_safe_and_nan_stays_visible(atlas):
    field = HeightField.of(atlas, dtype=torch.float64)
    far = np.array([[1e12, 0.0], [-1e12, -1e12], [np.inf, 0.0], [np.nan, 0.0], [0.0, np.nan]])
    for seen in (atlas.height(far), field.height(torch.tensor(far)).numpy()):
        assert seen[1] == atlas.heights[0, 0]
        assert np.isfinite(seen[:3]).all()
        assert np.isnan(seen[3:]).all()


def compiled(atlas: Atlas, *bodies: tuple[float, float, float], radius: float = 0.01):
    """The atlas in MuJoCo, exactly as an engine would add it, with free spheres at the given positions."""
    field = mujoco_hfield(atlas)
    spec = mujoco.MjSpec()
    spec.add_hfield(
        name="terrain", nrow=field["nrow"], ncol=field["ncol"], size=field["size"], userdata=field["userdata"]
    )
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_HFIELD, hfieldname="terrain", pos=field["pos"])
    for position in bodies:
        body = spec.worldbody.add_body(pos=position)
        body.add_freejoint()
        body.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[radius, 0, 0])
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def ray_height(model: mujoco.MjModel, data: mujoco.MjData, x: float, y: float) -> float:
    hit = np.zeros(1, np.int32)
    distance = mujoco.mj_ray(model, data, np.array([x, y, 10.0]), np.array([0, 0, -1.0]), None, 1, -1, hit)
    assert distance >= 0, "the ray missed the terrain"
    return 10.0 - distance


def test_mujoco_rays_hit_the_height_field(atlas):
    model, data = compiled(atlas)
    xy = anywhere(atlas, 2000)
    rays = np.array([ray_height(model, data, x, y) for x, y in xy])
    assert np.abs(rays - atlas.height(xy)).max() < 1e-5
    single = HeightField.of(atlas).height(torch.tensor(xy, dtype=torch.float32)).numpy()
    assert np.abs(rays - single).max() < 2e-4
    # On the tiles themselves (no cliffs between blocks) float32 is ten times better.
    local = np.abs(xy[:, None] - atlas.origins[None]).max(-1).min(-1) < 5.0
    assert np.abs(rays - single)[local].max() < 1e-4
    assert local.mean() > 0.9


def test_a_flat_atlas_is_flat_in_mujoco():
    flat = Atlas.build([TileId("flat", 0, 0)])
    model, data = compiled(flat)
    assert ray_height(model, data, 0.3, -0.2) == pytest.approx(0.0, abs=1e-9)
    assert mujoco_hfield(flat)["size"][3] > 0


@pytest.mark.parametrize("diagonal", ["up", "down"])
def test_mujoco_contacts_use_the_same_diagonal_as_rays(diagonal):
    """A saddle-shaped cell is a ridge or a valley by its diagonal; a sphere must rest where we say."""
    corners = {(1, 1), (2, 2)} if diagonal == "up" else {(1, 2), (2, 1)}
    saddle = np.zeros((SAMPLES, SAMPLES))
    for i, j in corners:
        saddle[SAMPLES // 2 + i, SAMPLES // 2 + j] = 0.05
    one = Atlas.build([TileId("saddle", 0, 0)], {"saddle": TerrainClass(lambda rng: saddle)})
    xy = one.origins[0] + np.array([0.15, 0.15])  # the middle of the cell
    ground = float(one.height(xy))
    assert ground == pytest.approx(0.05 if diagonal == "up" else 0.0, abs=1e-3)
    assert ray_height(*compiled(one), *xy) == pytest.approx(ground, abs=1e-5)
    if diagonal == "up":  # a ridge: the sphere sits on it
        gap = {height: len(compiled(one, (*xy, ground + height))[1].contact) for height in (0.009, 0.011)}
        assert gap[0.009] > 0
        assert gap[0.011] == 0
    else:  # a valley of slope 0.5: a sphere touches both sides before the bottom, at radius / cos
        lean = 0.01 * np.sqrt(1 + 2 * 0.5**2)
        gap = {scale: len(compiled(one, (*xy, ground + scale * lean))[1].contact) for scale in (0.95, 1.05)}
        assert gap[0.95] > 0
        assert gap[1.05] == 0
