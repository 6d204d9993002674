"""How far stride is from native MuJoCo, beside how far MuJoCo is from itself.

    python benchmarks/parity.py            # writes benchmarks/parity.json and prints its tables

Every robot and ground runs the same random targets on several engines: converged MuJoCo (the reference),
stride, MuJoCo from a state that is off by 1e-6, MuJoCo with four solver iterations, and on heightfields
MuJoCo with every cell split along its other diagonal: another tessellation of the same samples, and on level
ground the same surface. There MuJoCo's plane stands beside its heightfield. Distances are those of base
position (m) and orientation (rad) from the reference: median, 90th percentile and maximum over environments.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from document import fill, table
from surefoot.contract import EVALUATION_PLANT
from surefoot.engines import Engine, MujocoEngine, Parameters
from surefoot.engines.conformance import default_targets, standing
from surefoot.engines.scene import FLOOR
from surefoot.engines.stride import StrideEngine
from surefoot.robots import robot
from surefoot.robots.registry import ROBOTS
from surefoot.terrain import Atlas, TileId

AT_S = (0.1, 0.2, 0.5, 1.0)
GROUNDS = {
    "plane": None,
    "slope": TileId("slope_down", 5, 1),
    "stairs": TileId("stairs_down", 5, 1),
    "rough": TileId("rough", 5, 1),
    "flat heightfield": TileId("flat", 0, 0),
}
HALF_ROOT = np.sqrt(0.5)


def angle(a: torch.Tensor, b: torch.Tensor) -> np.ndarray:
    return 2 * np.arcsin(np.clip((a - (a * b).sum(1, keepdim=True).sign() * b).norm(dim=1).numpy() / 2, 0, 1))


def engines(name: str, ground: str, atlas: Atlas | None, n: int) -> dict[str, Engine]:
    exact = EVALUATION_PLANT.model_copy(update={"tolerance": 1e-10, "iterations": 100, "ls_iterations": 100})
    hasty = EVALUATION_PLANT.model_copy(update={"iterations": 4, "ls_iterations": 8})
    spec = robot(name)
    made: dict[str, Engine] = {
        "reference": MujocoEngine(spec, exact, n, atlas=atlas),
        "stride": StrideEngine(spec, EVALUATION_PLANT, n, atlas=atlas),
        "mujoco off by 1e-6": MujocoEngine(spec, exact, n, atlas=atlas),
        "mujoco with 4 iterations": MujocoEngine(spec, hasty, n, atlas=atlas),
    }
    if atlas is not None:
        made["mujoco, other diagonal"] = MujocoEngine(spec, exact, n, atlas=atlas)
        prisms = exact.model_copy(update={"heightfield": "prisms"})
        made["mujoco, prisms"] = MujocoEngine(spec, prisms, n, atlas=atlas)
    if ground == "flat heightfield":
        made["mujoco on a plane"] = MujocoEngine(spec, exact, n)
    return made


def turn_diagonals(engine: MujocoEngine) -> None:
    """The heightfield a quarter turn on, its samples a quarter turn back: only the diagonals differ."""
    for model in engine._models:
        side = int(model.hfield_nrow[0])
        model.hfield_data[:] = np.rot90(model.hfield_data.reshape(side, side)).reshape(-1)
        floor = model.geom(FLOOR).id
        model.geom_quat[floor] = (HALF_ROOT, 0.0, 0.0, HALF_ROOT)
        model.geom_sameframe[floor] = 0  # or MuJoCo would not look at the turn


def measure(name: str, ground: str, n: int) -> dict[str, dict[str, dict[str, list[float]]]]:
    tile = GROUNDS[ground]
    atlas = None if tile is None else Atlas.build([tile])
    made = engines(name, ground, atlas, n)
    rng = np.random.default_rng(0)
    start = standing(made["stride"])
    if atlas is not None:
        # On the slope and on the stairs themselves, not on the platform in the middle.
        place = np.stack([rng.uniform(1.2, 2.5, n), rng.uniform(-0.5, 0.5, n)], 1)
        start.position[:, :2] = torch.tensor(place + atlas.origins[0])
        # Above the highest ground anywhere below the robot: no foot starts inside it.
        around = [(x, y) for x in np.arange(-0.7, 0.75, 0.1) for y in np.arange(-0.4, 0.45, 0.1)]
        feet = [atlas.height(start.position[:, :2].numpy() + np.array(d)) for d in around]
        start.position[:, 2] += torch.tensor(np.max(feet, 0), dtype=torch.float32)
    everyone = torch.ones(n, dtype=torch.bool)
    for engine in made.values():
        engine.reset(everyone, start, Parameters.nominal(n))
    turned = made.get("mujoco, other diagonal")
    if isinstance(turned, MujocoEngine):
        turn_diagonals(turned)
    off = made["mujoco off by 1e-6"]
    assert isinstance(off, MujocoEngine)
    off._state[:, 1:] += 1e-6 * rng.normal(size=off._state[:, 1:].shape)
    pose = default_targets(made["stride"])
    out: dict[str, dict[str, dict[str, list[float]]]] = {k: {} for k in made if k != "reference"}
    for k in range(round(max(AT_S) * EVALUATION_PLANT.control_hz)):
        targets = pose + torch.tensor(rng.uniform(-0.25, 0.25, pose.shape), dtype=torch.float32)
        states = {key: engine.step(targets) for key, engine in made.items()}
        t = (k + 1) / EVALUATION_PLANT.control_hz
        if any(abs(t - s) < 1e-6 for s in AT_S):
            reference = states["reference"]
            for key, found in out.items():
                away = (states[key].position - reference.position).norm(dim=1).numpy()
                leans = angle(states[key].quaternion, reference.quaternion)
                found[f"{t:.1f}"] = {
                    "position_m": [float(np.percentile(away, q)) for q in (50, 90, 100)],
                    "orientation_rad": [float(np.percentile(leans, q)) for q in (50, 90, 100)],
                }
    for engine in made.values():
        engine.close()
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=int, default=128)
    parser.add_argument("--robots", nargs="+", default=list(ROBOTS))
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    found = {}
    for name in args.robots:
        for ground in GROUNDS:
            found[f"{name}, {ground}"] = here = measure(name, ground, args.envs)
            print(f"\n{name}, {ground}: base position (m), median / p90 / max")
            for key, times in here.items():
                row = "   ".join(
                    f"{t} s " + " / ".join(f"{x:.1e}" for x in v["position_m"]) for t, v in times.items()
                )
                print(f"  {key:26s} {row}", flush=True)
    args.out.write_text(json.dumps({"envs": args.envs, "divergence": found}, indent=1) + "\n")
    if set(args.robots) == set(ROBOTS):
        document(args.out)


SHOWN = ("stride", "mujoco off by 1e-6", "mujoco, other diagonal", "mujoco, prisms", "mujoco on a plane")


def document(path: Path) -> None:
    """The table in docs/engines.md: median and 90th percentile of the base's distance."""

    def figure(x: float) -> str:
        return "0" if x == 0 else f"{x:.0e}".replace("e-0", "e-")

    rows = []
    for where, by_engine in json.loads(path.read_text())["divergence"].items():
        for who, times in by_engine.items():
            if who in SHOWN:
                pairs = [" / ".join(map(figure, times[f"{t:.1f}"]["position_m"][:2])) for t in AT_S]
                rows.append([f"{where}: {who}", *pairs])
    fill("parity", table(["", *(f"{t:.1f} s" for t in AT_S)], rows))


if __name__ == "__main__":
    main()
