"""Stride beside native MuJoCo, both as engines: the same calls, the same motion.

The measure is MuJoCo against itself from a state that is off by 1e-6: what nobody can predict, stride need
not match.
"""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch
from other_robots import legged
from random_models import lowered, random_spec, random_states

from surefoot.contract import EVALUATION_PLANT, FAST_PLANT, Plant
from surefoot.engines import MujocoEngine, Parameters, Start
from surefoot.engines.conformance import ALOFT_M, begin, default_targets, standing
from surefoot.engines.protocol import Engine
from surefoot.engines.scene import build_scene
from surefoot.engines.stride import StrideEngine, description
from surefoot.robots import RobotSpec, robot
from surefoot.robots.registry import ROBOTS as BUILT_IN
from surefoot.terrain import Atlas, TileId

COUNT = 48
ROBOTS = tuple(name for name in ("go1", "anymal", "hexapod", "biped") if name in BUILT_IN)
MADE = {
    "six-by-three": legged("six-by-three", (3,) * 6),
    "two-by-six": legged("two-by-six", (6, 6)),
    "unequal": legged("unequal", (2, 4, 1, 3, 3)),
}


def tilted(robot: RobotSpec, degrees: float) -> RobotSpec:
    """The robot on a slope: gravity leans, which is the same."""
    a = np.radians(degrees)
    option = f'<option gravity="{9.81 * np.sin(a)} 0 {-9.81 * np.cos(a)}"/>'
    return robot.model_copy(update={"mjcf": robot.mjcf.replace("<worldbody>", option + "<worldbody>", 1)})


MADE["go1 on 10 degrees"] = tilted(robot("go1"), 10.0)
RANDOM = {f"random {seed}": random_spec(seed) for seed in range(4)}


def spec(name: str) -> RobotSpec:
    return (MADE | RANDOM).get(name) or robot(name)


def thrown(engine: Engine, rng: np.random.Generator, height: float, spin: float) -> Start:
    """Standing robots, lifted, turned and moving, their joints off the pose."""
    n, start = engine.num_envs, standing(engine)
    quat = np.array([1.0, 0, 0, 0]) + spin * rng.normal(size=(n, 4))
    start.quaternion[:] = torch.tensor(quat / np.linalg.norm(quat, axis=1, keepdims=True))
    start.position[:, 2] += height
    start.linear_velocity[:] = torch.tensor(0.5 * rng.normal(size=(n, 3)))
    start.angular_velocity[:] = torch.tensor(2 * spin * rng.normal(size=(n, 3)))
    start.joint_position += torch.tensor(0.1 * rng.uniform(-1, 1, start.joint_position.shape))
    return start


def strewn(engine: Engine, rng: np.random.Generator) -> Start:
    """Robots on the ground in any attitude and pose, moving."""
    scene, start = build_scene(engine.robot, engine.plant), standing(engine)
    model, data = scene.model, mujoco.MjData(scene.model)
    qpos, qvel = random_states(model, rng, engine.num_envs, (0.5, 0.5))
    qpos = np.array([lowered(model, data, q) for q in qpos])
    start.position[:], start.quaternion[:] = torch.tensor(qpos[:, :3]), torch.tensor(qpos[:, 3:7])
    start.linear_velocity[:], start.angular_velocity[:] = (
        torch.tensor(qvel[:, :3]),
        torch.tensor(qvel[:, 3:6]),
    )
    start.joint_position[:] = torch.tensor(qpos[:, scene.qpos])
    return start


def randomised(n: int, rng: np.random.Generator) -> Parameters:
    def u(low: float, high: float, *shape: int) -> torch.Tensor:
        return torch.tensor(rng.uniform(low, high, (n, *shape)), dtype=torch.float32)

    return Parameters(
        friction=u(0.4, 1.2),
        payload_kg=u(-1.0, 3.0),
        com_m=u(-0.03, 0.03, 3),
        strength=u(0.8, 1.2),
        kp_scale=u(0.8, 1.2),
        kd_scale=u(0.8, 1.2),
        delay_s=u(0.0, 0.1),
    )


def divergence(
    name: str,
    plant: Plant,
    *,
    height: float = 0.02,
    spin: float = 0.1,
    reach: float = 0.25,
    random: bool = False,
    steps: int = 10,
    lying: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Distances of base positions [N] after `steps`: stride from MuJoCo, MuJoCo from itself off by 1e-6."""
    rng = np.random.default_rng(7)
    ours = StrideEngine(spec(name), plant, COUNT)
    exact = plant.model_copy(update={"tolerance": 1e-12, "iterations": 100, "ls_iterations": 100})
    theirs, off = (MujocoEngine(spec(name), exact, COUNT) for _ in range(2))
    start = strewn(ours, rng) if lying else thrown(ours, rng, height, spin)
    parameters = randomised(COUNT, rng) if random else Parameters.nominal(COUNT)
    begin(ours, start, parameters)
    begin(theirs, start, parameters)
    moved = start.clone()
    # To float32 a metre has steps of 1e-7: the perturbation goes into the state, not through it.
    begin(off, moved, parameters)
    off._state[:, 1:] += 1e-6 * rng.normal(size=off._state[:, 1:].shape)
    pose = default_targets(ours)
    for k in range(steps):
        targets = pose + torch.tensor(reach * rng.uniform(-1, 1, pose.shape), dtype=torch.float32)
        if k == 3 and random:
            everyone = torch.ones(COUNT, dtype=torch.bool)
            kick = torch.tensor(rng.uniform(-0.5, 0.5, (COUNT, 2)), dtype=torch.float32)
            for engine in (ours, theirs, off):
                engine.push(everyone, kick)
        a, b, c = (engine.step(targets) for engine in (ours, theirs, off))
        assert not a.failed.any()
    found = [(x.position - b.position).norm(dim=1).numpy() for x in (a, c)]
    for engine in (ours, theirs, off):
        engine.close()
    return found[0], found[1]


def assert_as_close_as_noise(ours: np.ndarray, noise: np.ndarray) -> None:
    """Median within five times MuJoCo's own divergence; float32 cannot show less than 1e-7 m."""
    assert np.median(ours) < 5 * np.median(noise) + 3e-7, (np.median(ours), np.median(noise))
    assert np.percentile(ours, 90) < 30 * np.percentile(noise, 90) + 1e-5


CASES = {
    "settle": {"reach": 0.0, "spin": 0.0, "height": 0.0},
    "drop": {"reach": 0.0, "height": 0.1, "spin": 0.3},
    "random targets": {"reach": 0.25},
    "limits": {"reach": 2.0, "height": ALOFT_M},
    "everything randomised": {"reach": 0.25, "random": True},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", [*ROBOTS, *MADE])
def test_stride_moves_as_mujoco(name: str, case: str) -> None:
    if name in MADE and case in ("settle", "limits"):
        pytest.skip("robots made by rule run the three cases that cover most")
    assert_as_close_as_noise(*divergence(name, EVALUATION_PLANT, **CASES[case]))


@pytest.mark.parametrize("name", RANDOM)
def test_random_robots_move_as_mujoco_when_compiled(name: str) -> None:
    """Any axes, offsets, masses and numbers of chains, of unequal depths."""
    assert_as_close_as_noise(*divergence(name, EVALUATION_PLANT, random=True, lying=True))


def test_the_slope_is_one() -> None:
    engine = StrideEngine(MADE["go1 on 10 degrees"], EVALUATION_PLANT, 1)
    assert engine.layout.description.gravity[0] == pytest.approx(1.703, abs=1e-3)


def test_free_flight_is_exact() -> None:
    ours, _ = divergence("go1", EVALUATION_PLANT, height=1.0, reach=0.2, steps=15)
    assert ours.max() < 2e-6


@pytest.mark.parametrize("impratio", [1.0, 10.0])
def test_the_training_plant_is_simulated_with_an_elliptic_cone(impratio: float) -> None:
    plant = FAST_PLANT.model_copy(update={"cone": "elliptic", "impratio": impratio})
    assert_as_close_as_noise(*divergence("go1", plant, reach=0.25))


def test_standing_forces_are_mujocos() -> None:
    engines = [make(robot("go1"), EVALUATION_PLANT, 2) for make in (StrideEngine, MujocoEngine)]
    states = []
    for engine in engines:
        begin(engine)
        for _ in range(75):
            state = engine.step(default_targets(engine))
        states.append(state)
    ours, theirs = states
    assert (ours.foot_force - theirs.foot_force).abs().max() < 0.1  # N, of 30 on each foot
    assert (ours.position[:, 2] - theirs.position[:, 2]).abs().max() < 1e-6
    assert (ours.torque - theirs.torque).abs().max() < 0.01
    assert (ours.foot_position - theirs.foot_position).abs().max() < 1e-5
    assert (ours.foot_velocity - theirs.foot_velocity).abs().max() < 1e-3


def test_on_a_slope_of_the_heightfield_motion_and_forces_are_mujocos() -> None:
    """For 0.8 s, from 5 cm above it, in nine of ten robots: a foot that grazes may touch a step later."""
    atlas = Atlas.build([TileId("slope_down", 4, 1)])
    rng = np.random.default_rng(3)
    ours, theirs = (
        make(robot("go1"), EVALUATION_PLANT, 16, atlas=atlas) for make in (StrideEngine, MujocoEngine)
    )
    start = standing(ours)
    place = atlas.origins[0] + np.stack([rng.uniform(1.0, 2.4, 16), rng.uniform(-0.3, 0.3, 16)], 1)
    start.position[:, :2] = torch.tensor(place)
    start.position[:, 2] += torch.tensor(atlas.height(place) + 0.05, dtype=torch.float32)
    for engine in (ours, theirs):
        begin(engine, start)
    for _ in range(40):
        a, b = (engine.step(default_targets(engine)) for engine in (ours, theirs))
    assert (a.position - b.position).norm(dim=1).quantile(0.9) < 1e-5
    assert b.foot_force.norm(dim=2).amax(1).min() > 5.0, "nobody stands on it"
    assert (a.foot_force - b.foot_force).abs().amax((1, 2)).quantile(0.9) < 0.01  # N


def test_robots_come_to_rest_as_near_as_the_solvers_tolerance_lets_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of all motions the one whose distance from MuJoCo is not rounding."""
    exact = EVALUATION_PLANT.model_copy(update={"tolerance": 1e-12, "iterations": 100, "ls_iterations": 100})
    engines: list[Engine] = [MujocoEngine(robot("anymal"), exact, COUNT)]
    for tolerance in (description.TOLERANCE, 0.1 * description.TOLERANCE):
        monkeypatch.setattr(description, "TOLERANCE", tolerance)
        engines.append(StrideEngine(robot("anymal"), EVALUATION_PLANT, COUNT))
    start = standing(engines[0])
    bent = np.random.default_rng(0).uniform(-0.1, 0.1, start.joint_position.shape)
    start.joint_position += torch.tensor(bent, dtype=torch.float32)
    ends = []
    for engine in engines:
        begin(engine, start)
        for _ in range(50):
            state = engine.step(default_targets(engine))
        ends.append(state.position.clone())
        engine.close()
    loose, strict = (float((end - ends[0]).norm(dim=1).quantile(0.9)) for end in ends[1:])
    assert 10 * strict < loose < 2e-5
