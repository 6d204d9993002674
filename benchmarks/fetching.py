"""What fetching instructions costs on CUDA, and what warps gain that go through stride's solver together.

    python benchmarks/fetching.py            two minutes on a GPU; writes fetching.json beside it

`loops` are straight lines of fused multiply-adds, repeated: how many of them a multiprocessor issues in a
cycle (it has four schedulers), where its warps begin together and where they begin at different places.

`steps` are stride's control steps per second, as engines.py times them, all in turns: as the engine is;
`apart`, with warps that begin Newton steps each in their own time; and with sums `as written`, not in the
order that sums.py gives them.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engines import GROUNDS, PLANTS, Sizes, place, timed
from fetching_kernels import make_loop
from machines import about, keep
from surefoot.compiler import Target, program
from surefoot.compute.cores import prepare_torch
from surefoot.compute.warp.launch import Launch
from surefoot.engines.stride import StrideEngine, kernel
from surefoot.robots import robot
from surefoot.terrain import Atlas

SCHEMA_VERSION = 1
ROBOT = "go1"
LENGTHS = (512, 1024, 1536, 2048, 2560, 3072, 4096, 6144, 8192)
WARPS = (1, 4, 8)
CHAINS = 8
"""Accumulators: as many multiply-adds are under way, so that none waits for the one before it."""
TOGETHER = ("#define TOGETHER(m) __syncthreads_or(m)", "#define TOGETHER(m) (m)")
ROUNDS = 5
VARIANTS = ("together", "apart", "sums as written")


def loop_source(length: int) -> str:
    """Warp w waits `apart` * w cycles before it begins; cycles are those of the loop."""
    sums = [f"a{i}" for i in range(CHAINS)]
    line = 'asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"({}) : "f"(b), "f"(b));'
    return "\n".join(
        [
            f"float b = 0.5f, {', '.join(f'{a} = (float)tid' for a in sums)};",
            "const long long born = clock64();",
            "while (clock64() - born < (long long)apart * (threadIdx.x / 32)) {}",
            "const long long begun = clock64();",
            '_Pragma("unroll 1") for (int k = 0; k < turns; ++k) {',
            *(line.format(sums[i % CHAINS]) for i in range(length)),
            "}",
            "cycles.data[tid] = (float)(clock64() - begun);",
            f"results.data[tid] = {' + '.join(sums)};",
        ]
    )


def loops() -> list[dict[str, Any]]:
    device = torch.device("cuda")
    multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
    out = []
    for length in LENGTHS:
        kernel = make_loop(loop_source(length))
        turns = max(8, 400_000 // length)
        for warps in WARPS:
            threads = 32 * warps * multiprocessors
            cycles, results = torch.zeros(2, threads, device=device)
            row: dict[str, Any] = {"instructions": length, "warps": warps}
            for name, apart in (("together", 0), ("apart", length * 5 // 8)):
                launch = Launch(kernel, threads, [turns, apart, cycles, results], device, 32 * warps)
                launch()
                launch()  # the first loads it
                torch.cuda.synchronize()
                row[name] = round(warps * length * turns / float(cycles.mean()), 2)
            out.append(row)
    return out


class Apart(StrideEngine):
    """Whose warps do not wait for each other."""

    def _step_source(self, policy: np.ndarray, target: Target) -> str:
        text = super()._step_source(policy, target)
        assert text.count(TOGETHER[0]) == 1, "what makes warps go together is written otherwise now"
        return text.replace(*TOGETHER)


@contextmanager
def sums_as_written() -> Iterator[None]:
    arranged = program.arranged
    kernel._control_step_source.cache_clear()  # what is equal is written once, and here it is not
    program.arranged = lambda roots, ready: ((kept := list(roots)), [0.0] * len(kept))
    try:
        yield
    finally:
        program.arranged = arranged
        kernel._control_step_source.cache_clear()


def built(variant: str, plant: str, envs: int, atlas: Atlas | None) -> StrideEngine:
    make = Apart if variant == "apart" else StrideEngine
    with sums_as_written() if variant == "sums as written" else nullcontext():
        return make(robot(ROBOT), PLANTS[plant], envs, atlas=atlas, device="cuda")


def steps() -> list[dict[str, Any]]:
    out = []
    for ground, tile in GROUNDS.items():
        atlas = None if tile is None else Atlas.build([tile])
        for plant in PLANTS:
            for envs in (4096, 65536):
                rates: dict[str, list[float]] = {v: [] for v in VARIANTS}
                for _ in range(2):  # in turns, as devices are warmer the second time
                    for variant in VARIANTS:
                        engine = built(variant, plant, envs, atlas)
                        place(engine, atlas)
                        rates[variant] += timed(engine, atlas, Sizes().horizon, ROUNDS)
                        engine.close()
                row: dict[str, Any] = {"robot": ROBOT, "ground": ground, "plant": plant, "envs": envs}
                out.append(row | {v: round(statistics.median(r)) for v, r in rates.items()})
                print(out[-1], flush=True)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("fetching is measured on a CUDA device, and this machine has none")
    prepare_torch()
    device = torch.device("cuda")
    entry = about(device, quick=False) | {"loops": loops(), "steps": steps()}
    keep(args.out, device, entry, SCHEMA_VERSION)


if __name__ == "__main__":
    main()
