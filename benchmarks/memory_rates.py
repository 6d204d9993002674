"""Training steps per second of policies with and without a memory.

    python benchmarks/memory_rates.py                  a minute on two cores; writes memory_rates.json
    python benchmarks/memory_rates.py --quick          seconds, small, into a temporary file
    python benchmarks/memory_rates.py --device cuda    under a minute on one GPU

Rollout and update of the task's own recipe, as the trainer has them (on CUDA two graphs), in turn between the
memories: the median over rounds. One precision for all, because a GRU is refused in bf16. A row per memory,
written as soon as it is known.
"""

from __future__ import annotations

import surefoot.cli  # noqa: F401  # isort: skip  # first: how waiting threads behave, before torch is loaded

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from machines import about, keep
from surefoot.compute import prepare_torch
from surefoot.training.plan_makers import make_plan
from training_loop import Loop, settle

OUT = Path(__file__).with_name("memory_rates.json")
MEMORIES = ("none", "window:10", "gru:128")


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description="Training steps per second by memory.")
    p.add_argument("--device", default="cpu")
    p.add_argument("--task", default="walk-flat")
    p.add_argument("--memories", nargs="+", default=list(MEMORIES))
    p.add_argument("--envs", type=int, default=None, help="environments (default: the recipe's)")
    p.add_argument("--precision", default=None, help="default: tf32 on CUDA, fp32 on a CPU")
    p.add_argument("--updates", type=int, default=None, help="timed updates of a round")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--quick", action="store_true")
    p.add_argument("--out", default=None)
    return p.parse_args()


def loop_of(a: argparse.Namespace, memory: str) -> Loop:
    changes: dict[str, Any] = {"memory": memory}
    changes["precision"] = a.precision or ("tf32" if a.device.startswith("cuda") else "fp32")
    if a.envs or a.quick:
        changes["envs"] = a.envs or 64
    return Loop(make_plan(a.task, overrides=changes, device=a.device))


def timed(loop: Loop, updates: int) -> dict[str, float]:
    """A round: wall-clock steps per second, and milliseconds of rollout and update by themselves."""
    settle(loop.device)
    begun = time.perf_counter()
    results = [loop.run() for _ in range(updates)]
    settle(loop.device)
    spent = time.perf_counter() - begun
    results[-1].wait()
    seconds = results[-1].seconds
    learning = float(seconds["learning"] or 0.0)
    collecting = float(seconds["environment"] or 0.0) + float(seconds["inference"] or 0.0)
    r = loop.plan.recipe
    return {
        "steps_per_second": r.samples_per_update * updates / spent,
        "rollout_ms": 1e3 * collecting,
        "update_ms": 1e3 * learning,
    }


def row(loop: Loop, rounds: list[dict[str, float]], base: float | None) -> dict[str, Any]:
    plan, metrics = loop.plan, loop.learner.metrics()
    medians = {k: statistics.median(r[k] for r in rounds) for k in rounds[0]}
    rates = [r["steps_per_second"] for r in rounds]
    return medians | {
        "memory": plan.recipe.memory,
        "of_none": None if base is None else medians["steps_per_second"] / base,
        "lowest": min(rates),
        "highest": max(rates),
        "first_ratio_error": metrics.first_ratio_error,
        "skipped_steps": metrics.skipped_steps,
        "envs": plan.recipe.envs,
        "horizon": plan.recipe.horizon,
        "hidden": list(plan.recipe.hidden),
        "precision": plan.recipe.precision,
        "buffer_bytes": plan.accounting.buffer_bytes,
        "updates_done": loop.learner.updates,
    }


def main() -> None:
    a = arguments()
    prepare_torch()
    device = torch.device(a.device)
    updates = a.updates or (2 if a.quick else 20 if device.type == "cuda" else 4)
    out = Path(a.out or (Path(tempfile.mkdtemp()) / OUT.name if a.quick else OUT))
    loops: dict[str, Loop] = {}
    for memory in a.memories:
        begun = time.perf_counter()
        loops[memory] = loop_of(a, memory)
        for _ in range(2):
            loops[memory].run()
        settle(device)
        print(f"{memory}: ready after {time.perf_counter() - begun:.1f} s", flush=True)
    rounds: dict[str, list[dict[str, float]]] = {m: [] for m in loops}
    for _ in range(2 if a.quick else a.rounds):
        for memory, loop in loops.items():
            rounds[memory].append(timed(loop, updates))
        rows: list[dict[str, Any]] = []
        base: float | None = None
        for memory, loop in loops.items():
            rows.append(row(loop, rounds[memory], base))
            base = rows[-1]["steps_per_second"] if memory == "none" else base
        entry = about(device, a.quick) | {"task": a.task, "updates": updates, "rows": rows}
        keep(out, device, entry, 1)
    for r in rows:
        share = "" if r["of_none"] is None else f", {100 * r['of_none']:.0f}% of none"
        print(
            f"{r['memory']}: {r['steps_per_second']:,.0f} steps/s{share}; rollout {r['rollout_ms']:.2f} ms, "
            f"update {r['update_ms']:.2f} ms; first ratio off by {r['first_ratio_error']:.1e}"
        )
    for loop in loops.values():
        loop.close()


if __name__ == "__main__":
    main()
