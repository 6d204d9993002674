"""How far stride is from native MuJoCo, beside how far MuJoCo is from itself.

    python benchmarks/parity.py                  minutes; writes parity.json
    python benchmarks/parity.py --device cuda    stride on the GPU; MuJoCo C stays on the CPU, in float64
    python benchmarks/parity.py --quick          seconds: shows that all of it runs

Every robot makes the same motion on several engines: converged MuJoCo (the reference), stride, MuJoCo from a
state that is off by 1e-6, and MuJoCo with four solver iterations. Distances from the reference are those of
base position (m) and orientation (rad): median, 90th percentile and maximum over environments.

With random targets on heightfields there is also MuJoCo with every cell split along its other diagonal
(another tessellation of the same samples, and on level ground the same surface), MuJoCo with its own prisms,
and on level ground MuJoCo's plane.

At last stride meets itself: on CUDA with the CPU, on the CPU its shapes `solo` and `wide`; how far robots on
the plane are apart after ten control steps. The JSON keeps what each device gave under its name.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import torch

from machines import about, keep
from surefoot.compute.cores import prepare_torch
from surefoot.contract import EVALUATION_PLANT
from surefoot.engines import Engine, MujocoEngine, Parameters, Start
from surefoot.engines.conformance import begin, default_targets, standing
from surefoot.engines.scene import FLOOR, build_scene
from surefoot.engines.stride import StrideEngine
from surefoot.robots import robot
from surefoot.robots.registry import ROBOTS
from surefoot.terrain import Atlas, TileId

SCHEMA_VERSION = 2
AT_S = (0.1, 0.2, 0.5, 1.0)
GROUNDS = {
    "plane": None,
    "slope": TileId("slope_down", 5, 1),
    "stairs": TileId("stairs_down", 5, 1),
    "rough": TileId("rough", 5, 1),
    "flat heightfield": TileId("flat", 0, 0),
}
HALF_ROOT = np.sqrt(0.5)
NEAR_M = 1e-6


@dataclass(frozen=True)
class Motion:
    """How robots begin, besides standing, and what they are told."""

    height_m: float = 0.0
    up_mps: float = 0.0
    thrown: float = 0.0
    """Size of the turn (rad) and of velocities (m/s, 2 rad/s)."""
    bent_rad: float = 0.0
    """Most that joints are off the pose."""
    reach_rad: float = 0.0
    """Most that targets, drawn at every control step, are off the pose."""
    delay_s: float = 0.0
    """The longest; the shortest is half of it."""


RANDOM = "random targets"
MOTIONS = {
    RANDOM: Motion(reach_rad=0.25),
    "long delay": Motion(reach_rad=0.25, delay_s=0.15),
    "settle": Motion(bent_rad=0.1),
    "drop": Motion(height_m=0.1, thrown=0.3, bent_rad=0.1),
    "free flight": Motion(height_m=0.5, up_mps=6.0, thrown=0.3, reach_rad=0.25),
}
MOTIONS_ON = {"plane": tuple(MOTIONS), "stairs": (RANDOM, "long delay", "settle", "drop")}
"""On other grounds random targets alone."""


def engines(name: str, ground: str, motion: str, n: int, device: torch.device) -> dict[str, Engine]:
    tile = GROUNDS[ground]
    atlas = None if tile is None else Atlas.build([tile])
    exact = EVALUATION_PLANT.model_copy(update={"tolerance": 1e-10, "iterations": 100, "ls_iterations": 100})
    hasty = EVALUATION_PLANT.model_copy(update={"iterations": 4, "ls_iterations": 8})
    spec = robot(name)
    made: dict[str, Engine] = {
        "reference": MujocoEngine(spec, exact, n, atlas=atlas),
        "stride": StrideEngine(spec, EVALUATION_PLANT, n, atlas=atlas, device=device),
        "mujoco off by 1e-6": MujocoEngine(spec, exact, n, atlas=atlas),
        "mujoco with 4 iterations": MujocoEngine(spec, hasty, n, atlas=atlas),
    }
    if atlas is not None and motion == RANDOM:
        made["mujoco, other diagonal"] = MujocoEngine(spec, exact, n, atlas=atlas)
        prisms = exact.model_copy(update={"heightfield": "prisms"})
        made["mujoco, prisms"] = MujocoEngine(spec, prisms, n, atlas=atlas)
        if ground == "flat heightfield":
            made["mujoco on a plane"] = MujocoEngine(spec, exact, n)
    return made


def beginning(engine: MujocoEngine, motion: Motion, rng: np.random.Generator) -> Start:
    n, atlas, start = engine.num_envs, engine._atlas, standing(engine)
    if atlas is not None:
        # On the slope and on the stairs themselves, not on the platform in the middle.
        place = np.stack([rng.uniform(1.2, 2.5, n), rng.uniform(-0.5, 0.5, n)], 1)
        start.position[:, :2] = torch.tensor(place + atlas.origins[0])
        # Above the highest ground anywhere below the robot: no foot starts inside it.
        around = [(x, y) for x in np.arange(-0.7, 0.75, 0.1) for y in np.arange(-0.4, 0.45, 0.1)]
        feet = [atlas.height(start.position[:, :2].numpy() + np.array(d)) for d in around]
        start.position[:, 2] += torch.tensor(np.max(feet, 0), dtype=torch.float32)
    quat = np.array([1.0, 0, 0, 0]) + 0.5 * motion.thrown * rng.normal(size=(n, 4))
    start.quaternion[:] = torch.tensor(quat / np.linalg.norm(quat, axis=1, keepdims=True))
    start.position[:, 2] += motion.height_m
    start.linear_velocity[:] = torch.tensor(motion.thrown * rng.normal(size=(n, 3)) + [0, 0, motion.up_mps])
    start.angular_velocity[:] = torch.tensor(2 * motion.thrown * rng.normal(size=(n, 3)))
    start.joint_position += torch.tensor(motion.bent_rad * rng.uniform(-1, 1, start.joint_position.shape))
    return start


def turn_diagonals(engine: MujocoEngine) -> None:
    """The heightfield a quarter turn on, its samples a quarter turn back: only the diagonals differ."""
    for model in engine._models:
        side = int(model.hfield_nrow[0])
        model.hfield_data[:] = np.rot90(model.hfield_data.reshape(side, side)).reshape(-1)
        floor = model.geom(FLOOR).id
        model.geom_quat[floor] = (HALF_ROOT, 0.0, 0.0, HALF_ROOT)
        model.geom_sameframe[floor] = 0  # or MuJoCo would not look at the turn


def angle(a: torch.Tensor, b: torch.Tensor) -> np.ndarray:
    """[N] between quaternions."""
    return 2 * np.arcsin(np.clip((a - (a * b).sum(1, keepdim=True).sign() * b).norm(dim=1).numpy() / 2, 0, 1))


def spread(values: np.ndarray) -> list[float]:
    """Median, 90th percentile, maximum."""
    return [float(f"{np.percentile(values, q):.3g}") for q in (50, 90, 100)]


def measure(
    name: str, ground: str, motion: str, n: int, until_s: float, device: torch.device
) -> list[dict[str, Any]]:
    made, how, rng = engines(name, ground, motion, n, device), MOTIONS[motion], np.random.default_rng(0)
    reference, off = made["reference"], made["mujoco off by 1e-6"]
    assert isinstance(reference, MujocoEngine)
    assert isinstance(off, MujocoEngine)
    start, parameters = beginning(reference, how, rng), Parameters.nominal(n)
    parameters.delay_s[:] = torch.tensor(how.delay_s * rng.uniform(0.5, 1.0, n))
    for engine in made.values():
        begin(engine, start.to(engine.device), parameters.to(engine.device))
    turned = made.get("mujoco, other diagonal")
    if isinstance(turned, MujocoEngine):
        turn_diagonals(turned)
    off._state[:, 1:] += 1e-6 * rng.normal(size=off._state[:, 1:].shape)
    about_it = {"robot": name, "ground": ground, "motion": motion}
    rows: dict[str, dict[str, Any]] = {
        k: about_it | {"engine": k, "position_m": {}, "orientation_rad": {}} for k in made if k != "reference"
    }
    pose = default_targets(reference)
    for k in range(round(until_s * EVALUATION_PLANT.control_hz)):
        targets = pose + torch.tensor(how.reach_rad * rng.uniform(-1, 1, pose.shape), dtype=torch.float32)
        states = {key: e.step(targets.to(e.device)).to(reference.device) for key, e in made.items()}
        t = (k + 1) / EVALUATION_PLANT.control_hz
        if any(abs(t - s) < 1e-6 for s in AT_S):
            exact = states["reference"]
            for key, row in rows.items():
                away = (states[key].position - exact.position).norm(dim=1).numpy()
                row["position_m"][f"{t:.1f}"] = spread(away)
                row["orientation_rad"][f"{t:.1f}"] = spread(angle(states[key].quaternion, exact.quaternion))
    for engine in made.values():
        engine.close()
    return list(rows.values())


STEP_BY_STEP = EVALUATION_PLANT.model_copy(update={"decimation": 1})
"""Every physics step can be looked at."""


def after_ten_control_steps(one: StrideEngine, two: StrideEngine) -> tuple[torch.Tensor, torch.Tensor]:
    """[N] distances of bases (m) and [N] whether a spherical foot was within a micrometre of the plane
    meanwhile, where it depends on rounding whether it touches. Both have the plant STEP_BY_STEP and begun."""
    spec, rng = one.robot, np.random.default_rng(1)
    model = build_scene(spec, STEP_BY_STEP).model
    radius = torch.tensor([model.geom(f).size[0] for f in spec.feet]).float()
    pose, grazed = default_targets(one), torch.zeros(one.num_envs, dtype=torch.bool)
    for k in range(10 * EVALUATION_PLANT.decimation):
        if k % EVALUATION_PLANT.decimation == 0:
            targets = pose + torch.tensor(rng.uniform(-0.3, 0.3, tuple(pose.shape)), dtype=torch.float32)
        states = [engine.step(targets.to(engine.device)) for engine in (one, two)]
        for state in states:
            grazed |= ((state.foot_position[..., 2].cpu() - radius).abs() < NEAR_M).any(1)
    return (states[0].position - states[1].position.cpu()).norm(dim=1), grazed


def meets_itself(name: str, n: int, device: torch.device) -> dict[str, Any]:
    second: dict[str, Any] = {"device": device} if device.type == "cuda" else {"shape": "solo"}
    one = StrideEngine(robot(name), STEP_BY_STEP, n)
    two = StrideEngine(robot(name), STEP_BY_STEP, n, **second)
    begin(one)
    begin(two)
    away, grazed = after_ten_control_steps(one, two)
    row = {
        "robot": name,
        "envs": n,
        "first": "wide, cpu",
        "second": f"{two.shape}, {device.type}",
        "max_m": float(f"{away.max():.3g}"),
        "share_over_1e-6_m": float((away > NEAR_M).float().mean()),
    }
    if one.robot.compile().geom(one.robot.feet[0]).type == mujoco.mjtGeom.mjGEOM_SPHERE:
        row["share_grazing"] = float(grazed.float().mean())
        row["max_m_of_others"] = float(f"{away[~grazed].max():.3g}")
    one.close()
    two.close()
    return row


def cases(robots: list[str], quick: bool) -> Iterator[tuple[str, str, str]]:
    for name in robots:
        for ground in ("plane", "flat heightfield") if quick else GROUNDS:
            for motion in MOTIONS_ON.get(ground, (RANDOM,)):
                yield name, ground, motion


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--robots", nargs="+", default=list(ROBOTS))
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    prepare_torch()
    envs, many, until_s, robots = (8, 16, 0.1, ["go1"]) if args.quick else (args.envs, 1024, 1.0, args.robots)
    device, divergence = torch.device(args.device), []
    for case in cases(robots, args.quick):
        for row in measure(*case, envs, until_s, device):
            divergence.append(row)
            distances = (f"{t} s " + " / ".join(f"{x:.0e}" for x in v) for t, v in row["position_m"].items())
            print(f"{', '.join(case)}: {row['engine']:26s} {'   '.join(distances)}", flush=True)
    entry = about(device, args.quick) | {"envs": envs, "divergence": divergence}
    entry["after_ten_control_steps"] = [meets_itself(name, many, device) for name in robots]
    print(*entry["after_ten_control_steps"], sep="\n")
    keep(args.out, device, entry, SCHEMA_VERSION)


if __name__ == "__main__":
    main()
