"""Native MuJoCo keeps every engine's promises, on a plane and on an atlas, and some of its own."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from surefoot.contract import FAST_PLANT, Plant, SurefootError
from surefoot.engines import MujocoEngine, Parameters, RobotState, make_engine
from surefoot.engines.conformance import (
    ALOFT_M,
    CHECKS,
    Check,
    assert_same,
    begin,
    default_targets,
    mask_of,
    run,
    standing,
)
from surefoot.engines.scene import build_scene
from surefoot.robots import RobotSpec, anymal, biped, go1, hexapod
from surefoot.terrain import Atlas, TileId

GO1, ANYMAL = go1(), anymal()
FLAT = Atlas.build([TileId("flat", 0, 0)])

# Every foot has several contacts on a heightfield, and four Newton iterations do not get there: at friction
# 0.1 a standing robot explodes. The checks are about the engine, so its solver is allowed to converge.
CONVERGED = FAST_PLANT.model_copy(update={"iterations": 50, "ls_iterations": 50})

GROUNDS: dict[str, tuple[RobotSpec, Plant, Atlas | None]] = {
    "plane": (GO1, FAST_PLANT, None),
    "atlas": (GO1, CONVERGED, FLAT),
    "anymal": (ANYMAL, CONVERGED, None),
    "hexapod": (hexapod(), CONVERGED, None),
    "biped": (biped(), CONVERGED, None),
}


@pytest.fixture(autouse=True)
def one_thread_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """MuJoCo writes MUJOCO_LOG.TXT into the working folder when a simulation explodes."""
    monkeypatch.chdir(tmp_path)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__.removeprefix("check_"))
def test_mujoco_conforms(check: Check, ground: str) -> None:
    robot, plant, atlas = GROUNDS[ground]
    check(lambda n: MujocoEngine(robot, plant, n, atlas=atlas, threads=1))


class Forgetful(MujocoEngine):
    """Breaks one promise: targets that are on their way survive a reset."""

    def reset(self, *args: object) -> None:
        kept = self._targets.copy()
        super().reset(*args)  # type: ignore[arg-type]
        self._targets[:] = kept


class Spreading(MujocoEngine):
    """Breaks one promise: a failure takes the next environment along."""

    def step(self, targets: torch.Tensor) -> RobotState:
        bad = ~torch.isfinite(targets).all(1)
        targets = targets.clone()
        targets[bad.roll(1)] = math.nan
        return super().step(targets)


@pytest.mark.parametrize(
    ("engine", "broken"),
    [
        (Forgetful, {"check_reset_forgets_the_past", "check_failure_is_flagged_and_contained"}),
        (Spreading, {"check_failure_is_flagged_and_contained"}),
    ],
)
def test_the_suite_names_the_promise_that_is_broken(engine: type[MujocoEngine], broken: set[str]) -> None:
    found = set()
    for check in CHECKS:
        try:
            check(lambda n: engine(GO1, FAST_PLANT, n, threads=1))
        except AssertionError:
            found.add(check.__name__)
    assert found == broken


def test_any_number_of_threads_gives_the_same_bits() -> None:
    engines = [MujocoEngine(GO1, FAST_PLANT, 7, threads=k) for k in (1, 2, 3)]
    for engine in engines:
        begin(engine)
    one, two, three = (run(engine, 15) for engine in engines)
    for k in range(15):
        assert_same(one[k], two[k], f"two threads (step {k})")
        assert_same(one[k], three[k], f"three threads (step {k})")
    for engine in engines:
        engine.close()


def with_trunk(robot: RobotSpec, inertial: str) -> RobotSpec:
    """The robot with other attributes in its trunk's <inertial>, the first of the MJCF."""
    return robot.model_copy(
        update={"mjcf": re.sub(r"<inertial[^>]*/>", f"<inertial {inertial}/>", robot.mjcf, count=1)}
    )


def test_a_payload_is_the_model_compiled_with_that_mass() -> None:
    """The solver's inverse weights follow from the masses; without mj_setConst they would be stale."""
    engine = MujocoEngine(GO1, FAST_PLANT, 2, threads=1)
    parameters = Parameters.nominal(2)
    parameters.payload_kg[1] = 3.0
    begin(engine, parameters=parameters)
    ours, light = engine._models[1], engine._models[0]
    factor = (5.204 + 3.0) / 5.204
    inertia = (0.0168129, 0.0630096, 0.0716547, 0.0, -0.000294529, 0.0)
    scaled = " ".join(repr(factor * x) for x in inertia)
    heavier = with_trunk(GO1, f'mass="8.204" pos="0.0223 0 -0.0005" fullinertia="{scaled}"')
    fresh = build_scene(heavier, FAST_PLANT).model
    for name in ("body_mass", "body_inertia", "body_subtreemass", "body_invweight0", "dof_invweight0"):
        np.testing.assert_allclose(getattr(ours, name), getattr(fresh, name), rtol=1e-6, err_msg=name)
    trunk = engine._scene.trunk
    assert light.body_invweight0[trunk, 0] > 1.1 * ours.body_invweight0[trunk, 0]
    begin(engine)
    assert ours.body_invweight0[trunk, 0] == light.body_invweight0[trunk, 0]


def test_a_shifted_centre_of_mass_acts_also_on_a_trunk_that_had_it_at_its_origin() -> None:
    """MuJoCo takes a shortcut for bodies whose inertial frame is the body frame; a shift has to end it."""
    centred = with_trunk(GO1, 'mass="5.204" pos="0 0 0" diaginertia="0.0168 0.063 0.0717"')
    engine = MujocoEngine(centred, CONVERGED, 2, threads=1)
    assert engine._scene.model.body_sameframe[engine._scene.trunk] != 0, "the shortcut is not in use"
    parameters = Parameters.nominal(2)
    parameters.com_m[1, 0] = 0.05
    begin(engine, parameters=parameters)
    force = run(engine, 50, targets=default_targets(engine))[-1].foot_force[..., 2]
    front = force[:, :2].sum(1) / force.sum(1)
    assert front[1] > front[0] + 0.03


@pytest.mark.parametrize("decimation", [1, 2])
@pytest.mark.parametrize("steps_before", [0, 5])
def test_mujocos_silent_self_reset_is_a_failure(decimation: int, steps_before: int) -> None:
    """MuJoCo puts an exploding model back to its initial state, which is finite; only its clock tells."""
    engine = MujocoEngine(GO1, FAST_PLANT.model_copy(update={"decimation": decimation}), 2, threads=1)
    begin(engine, standing(engine, ALOFT_M))
    run(engine, steps_before)
    spin = engine._base_vel + 3
    engine._state[0, spin : spin + 3] = 1e6  # rad/s; accelerations go with the square, beyond 1e10
    state = engine.step(default_targets(engine))
    assert np.isfinite(engine._state[0]).all(), "this is to be the silent case"
    assert float(state.position[0, 2]) < ALOFT_M - 1, "it is back where the model starts"
    assert state.failed.tolist() == [True, False]


def test_a_nan_target_fails_also_when_a_control_step_is_one_physics_step() -> None:
    """MuJoCo replaces the target by zero and warns; with one physics step the clock would not tell."""
    engine = MujocoEngine(GO1, FAST_PLANT.model_copy(update={"decimation": 1}), 2, threads=1)
    begin(engine)
    targets = default_targets(engine)
    targets[1, 3] = math.nan
    assert engine.step(targets).failed.tolist() == [False, True]


@pytest.mark.parametrize("delay", [0, 1, 2, 3, 5])
def test_a_delay_is_exact_to_the_physics_step(delay: int) -> None:
    """In free flight, where the solver has no part in it, against an engine that is commanded every physics
    step."""
    controlled = MujocoEngine(GO1, FAST_PLANT, 1, threads=1)
    every = MujocoEngine(GO1, FAST_PLANT.model_copy(update={"decimation": 1}), 1, threads=1)
    parameters = Parameters.nominal(1)
    parameters.delay_s[:] = delay * FAST_PLANT.dt_s
    begin(controlled, standing(controlled, ALOFT_M), parameters)
    begin(every, standing(every, ALOFT_M))
    rest, moved = default_targets(every), default_targets(every) + 0.2
    issued = 2  # control step; in force from physics step issued * decimation + delay on
    first = issued * FAST_PLANT.decimation + delay
    for k in range(6):
        state = controlled.step(moved if k >= issued else rest)
        for j in range(FAST_PLANT.decimation):
            reference = every.step(moved if k * FAST_PLANT.decimation + j >= first else rest)
        assert torch.equal(state.joint_position, reference.joint_position), f"control step {k}"


def test_a_delay_beyond_the_delay_line_reads_back_as_the_longest_one() -> None:
    engine = MujocoEngine(GO1, FAST_PLANT, 1, max_delay_s=0.04, threads=1)
    parameters = Parameters.nominal(1)
    parameters.delay_s[:] = 1.0
    begin(engine, parameters=parameters)
    run(engine, 3)
    assert float(engine.parameters().delay_s) == pytest.approx(0.04)


def test_torque_is_what_the_servo_gives() -> None:
    """kp (target - q) - kd qdot at the start of the last physics step, clipped at the limit."""
    plant = FAST_PLANT.model_copy(update={"decimation": 1})
    engine = MujocoEngine(GO1, plant, 1, threads=1)
    begin(engine, standing(engine, ALOFT_M))
    targets = default_targets(engine) + torch.linspace(-0.5, 1.5, 12)
    for _ in range(4):
        before = engine.state().clone()
        torque = engine.step(targets).torque
        kp, kd, limit = (torch.tensor(x) for x in (GO1.kp, GO1.kd, GO1.torque_limit_nm))
        servo = kp * (targets - before.joint_position) - kd * before.joint_velocity
        # The implicit integrator takes damping at the end of the step, so a moving joint is braked more or
        # less.
        assert torch.allclose(torque, servo.clamp(-limit, limit), atol=1e-3)


def test_foot_velocity_is_the_change_of_foot_position() -> None:
    plant = FAST_PLANT.model_copy(update={"decimation": 1, "dt_s": 0.001})
    engine = MujocoEngine(GO1, plant, 1, threads=1)
    begin(engine, standing(engine, ALOFT_M))
    states = run(engine, 60, targets=default_targets(engine) + torch.linspace(-0.3, 0.3, 12))
    fastest = 0.0
    for a, b in pairwise(states):
        change = (b.foot_position - a.foot_position) / plant.dt_s
        assert torch.allclose(change, b.foot_velocity, atol=0.02 + 4e-6 / plant.dt_s)  # float32 at 50 m: 4 um
        fastest = max(fastest, float(b.foot_velocity[..., :2].abs().max()))
    assert fastest > 0.5


# ---- on an atlas

HILLS = Atlas.build(
    [TileId("flat", 0, 0), TileId("wave", 6, 1), TileId("flat", 0, 1), TileId("slope_up", 6, 0)]
)


def on_tile(engine: MujocoEngine, tiles: list[int], offset: tuple[float, float]) -> None:
    start = standing(engine)
    start.tile[:] = torch.tensor(tiles)
    start.position[:, :2] = torch.from_numpy(HILLS.origins[tiles]) + torch.tensor(offset)
    start.position[:, 2] += torch.from_numpy(HILLS.height(start.position[:, :2].numpy())).float() + 0.1
    begin(engine, start)


def test_robots_stand_on_the_ground_that_the_atlas_describes() -> None:
    """Off the middle of uneven tiles, where a transposed, mirrored or shifted heightfield would show."""
    engine = MujocoEngine(GO1, CONVERGED, 4, atlas=HILLS, threads=1)
    for offset in [(1.7, -0.6), (-1.1, 2.3), (0.4, 1.9)]:
        on_tile(engine, [0, 1, 2, 3], offset)
        start = engine.state().position[:, :2].clone()
        landed = torch.zeros(4, dtype=torch.int64)
        for state in run(engine, 25, targets=default_targets(engine)):
            assert not bool(state.failed.any())
            assert float((state.position[:, :2] - start).abs().max()) < 0.5, "positions are the world's"
            below = torch.from_numpy(HILLS.height(state.foot_position[..., :2].numpy()))
            clearance = (state.foot_position[..., 2] - below)[state.foot_force[..., 2] > 5.0]
            # The foot's radius is 23 mm; it sinks in a little as it lands, and on a slope its centre is
            # higher.
            assert bool(((clearance > 0.005) & (clearance < 0.033)).all())
            landed += (state.foot_force[..., 2] > 5.0).sum(1)
        assert bool((landed > 10).all())


def test_the_same_tile_elsewhere_on_the_atlas_is_the_same_ground_to_the_bit() -> None:
    engine = MujocoEngine(GO1, CONVERGED, 2, atlas=HILLS, threads=1)
    on_tile(engine, [0, 2], (0.0, 0.0))
    for _ in range(20):
        state = engine.step(default_targets(engine))
    local = state.position[:, :2] - torch.from_numpy(HILLS.origins[[0, 2]])
    assert torch.allclose(local[0], local[1], atol=1e-5)
    for name in ("quaternion", "joint_position", "joint_velocity", "torque", "foot_force"):
        a, b = getattr(state, name)
        assert torch.equal(a, b), name


def test_a_reset_moves_a_robot_to_another_tile_and_a_restore_back() -> None:
    engine = MujocoEngine(GO1, CONVERGED, 2, atlas=HILLS, threads=1)
    on_tile(engine, [1, 3], (1.7, -0.6))
    run(engine, 5)
    saved = engine.snapshot()
    expected = run(engine, 10)
    on_tile(engine, [3, 0], (0.0, 0.0))
    run(engine, 5)
    engine.restore(saved)
    for x, y in zip(expected, run(engine, 10), strict=True):
        assert_same(x, y, "the ground comes back with the robot")


# ---- bad input


def test_an_unknown_engine_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(SurefootError, match="did you mean 'mujoco'"):
        make_engine("mujocco", GO1, FAST_PLANT, 1)


def test_mujoco_refuses_a_gpu_and_says_what_to_use() -> None:
    with pytest.raises(SurefootError, match="--device cpu"):
        make_engine("mujoco", GO1, FAST_PLANT, 1, device="cuda")


def test_engine_options_get_through() -> None:
    engine = make_engine("mujoco", GO1, FAST_PLANT, 3, threads=2)
    assert isinstance(engine, MujocoEngine)
    assert len(engine._datas) == 2
    begin(engine)
    engine.push(mask_of(engine, [1]), torch.ones(3, 2))
    assert engine.state().linear_velocity[:, 0].tolist() == [0, 1, 0]
    engine.close()
