"""Stride's contacts with a heightfield against plain geometry."""

from typing import Any

import numpy as np
import pytest
import torch
import warp as wp
from geometry import FIELD, TILES, height_below, reference

from surefoot.compiler.targets import Target, prelude
from surefoot.contract import EVALUATION_PLANT
from surefoot.engines import Parameters
from surefoot.engines.conformance import begin, standing
from surefoot.engines.stride import StrideEngine
from surefoot.engines.stride.heightfield import GROUND
from surefoot.robots import robot
from surefoot.terrain import Atlas


def kernel() -> Any:
    body_source = f"""
{prelude(Target("solo"), 1)}
const int npad = ints.shape[1];
{GROUND}
const float* p = points.data + 4 * tid;
float found[2][4];
const bool near = ground_near(p[0], p[1], p[2], p[3], 1.0f, tid);
if (near) ground(p[0], p[1], p[2], p[3], tid, found);
for (int i = 0; i < 8; ++i) out.data[8 * tid + i] = near ? found[i / 4][i % 4] : 1.0f;
"""

    @wp.func_native(body_source)
    def body(
        tid: int,
        points: wp.array2d(dtype=wp.float32),
        ints: wp.array2d(dtype=wp.int32),
        tiles: wp.array(dtype=wp.float32),
        out: wp.array2d(dtype=wp.float32),
    ): ...

    @wp.kernel(enable_backward=False, module="unique")
    def touch(
        points: wp.array2d(dtype=wp.float32),
        ints: wp.array2d(dtype=wp.int32),
        tiles: wp.array(dtype=wp.float32),
        out: wp.array2d(dtype=wp.float32),
    ):
        body(wp.tid(), points, ints, tiles, out)

    return touch


@pytest.fixture(scope="module")
def contacts() -> Any:
    """A function from points [N, 4] (centre, from the tile's, and radius) to contacts [N, 2, 4]."""
    touch = kernel()

    def of(points: np.ndarray, tile: int) -> np.ndarray:
        n = len(points)
        ints = np.zeros((3, n), np.int32)
        ints[2] = tile
        out = wp.zeros((n, 8), dtype=wp.float32, device="cpu")
        inputs = [
            wp.array(points.astype(np.float32), device="cpu"),
            wp.array(ints, device="cpu"),
            wp.array(FIELD.reshape(-1), device="cpu"),
            out,
        ]
        wp.launch(touch, dim=n, inputs=inputs, device="cpu")
        found: np.ndarray = out.numpy().reshape(n, 2, 4)
        return found

    return of


def of_direction(distance: float) -> float:
    """1e-5 where the centre is 2 cm or more from the point that it touches. The direction to a sample or an
    edge is a difference of places, which float32 rounds by 2e-7 m at 4 m, over that distance."""
    return max(1e-5, 2e-7 / abs(distance))


@pytest.mark.parametrize("tile", range(len(TILES)), ids=[t.cls for t in TILES])
def test_contacts_are_the_local_minima_of_distance(contacts: Any, tile: int) -> None:
    """Depth, normal, and the point of the ground that is touched, each to 1e-5; normals nearer than 2 cm as
    rounding allows, and 98% of them to 1e-5 too."""
    rng = np.random.default_rng(tile)
    points = np.zeros((400, 4))
    points[:, :2] = rng.uniform(-3.9, 3.9, (400, 2))
    points[:, 3] = rng.choice([0.0, 0.023, 0.05, 0.09], 400)
    points[:, 2] = [height_below(tile, p) for p in points]
    points[:, 2] += rng.uniform(-0.03, 0.06, 400)
    points = points.astype(np.float32).astype(float)
    found = contacts(points, tile)
    twice, off, far = 0, [], 0
    for p, (first, second) in zip(points, found, strict=True):
        expected = reference(tile, p[:3], p[3])
        if not expected:
            assert first[3] == 1.0
            continue
        if abs(expected[0][1]) < 1e-5:
            continue  # grazing: float32 may see it or not
        np.testing.assert_allclose(first[3], expected[0][1], atol=1e-5)
        others = [e for e in expected[1:] if e[0] @ expected[0][0] < 0.9998]
        tied = [e for e in expected if abs(e[1] - expected[0][1]) < 2e-6]
        off.append(min(np.abs(first[:3] - e[0]).max() for e in tied))
        assert off[-1] < of_direction(expected[0][1] + p[3])
        far += abs(expected[0][1] + p[3]) > 0.02
        points_of = [p[:3] - n * (depth + p[3]) for n, depth in tied]
        assert min(np.abs(p[:3] - first[:3] * (first[3] + p[3]) - x).max() for x in points_of) < 1e-5
        if len(tied) > 1 or (others and abs(others[0][1]) < 1e-5):
            continue
        close = [e for e in expected[1:] if e[0] @ expected[0][0] >= 0.9998]
        if others and not close:
            twice += 1
            np.testing.assert_allclose(second[3], others[0][1], atol=1e-5)
            np.testing.assert_allclose(second[:3], others[0][0], atol=of_direction(others[0][1] + p[3]))
        elif not others and not close:
            assert second[3] == 1.0, (p, expected, second)
    assert len(off) > 100
    assert far > 30
    assert np.mean(np.array(off) < 1e-5) > 0.98
    assert twice > 0 or TILES[tile].cls in ("flat", "slope_up", "slope_down", "wave")


@pytest.mark.parametrize("height", [0.02, 0.005, 0.001])
def test_flat_ground_is_touched_once_everywhere(contacts: Any, height: float) -> None:
    """Also beside an edge, where a deep sphere is about as close to the next triangle as to its own."""
    rng = np.random.default_rng(0)
    xy = rng.uniform(-9, 9, (6000, 2))
    xy[3000:] = np.round(xy[3000:], 1) + rng.normal(size=(3000, 2)) * 1e-4
    points = np.column_stack([xy, np.full(6000, height), np.full(6000, 0.023)])
    found = contacts(points, 0)
    np.testing.assert_allclose(found[:, 0, 3], height - 0.023, atol=1e-6)
    np.testing.assert_allclose(found[:, 0, :3], np.tile([0, 0, 1], (6000, 1)), atol=1e-6 + 2e-6 / height)
    assert (found[:, 1, 3] == 1.0).all()


@pytest.mark.parametrize("tile", range(len(TILES)), ids=[t.cls for t in TILES])
def test_the_ground_is_not_lost_where_its_faces_meet(contacts: Any, tile: int) -> None:
    """Exactly or almost above samples, edges and diagonals, whose sides all miss the centre by rounding."""
    rng = np.random.default_rng(tile)
    n = 4000
    along, off = rng.choice([0.0, 0.5, rng.uniform()], (2, n)), rng.choice([0.0, 1e-6, -1e-6, 1e-7], n)
    within = np.choose(
        rng.integers(0, 3, n), [(off, along[1]), (along[0], off), (along[0], along[0] + off)]
    ).T
    points = np.zeros((n, 4))
    points[:, :2] = 0.1 * (rng.integers(-38, 38, (n, 2)) + within)
    points[:, 3] = rng.choice([0.023, 0.06], n)
    height = rng.uniform(-0.02, 0.02, n)
    points[:, 2] = [height_below(tile, p) for p in points] + height
    first = contacts(points, tile)[:, 0, 3]
    # never farther than straight below or above
    above = height > 1e-5
    assert (first[above] < height[above] - points[above, 3] + 1e-5).all()
    below = height < -1e-5
    assert (first[below] > height[below] - points[below, 3] - 1e-5).all()
    assert (first[below] < -points[below, 3] + 1e-5).all()


def test_in_the_corner_of_a_stair_tread_and_riser_both_count(contacts: Any) -> None:
    heights = FIELD[0, 1, :, 40].astype(float)  # along x through the tile's centre
    i = next(k for k in range(45, 78) if heights[k + 1] - heights[k] > 0.1 and heights[k] == heights[k - 1])
    slope = np.arctan2(heights[i + 1] - heights[i], 0.1)
    riser = np.array([-np.sin(slope), 0.0, np.cos(slope)])
    corner = np.array([(i - 40) * 0.1, 0.02, heights[i]])
    r = 0.023
    # a sphere 1 mm deep in both: its centre is r - 1 mm from tread and riser
    depth = r - 0.001
    along = depth * (1 - riser[2]) / riser[0]
    centre = corner + np.array([along, 0.0, depth])
    found = contacts(np.array([[*centre, r]]), 1)[0]
    order = np.argsort(-found[:, 2])
    np.testing.assert_allclose(found[order[0]], [0, 0, 1, -0.001], atol=1e-5)
    np.testing.assert_allclose(found[order[1]], [*riser, -0.001], atol=1e-5)


def test_a_foot_in_the_corner_of_a_stair_is_pushed_by_tread_and_riser() -> None:
    """Without friction only the riser can push sideways."""
    atlas = Atlas.build([TILES[1]])
    engine = StrideEngine(robot("go1"), EVALUATION_PLANT, 2, atlas=atlas, threads=1)
    heights = FIELD[0, 1, :, 40].astype(float)
    i = next(k for k in range(45, 78) if heights[k + 1] - heights[k] > 0.1 and heights[k] == heights[k - 1])
    slope = np.arctan2(heights[i + 1] - heights[i], 0.1)
    riser = np.array([-np.sin(slope), 0.0, np.cos(slope)])
    depth = 0.023 - 0.001
    start, parameters = standing(engine), Parameters.nominal(2)
    parameters.friction[:] = 1e-6
    begin(engine, start, parameters)
    foot = (engine.state().foot_position[0, 0] - start.position[0]).numpy()
    x, y = atlas.origins[0] + ((i - 40) * 0.1, 0.02)
    along = depth * (1 - riser[2]) / riser[0]
    start.position[:] = torch.tensor(np.array([x + along, y, heights[i] + depth]) - foot)
    start.position[1, 0] -= 0.05  # on the tread alone
    begin(engine, start, parameters)
    both, one = engine.state().foot_force[:, 0].double().numpy()
    (tread, push), *_ = np.linalg.lstsq(np.stack([[0, 0, 1], riser], 1), both, rcond=None)
    assert min(tread, push) > 1.0, (tread, push)
    assert np.abs(both - tread * np.array([0, 0, 1]) - push * riser).max() < 1e-3 * np.abs(both).max()
    assert one[2] > 1.0
    assert abs(one[0]) < 1e-3 * one[2]


def test_the_ground_is_periodic(contacts: Any) -> None:
    rng = np.random.default_rng(1)
    points = np.column_stack([rng.uniform(-3.5, 3.5, (200, 2)), np.zeros(200), np.full(200, 0.03)])
    points[:, 2] = [height_below(3, p) + 0.01 for p in points]
    moved = points + np.array([8.0, -16.0, 0, 0])
    np.testing.assert_allclose(contacts(moved, 3), contacts(points, 3), atol=2e-4)
