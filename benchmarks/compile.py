"""Seconds until stride's kernels are there when nothing has been compiled yet.

    python benchmarks/compile.py                  minutes; writes compile.json
    python benchmarks/compile.py --device cuda
    python benchmarks/compile.py --quick          one robot, once: shows that all of it runs

A round is two fresh processes, the first with an empty kernel cache (cold), the second with what the first
left there (warm). Each is timed from asking for an engine on the evaluation plant until it shows its first
state; Python's imports and the start of Warp and of the device are not part of it. Processor
time is told beside it: compiling takes one core, and a machine that does other things gives less than that.
Figures are medians over rounds. The JSON keeps what each device gave under its name.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

import torch

from machines import about, keep
from surefoot.compute.warp.start import start_warp
from surefoot.contract import EVALUATION_PLANT
from surefoot.engines.stride import StrideEngine
from surefoot.robots import robot
from surefoot.robots.registry import ROBOTS
from surefoot.terrain import Atlas, TileId

SCHEMA_VERSION = 1
GROUNDS = {"plane": None, "heightfield": TileId("stairs_down", 5, 1)}


def build(name: str, ground: str, device: str) -> tuple[float, float]:
    """Seconds for an engine in this process, and how many of its processor's."""
    tile = GROUNDS[ground]
    spec, atlas = robot(name), None if tile is None else Atlas.build([tile])
    start_warp()
    torch.zeros(1, device=device)
    begun, worked = time.perf_counter(), time.process_time()
    engine = StrideEngine(spec, EVALUATION_PLANT, 16, atlas=atlas, device=device)
    engine.state().position.cpu()
    return time.perf_counter() - begun, time.process_time() - worked


def measured(name: str, ground: str, device: str, rounds: int) -> dict[str, Any]:
    took: dict[str, list[list[float]]] = {"cold": [], "warm": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            # The driver has a cache of its own for what Warp hands over as PTX.
            caches = {"WARP_CACHE_PATH": f"{folder}/warp", "CUDA_CACHE_PATH": f"{folder}/driver"}
            command = [sys.executable, __file__, "--device", device, "--build", name, ground]
            for times in took.values():
                done = subprocess.run(command, env=os.environ | caches, stdout=subprocess.PIPE, check=True)
                times.append([round(float(x), 3) for x in done.stdout.split()])
    row: dict[str, Any] = {"robot": name, "ground": ground, "rounds": took}
    for k, times in took.items():
        row[f"{k}_s"], row[f"{k}_processor_s"] = map(statistics.median, zip(*times, strict=True))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--build", nargs=2, metavar=("ROBOT", "GROUND"), help="only this, in this process")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    if args.build:
        print(*build(*args.build, args.device))
        return
    cases = [("go1", "plane")] if args.quick else list(product(ROBOTS, GROUNDS))
    rows = []
    for case in cases:
        rows.append(measured(*case, args.device, 1 if args.quick else args.rounds))
        print(rows[-1], flush=True)
    device = torch.device(args.device)
    keep(args.out, device, about(device, args.quick) | {"rows": rows}, SCHEMA_VERSION)


if __name__ == "__main__":
    main()
