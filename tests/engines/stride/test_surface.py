"""Heightfields as surfaces in native MuJoCo: plain geometry, MuJoCo's plane, its prisms, and stride."""

import mujoco
import numpy as np
import pytest
import torch
from geometry import ATLAS, TILES, height_below, reference
from torch import Tensor

from surefoot.contract import EVALUATION_PLANT, Plant
from surefoot.engines import Engine, MujocoEngine, Start
from surefoot.engines.conformance import begin, default_targets, standing
from surefoot.engines.scene import _add_ground
from surefoot.engines.stride import StrideEngine
from surefoot.engines.surface import make_surface
from surefoot.robots import robot
from surefoot.robots.registry import ROBOTS
from surefoot.terrain import Atlas, TileId

PRISMS = EVALUATION_PLANT.model_copy(update={"heightfield": "prisms"})
FLAT = Atlas.build([TileId("flat", 0, 0)])
BODY = """
<mujoco><worldbody><body><freejoint/>
  <geom type="{type}" size="{size}" contype="1" conaffinity="0" mass="1"/>
</body></worldbody></mujoco>"""


def body_on(atlas: Atlas | None, tile: int, geom: str, size: str, *, surface: bool = True) -> mujoco.MjData:
    spec = mujoco.MjSpec.from_string(BODY.format(type=geom, size=size))
    tiles = _add_ground(spec, atlas)
    model = spec.compile()
    if atlas is not None:
        model.hfield_data[:] = tiles[tile]
        if surface:
            make_surface(model)
    return mujoco.MjData(model)


def contacts(data: mujoco.MjData, qpos: np.ndarray) -> list[tuple[np.ndarray, float, np.ndarray]]:
    """(normal, distance, place), the deepest first."""
    data.qpos[:] = qpos
    mujoco.mj_fwdPosition(data.model, data)
    found = [(c.frame[:3].copy(), float(c.dist), c.pos.copy()) for c in data.contact]
    return sorted(found, key=lambda c: c[1])


@pytest.mark.parametrize("tile", range(len(TILES)), ids=[t.cls for t in TILES])
def test_a_spheres_contacts_are_all_local_minima_of_distance(tile: int) -> None:
    rng = np.random.default_rng(tile)
    touched = several = 0
    for radius in (0.023, 0.05, 0.09):
        data = body_on(ATLAS, tile, "sphere", f"{radius}")
        for _ in range(40):
            centre = np.array([*rng.uniform(-3.9, 3.9, 2), 0.0])
            centre[2] = height_below(tile, centre) + rng.uniform(-0.03, 0.06)
            minima = reference(tile, centre, radius)
            expected = [e for e in minima if e[1] < -1e-5]
            found = contacts(data, np.array([*centre, 1, 0, 0, 0]))
            touched += bool(expected)
            several += len(expected) > 1 and len(found) > 1
            # heights are float32 shares of the atlas' range in MuJoCo: 1e-7 m, seen from a millimetre away
            for normal, distance, place in found:
                near = [max(np.abs(normal - n).max(), abs(distance - d)) for n, d in minima]
                assert min(near) < 2e-5
                np.testing.assert_allclose(centre - normal * (radius + distance / 2), place, atol=1e-12)
            for n, _ in expected:
                assert any(normal @ n > 0.9998 for normal, *_ in found)
    assert touched > 60
    assert several > 0 or TILES[tile].cls not in ("stairs_up", "boxes", "stones", "rough")


@pytest.mark.parametrize(
    ("geom", "size"),
    [("sphere", "0.03"), ("capsule", "0.02 0.08"), ("box", "0.06 0.04 0.03"), ("box", "0.06 0.04 0.004")],
)
def test_level_ground_is_the_plane(geom: str, size: str) -> None:
    """Every contact: how many, where, how deep, and which way."""
    rng = np.random.default_rng(0)
    plane, field = (body_on(a, 0, geom, size) for a in (None, FLAT))
    compared = 0
    for _ in range(300):
        quat = rng.normal(size=4)
        qpos = np.array([*rng.uniform(-3, 3, 2), rng.uniform(0.0, 0.08), *(quat / np.linalg.norm(quat))])
        expected, found = contacts(plane, qpos), contacts(field, qpos)
        if geom == "box" and len(expected) >= 4:
            continue  # the plane keeps at most four
        compared += bool(expected)
        assert len(found) == len(expected)
        for (n, d, p), (n0, d0, p0) in zip(found, expected, strict=True):
            np.testing.assert_allclose(n, n0, atol=1e-12)
            np.testing.assert_allclose(p, p0, atol=1e-9)
            assert d == pytest.approx(d0, abs=1e-12)
    assert compared > 100


def test_prisms_lean_on_level_ground_and_stay_what_they_were() -> None:
    """What makes the surface necessary; also, what is not marked is MuJoCo's own."""
    rng = np.random.default_rng(0)
    prisms, surface = (body_on(FLAT, 0, "sphere", "0.023", surface=s) for s in (False, True))
    leans = {}
    for name, data in (("prisms", prisms), ("surface", surface)):
        normals = [
            n
            for _ in range(1000)
            for n, *_ in contacts(data, np.array([*rng.uniform(-2, 2, 2), 0.021, 1, 0, 0, 0]))
        ]
        leans[name] = np.degrees(np.arccos(np.clip(np.array(normals)[:, 2], -1, 1)))
    assert (leans["prisms"] > 5).mean() > 0.15
    assert len(leans["surface"]) == 1000
    assert leans["surface"].max() < 1e-6


def placed(engine: Engine, atlas: Atlas | None) -> Start:
    """Standing; on an atlas anywhere on the slope or the stairs, above the highest ground around."""
    start, n, rng = standing(engine), engine.num_envs, np.random.default_rng(0)
    if atlas is not None:
        start.position[:, :2] = torch.tensor(
            np.stack([rng.uniform(1.2, 2.5, n), rng.uniform(-0.5, 0.5, n)], 1) + atlas.origins[0]
        )
        around = [(x, y) for x in np.arange(-0.5, 0.55, 0.1) for y in np.arange(-0.3, 0.35, 0.1)]
        highest = np.max([atlas.height(start.position[:, :2].numpy() + np.array(d)) for d in around], 0)
        start.position[:, 2] += torch.tensor(highest, dtype=torch.float32)
    return start


def walk(engine: Engine, atlas: Atlas | None, steps: int, off: float = 0.0) -> tuple[Tensor, Tensor]:
    """[N, 3] where bases are after random targets, [N] whether any foot has touched the ground."""
    rng = np.random.default_rng(2)
    begin(engine, placed(engine, atlas))
    if isinstance(engine, MujocoEngine):
        engine._state[:, 1:] += off * np.random.default_rng(1).normal(size=engine._state[:, 1:].shape)
    pose, touched = default_targets(engine), torch.zeros(engine.num_envs, dtype=torch.bool)
    for _ in range(steps):
        state = engine.step(pose + torch.tensor(rng.uniform(-0.25, 0.25, pose.shape), dtype=torch.float32))
        touched |= (state.foot_force != 0).any(2).any(1)
    engine.close()
    return state.position, touched


def on(
    atlas: Atlas | None, plant: Plant = EVALUATION_PLANT, threads: int = 1, n: int = 16, name: str = "go1"
) -> MujocoEngine:
    return MujocoEngine(robot(name), plant, n, atlas=atlas, threads=threads)


def test_robots_move_on_a_level_heightfield_as_on_the_plane() -> None:
    """For a second, and with prisms they do not. The start's height is float32 in both."""
    plane, level, prisms = (walk(e, FLAT, 50)[0] for e in (on(None), on(FLAT), on(FLAT, PRISMS)))
    assert (level - plane).norm(dim=1).max() < 1e-6
    assert (prisms - plane).norm(dim=1).median() > 1e-3


def test_threads_do_not_change_a_bit() -> None:
    atlas = Atlas.build([TileId("stairs_down", 5, 1)])
    one, two = (walk(on(atlas, threads=k), atlas, 20)[0] for k in (1, 2))
    assert torch.equal(one, two)


@pytest.mark.parametrize("cls", ["slope_down", "stairs_down", "rough"])
@pytest.mark.parametrize("name", ROBOTS)
def test_stride_is_closer_to_mujoco_on_terrain_than_mujoco_to_itself(name: str, cls: str) -> None:
    """At 0.4 s, from a state that is off by 1e-6: the median of stride is below MuJoCo's own, its 90th
    percentile within three times."""
    atlas = Atlas.build([TileId(cls, 5, 1)])
    exact = EVALUATION_PLANT.model_copy(update={"tolerance": 1e-10, "iterations": 100, "ls_iterations": 100})
    native, landed = walk(on(atlas, exact, name=name), atlas, 20)
    noise, _ = walk(on(atlas, exact, name=name), atlas, 20, off=1e-6)
    engine = StrideEngine(robot(name), EVALUATION_PLANT, 16, atlas=atlas, threads=1)
    start = placed(engine, atlas)
    ours, touched = walk(engine, atlas, 20)
    away, itself = ((x - native).norm(dim=1).numpy() for x in (ours, noise))
    assert np.median(away) < np.median(itself)
    assert np.percentile(away, 90) < 3 * np.percentile(itself, 90)
    assert (native - start.position).norm(dim=1).min() > 1e-3, "somebody did not move"
    assert torch.equal(touched, landed)
    assert landed.float().mean() > 0.9, "in the air there is no terrain"
