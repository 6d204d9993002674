"""MuJoCo Warp keeps every engine's promises and moves as native MuJoCo does, on Warp's CPU device.

Compiling its kernels takes about 45 s on one core, once per version of MuJoCo Warp (they are kept in Warp's
cache).
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from surefoot.contract import EVALUATION_PLANT, FAST_PLANT, Plant, SurefootError
from surefoot.engines import Engine, MujocoEngine, Parameters, choose_engine, make_engine, mujoco_warp
from surefoot.engines.conformance import (
    CHECKS,
    Check,
    assert_same,
    begin,
    default_targets,
    mask_of,
    moving_targets,
    run,
    standing,
)
from surefoot.engines.mujoco_warp import MujocoWarpEngine
from surefoot.robots import go1, robot
from surefoot.terrain import Atlas, TileId

GO1 = go1()
CONVERGED = FAST_PLANT.model_copy(update={"iterations": 50, "ls_iterations": 50})
FLAT = Atlas.build([TileId("flat", 0, 0)])
HILLS = Atlas.build([TileId("flat", 0, 0), TileId("wave", 6, 1), TileId("slope_up", 6, 0)])

no_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def make(n: int, plant: Plant = FAST_PLANT, atlas: Atlas | None = None) -> MujocoWarpEngine:
    return MujocoWarpEngine(GO1, plant, n, atlas=atlas)


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__.removeprefix("check_"))
def test_it_conforms_on_the_plane(check: Check) -> None:
    check(make)


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__.removeprefix("check_"))
def test_it_conforms_on_an_atlas(check: Check) -> None:
    check(lambda n: make(n, CONVERGED, FLAT))


@no_gpu
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__.removeprefix("check_"))
def test_it_conforms_on_cuda(check: Check) -> None:
    check(lambda n: MujocoWarpEngine(GO1, FAST_PLANT, n, device="cuda"))


@no_gpu
def test_the_loop_never_waits_for_the_device() -> None:
    engine = MujocoWarpEngine(GO1, FAST_PLANT, 4, device="cuda")
    start, parameters = standing(engine), Parameters.nominal(4, engine.device)
    one, velocity, targets = mask_of(engine, [1]), torch.ones(4, 2, device="cuda"), default_targets(engine)
    for k in range(4):  # by the third time everything is captured
        torch.cuda.set_sync_debug_mode("error" if k > 1 else "default")
        try:
            engine.reset(one, start, parameters)
            engine.push(one, velocity)
            engine.step(targets)
        finally:
            torch.cuda.set_sync_debug_mode("default")


# ---- the same physics as native MuJoCo


def varied(engine: Engine) -> Parameters:
    """Parameters that differ in every environment, all of them away from nominal."""
    ramp = torch.linspace(0.0, 1.0, engine.num_envs)
    return Parameters(
        friction=0.4 + ramp,
        payload_kg=0.1 * engine.robot.mass_kg * (ramp + 0.1),
        com_m=0.01 * torch.stack([ramp, 1 - ramp, ramp], 1),
        strength=0.9 + 0.2 * ramp,
        kp_scale=1.1 - 0.2 * ramp,
        kd_scale=0.9 + 0.2 * ramp,
        delay_s=torch.arange(engine.num_envs) * engine.plant.dt_s,
    )


@pytest.mark.parametrize(
    "name", ["go1", *(pytest.param(n, marks=pytest.mark.slow) for n in ("hexapod", "biped"))]
)
def test_it_moves_as_native_mujoco_does(name: str) -> None:
    """Ten control steps on the evaluation plant, landing and swinging all joints, each environment with its
    own parameters: to float32."""
    native = MujocoEngine(robot(name), EVALUATION_PLANT, 3, threads=1)
    warp = MujocoWarpEngine(robot(name), EVALUATION_PLANT, 3)
    allowed = {"position": 1e-5, "quaternion": 1e-5, "joint_position": 5e-5, "foot_position": 1e-5}
    allowed |= {"linear_velocity": 1e-4, "angular_velocity": 1e-3, "joint_velocity": 2e-3, "torque": 2e-3}
    allowed |= {"gravity": 1e-5, "foot_velocity": 1e-3, "foot_force": 0.1, "trunk_contact": 0, "failed": 0}
    for engine in (native, warp):
        begin(engine, parameters=varied(engine))
    pairs = [(native.state(), warp.state().clone())]
    for k in range(10):
        pairs.append((native.step(moving_targets(native, k)), warp.step(moving_targets(warp, k)).clone()))
    loaded = False
    for k, (a, b) in enumerate(pairs):
        for field, value in a.tensors().items():
            off = float((value.float() - getattr(b, field).float()).abs().max())
            assert off <= allowed[field], f"{field} is off by {off:.2g} after {k} control steps"
        loaded |= bool((a.foot_force[..., 2] > 1.0).any())
    assert loaded, "the feet touched the ground"


def test_what_follows_from_the_masses_is_what_native_mujoco_computes() -> None:
    """The solver's inverse weights follow from the masses; stale ones would make contacts softer."""
    native, warp = MujocoEngine(GO1, FAST_PLANT, 3, threads=1), make(3)
    for engine in (native, warp):
        begin(engine, parameters=varied(engine))
    for field in ("body_subtreemass", "body_invweight0", "dof_invweight0"):
        expected = np.stack([getattr(m, field) for m in native._models])
        np.testing.assert_allclose(warp._fields[field].numpy(), expected, rtol=1e-4, err_msg=field)
    light, heavy = warp._fields["body_invweight0"][[0, 2], warp._scene.trunk, 0]
    assert light > 1.05 * heavy


# ---- failure


def test_a_world_that_leaves_the_numbers_is_put_back_and_disturbs_nobody() -> None:
    broken, sound = make(3), make(3)
    for engine in (broken, sound):
        begin(engine)
    broken._qvel[1, 3:6] = 1e15  # rad/s: its square overflows float32
    x, y = broken.step(default_targets(broken)).clone(), sound.step(default_targets(sound)).clone()
    assert x.failed.tolist() == [False, True, False]
    assert bool(torch.isfinite(broken._qpos).all())
    assert float(broken.failures()["qvel"][0, 3]) == pytest.approx(1e15), "what it failed from is kept"
    assert_same(x, y, "the others go on", rows=[0, 2])
    broken.reset(mask_of(broken, [1]), standing(broken), Parameters.nominal(3))
    assert not bool(torch.stack([s.failed for s in run(broken, 5)]).any())


@pytest.mark.parametrize(("room", "failed"), [(4, False), (1, True)])
def test_a_world_that_loses_contacts_has_failed(
    room: int, failed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mujoco_warp, "CONTACTS_PER_GEOM", room)
    engine = make(1)
    # All of it in the ground by a little: capsules touch twice, the trunk four times.
    begin(engine, standing(engine, 0.03))
    assert engine.step(default_targets(engine)).failed.tolist() == [failed]


# ---- on an atlas


@pytest.mark.slow
def test_every_environment_stands_on_its_own_tile() -> None:
    """Off the middle of uneven tiles, where a transposed, mirrored or shifted heightfield would show."""
    engine = make(3, CONVERGED, HILLS)
    for offset, tiles in (((1.7, -0.6), [0, 1, 2]), ((-1.1, 2.3), [2, 0, 1])):
        start = standing(engine)
        start.tile[:] = torch.tensor(tiles)
        start.position[:, :2] = torch.from_numpy(HILLS.origins[tiles]) + torch.tensor(offset)
        start.position[:, 2] += torch.from_numpy(HILLS.height(start.position[:, :2].numpy())).float() + 0.1
        begin(engine, start)
        landed = torch.zeros(3, dtype=torch.int64)
        for state in run(engine, 25, targets=default_targets(engine)):
            assert not bool(state.failed.any())
            below = torch.from_numpy(HILLS.height(state.foot_position[..., :2].numpy()))
            down = state.foot_force[..., 2] > 5.0
            clearance = (state.foot_position[..., 2] - below)[down]
            assert bool(((clearance > 0.005) & (clearance < 0.033)).all())  # the foot's radius is 23 mm
            landed += down.sum(1)
        assert bool((landed > 10).all())


# ---- by name


def test_it_is_made_by_name() -> None:
    engine = make_engine("mujoco-warp", GO1, FAST_PLANT, 2)
    assert isinstance(engine, MujocoWarpEngine)
    assert (engine.name, engine.num_envs, engine.device.type) == ("mujoco-warp", 2, "cpu")


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco_warp", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "surefoot.engines.mujoco_warp")
    with pytest.raises(SurefootError, match=r"needs the package mujoco_warp.*pip install 'surefoot\[warp\]'"):
        make_engine("mujoco-warp", GO1, FAST_PLANT, 1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_a_missing_gpu_is_named() -> None:
    with pytest.raises(SurefootError, match=r"no CUDA device.*--device cpu"):
        make_engine("mujoco-warp", GO1, FAST_PLANT, 1, device="cuda")


def test_auto_takes_stride_and_says_why_not_where_stride_cannot() -> None:
    assert choose_engine("auto", GO1, FAST_PLANT, "cpu")[0] == "stride"
    assert choose_engine("mujoco", GO1, FAST_PLANT, "cpu") == ("mujoco", "asked for")
    two = "".join(f'<joint joint="{name}" coef="1"/>' for name in GO1.joints[:2])
    rope = f'<tendon><fixed name="rope">{two}</fixed></tendon></mujoco>'
    tendon = GO1.model_copy(update={"mjcf": GO1.mjcf.replace("</mujoco>", rope)})
    name, why = choose_engine("auto", tendon, FAST_PLANT, "cpu")
    assert name == "mujoco"
    assert "tendons" in why
    name, why = choose_engine("auto", tendon, FAST_PLANT, "cuda")
    assert name == "mujoco-warp"
    assert "tendons" in why


def test_a_delay_beyond_the_delay_line_reads_back_as_the_longest_one() -> None:
    engine = MujocoWarpEngine(GO1, FAST_PLANT, 1, max_delay_s=0.04)
    parameters = Parameters.nominal(1)
    parameters.delay_s[:] = 1.0
    begin(engine, parameters=parameters)
    assert float(engine.parameters().delay_s) == pytest.approx(0.04)
