"""Time to walk: trains tasks over several seeds with their default recipe and records what the panel says.

    python benchmarks/learning.py                                # walk-flat and trot-flat, seeds 1 to 3
    python benchmarks/learning.py --tasks trot-flat --seeds 1 2 3 4 5

Each run is a plain `surefoot train TASK --seed S`; nothing is tuned per seed. Finished runs stay in the JSON,
so an interrupted benchmark continues where it stopped. Figures are medians over seeds with the worst beside
them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from surefoot.artifacts import JsonLines, write_json
from surefoot.evidence import RunFolder

HERE = Path(__file__).parent


def one_run(task: str, seed: int, runs: Path) -> dict[str, Any]:
    """Trains (or continues) one run and reads its artifacts."""
    folder = runs / f"learning-{task}-seed{seed}"
    what = (
        ["--resume", str(folder)]
        if (folder / "run.json").exists()
        else [task, "--seed", str(seed), "--out", str(folder)]
    )
    command = [sys.executable, "-m", "surefoot", "train", *what, "--tracker", "none"]
    subprocess.run(command + ([] if what[0] == "--resume" else ["--quiet"]), check=True)
    record = RunFolder.open(folder).record
    rows = JsonLines(folder / "ledger.jsonl").rows()
    curve = [
        {
            "train_seconds": r["train_seconds"],
            "samples": r["samples"],
            "success": r["evaluation.success"],
            "fall_rate": r["evaluation.fall_rate"],
        }
        for r in rows
        if "evaluation.success" in r
    ]
    reached = next((c for c in curve if c["success"] >= 0.95), None)
    assert record.confirmation is not None
    return {
        "task": task,
        "seed": seed,
        "figures": record.figures,
        "first_95": reached,
        "curve": curve,
        "confirmation": record.confirmation.model_dump(mode="json"),
        "construct_id": record.construct_id,
        "training_id": record.training_id,
        "versions": record.versions,
    }


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Median and worst over the seeds of one task."""
    success = [r["confirmation"]["success"] for r in runs]
    seconds = [r["figures"]["train_seconds"] for r in runs]
    first = [r["first_95"]["train_seconds"] if r["first_95"] else None for r in runs]
    rate = [r["figures"]["steps_per_second"] for r in runs]
    return {
        "seeds": [r["seed"] for r in runs],
        "confirmation_success_median": statistics.median(success),
        "confirmation_success_worst": min(success),
        "train_seconds_median": statistics.median(seconds),
        "train_seconds_worst": max(seconds),
        "seconds_to_first_95": first,
        "steps_per_second_median": statistics.median(rate),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", default=["walk-flat", "trot-flat"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder for the run folders")
    parser.add_argument("--out", type=Path, default=HERE / "learning.json")
    options = parser.parse_args()
    found: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {"runs": []}
    runs: list[dict[str, Any]] = found["runs"]
    for task in options.tasks:
        for seed in options.seeds:
            if not any(r["task"] == task and r["seed"] == seed for r in runs):
                runs.append(one_run(task, seed, options.runs))
            by_task = {t: summary([r for r in runs if r["task"] == t]) for t in {r["task"] for r in runs}}
            machine = {"cpu": _cpu(), "cores": os.cpu_count(), "platform": platform.platform()}
            write_json(
                options.out, {"schema_version": 1, "machine": machine, "summary": by_task, "runs": runs}
            )
    print(json.dumps(by_task, indent=2))


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    names = (
        [x.split(":", 1)[1].strip() for x in info.read_text().splitlines() if x.startswith("model name")]
        if info.exists()
        else []
    )
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    main()
