"""Ten seconds of hostile actions on every terrain class: who is flagged, and whether anything spreads.

    python benchmarks/adversarial.py                       4,096 environments; writes adversarial.json
    python benchmarks/adversarial.py --device cuda --envs 4096 65536
    python benchmarks/adversarial.py --quick               seconds: shows that all of it runs

Robots start anywhere on the hardest tile of every class, are kicked twice a second and follow targets:

random      drawn anew at every control step, up to a radian about the pose
bang-bang   jumping between the limits of every joint
poisoned    the random ones, of which one robot in 31 gets NaN or infinity at every step

A flagged robot (not finite, or faster than 100 m/s or rad/s) is reset. Nothing may be non-finite in any state
that an engine returns, and robots beside poisoned ones must end where they ended without poison, to the bit.
Native MuJoCo, converged and on the same plant, runs bang-bang beside it with fewer robots (`--mujoco-envs`).
The JSON keeps what each device gave under its name.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from machines import about, keep
from surefoot.compute.cores import prepare_torch
from surefoot.contract import TRAINING_PLANT
from surefoot.engines import Engine, MujocoEngine, Parameters, Start
from surefoot.engines.conformance import default_targets, standing
from surefoot.engines.stride import StrideEngine
from surefoot.robots import robot
from surefoot.robots.registry import ROBOTS
from surefoot.terrain import HELD_OUT, LEVELS, SIZE_M, TRAINED, Atlas, TileId

SCHEMA_VERSION = 1
CLASSES = (*TRAINED, *HELD_OUT)
PLANT = TRAINING_PLANT
CONVERGED = PLANT.model_copy(update={"iterations": 100, "ls_iterations": 100})
KICK_EVERY = 25
POISONED = 31
KINDS = ("random", "bang-bang", "poisoned")


@cache
def ground() -> Atlas:
    return Atlas.build([TileId(c, LEVELS - 1, 0) for c in CLASSES])


def anywhere(engine: Engine) -> Start:
    """Robots take turns on the classes; each stands clear of the ground around it."""
    atlas, n, rng = ground(), engine.num_envs, np.random.default_rng(0)
    start, tile = standing(engine), np.arange(n) % len(CLASSES)
    xy = atlas.origins[tile] + rng.uniform(-3.0, 3.0, (n, 2))
    around = [(x, y) for x in np.arange(-0.7, 0.75, 0.1) for y in np.arange(-0.5, 0.55, 0.1)]
    top = np.max([atlas.height(xy + np.array(d)) for d in around], 0)
    start.tile[:] = torch.tensor(tile)
    start.position[:, :2] = torch.tensor(xy)
    start.position[:, 2] += torch.tensor(top, dtype=torch.float32, device=engine.device)
    return start


def hostile(engine: Engine, kind: str, steps: int) -> Iterator[torch.Tensor]:
    """Targets [N, J] of every step; poison leaves the other robots' targets as they are."""
    n, spec = engine.num_envs, engine.robot
    pose, rng = default_targets(engine).cpu(), torch.Generator().manual_seed(1)
    low, high = torch.tensor(spec.joint_low).float(), torch.tensor(spec.joint_high).float()
    poison = torch.tensor([torch.nan, torch.inf, -torch.inf])
    for k in range(steps):
        u = torch.rand(n, len(spec.joints), generator=rng)
        targets = torch.where(u < 0.5, low, high) if kind == "bang-bang" else pose + 2 * u - 1
        if kind == "poisoned":
            targets[::POISONED, k % len(spec.joints)] = poison[k % 3]
        yield targets.to(engine.device)


def ordeal(engine: Engine, kind: str, steps: int) -> tuple[dict[str, Any], torch.Tensor]:
    """What happened, and where everyone was at the end [N, 3]."""
    n, d = engine.num_envs, engine.device
    start, nominal = anywhere(engine), Parameters.nominal(n, engine.device)
    everyone = torch.ones(n, dtype=torch.bool, device=d)
    origin = torch.tensor(ground().origins, device=d)[start.tile]
    rng = torch.Generator().manual_seed(2)
    engine.reset(everyone, start, nominal)
    flags = torch.zeros(n, dtype=torch.int64, device=d)
    wrong = torch.zeros((), dtype=torch.int64, device=d)
    begun = time.perf_counter()
    for k, targets in enumerate(hostile(engine, kind, steps)):
        state = engine.step(targets)
        for value in state.tensors().values():
            wrong += (~torch.isfinite(value)).sum()
        flags += state.failed
        engine.reset(state.failed, start, nominal)
        if k % KICK_EVERY == 0:
            engine.push(everyone, (4 * torch.rand(n, 2, generator=rng) - 2).to(d))
        xy = engine.state().position[:, :2] - origin
        offset = -SIZE_M * torch.floor((xy + SIZE_M / 2) / SIZE_M)
        engine.translate((offset != 0).any(1), offset)
    end = engine.state().position.clone()
    above = end[:, 2].cpu().numpy() - ground().height(end[:, :2].cpu().numpy())
    by_class = {c: int((flags[start.tile == i] > 0).sum()) for i, c in enumerate(CLASSES)}
    return {
        "engine": engine.name,
        "robot": engine.robot.name,
        "actions": kind,
        "envs": n,
        "control_steps": n * steps,
        "flagged_envs": by_class,
        "flags": int(flags.sum()),
        "flags_per_million_steps": round(1e6 * int(flags.sum()) / (n * steps), 2),
        "nonfinite_values": int(wrong),
        "lowest_trunk_above_ground_m": round(float(above.min()), 3),
        "seconds": round(time.perf_counter() - begun, 1),
    }, end


def on_stride(name: str, envs: int, steps: int, device: torch.device) -> Iterator[dict[str, Any]]:
    engine = StrideEngine(robot(name), PLANT, envs, atlas=ground(), device=device)
    ends = {}
    for kind in KINDS:
        row, ends[kind] = ordeal(engine, kind, steps)
        if kind == "poisoned":
            beside = torch.arange(envs, device=engine.device) % POISONED != 0
            moved = (ends["poisoned"] != ends["random"]).any(1) & beside
            row |= {"beside_poisoned": int(beside.sum()), "disturbed": int(moved.sum())}
        yield row
    engine.close()


def on_mujoco(name: str, envs: int, steps: int) -> Iterator[dict[str, Any]]:
    if envs:
        engine = MujocoEngine(robot(name), CONVERGED, envs, atlas=ground())
        yield ordeal(engine, "bang-bang", steps)[0]
        engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--envs", type=int, nargs="+", default=[4096])
    parser.add_argument("--mujoco-envs", type=int, default=240, help="0: stride alone")
    parser.add_argument("--robots", nargs="+", default=list(ROBOTS))
    parser.add_argument("--seconds", type=float, default=10.0, help="simulated")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    prepare_torch()
    envs, reference, seconds, robots = args.envs, args.mujoco_envs, args.seconds, args.robots
    if args.quick:
        envs, reference, seconds, robots = [32, 64], 10, 0.2, ["go1"]
    device, steps, results = torch.device(args.device), round(seconds * PLANT.control_hz), []
    for name in robots:
        ours = (on_stride(name, n, steps, device) for n in envs)
        for row in chain(*ours, on_mujoco(name, reference, steps)):
            results.append(row)
            print(json.dumps(row), flush=True)
    about_it = {"simulated_s": seconds, "level": LEVELS - 1, "plant": PLANT.model_dump(mode="json")}
    keep(args.out, device, about(device, args.quick) | about_it | {"results": results}, SCHEMA_VERSION)


if __name__ == "__main__":
    main()
