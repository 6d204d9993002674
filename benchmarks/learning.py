"""Time to walk: trains tasks over several seeds with their default recipe and records what the panel says.

    python benchmarks/learning.py                                # walk-flat and trot-flat, seeds 1 to 3
    python benchmarks/learning.py --tasks trot-flat --seeds 1 2 3 4 5
    python benchmarks/learning.py --tasks walk-rough --seeds 1 2 3 4 5 --out learning_h200.json \\
        --reports reports --device cuda --minutes 0.5            # the rest goes to `surefoot train`

Each run is a plain `surefoot train TASK --seed S`; nothing is tuned per seed. Finished runs stay in the JSON,
so an interrupted benchmark continues where it stopped. Figures are medians over seeds with the worst beside
them. On terrain, successes are also counted by class, on every engine that the policy was confirmed on.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from machines import commit, device_name
from performance_plots import plot_terrain
from surefoot.artifacts import JsonLines, write_json
from surefoot.runs import RunFolder
from surefoot.runs.results import load_result

HERE = Path(__file__).parent


def one_run(task: str, seed: int, runs: Path, options: list[str]) -> dict[str, Any]:
    """Trains (or continues) one run and reads its artifacts."""
    folder = runs / f"learning-{task}-seed{seed}"
    what = (
        ["--resume", str(folder)]
        if (folder / "run.json").exists()
        else [task, "--seed", str(seed), "--out", str(folder), *options, "--quiet"]
    )
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-m", "surefoot", "train", *what, "--tracker", "none"], check=True)
    took = time.perf_counter() - begun
    run = RunFolder.open(folder)
    record = run.record
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
        "classes": by_class(run),
        "options": options,
        "process_seconds": round(took, 2),
        "construct_id": record.construct_id,
        "training_id": record.training_id,
        "versions": record.versions,
    }


def by_class(run: RunFolder) -> dict[str, dict[str, list[int]]]:
    """[successes, episodes] of every terrain class on every engine; empty where there is only one class."""
    table = load_result(run).table
    nominal = (table["column"].astype(str) == "nominal") & (table["policy"].astype(str) == "trained")
    terrain, engine = table["terrain"].astype(str), table["engine"].astype(str)
    classes = sorted(set(terrain[nominal]))
    if len(classes) < 2:
        return {}
    out: dict[str, dict[str, list[int]]] = {}
    for e in sorted(set(engine[nominal])):
        successes = {c: table["success"][nominal & (engine == e) & (terrain == c)] for c in classes}
        out[e] = {c: [int(x.sum()), len(x)] for c, x in successes.items()}
    return out


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


def by_task(runs: list[dict[str, Any]]) -> dict[str, Any]:
    tasks = dict.fromkeys(r["task"] for r in runs)
    return {t: summary([r for r in runs if r["task"] == t]) for t in tasks}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", default=["walk-flat", "trot-flat"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder for the run folders")
    parser.add_argument("--out", type=Path, default=HERE / "learning.json")
    parser.add_argument("--reports", type=Path, help="keep the report of each task's first run here")
    options, rest = parser.parse_known_args()
    document: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {"runs": []}
    runs: list[dict[str, Any]] = document["runs"]
    for task in options.tasks:
        for seed in options.seeds:
            if any(r["task"] == task and r["seed"] == seed for r in runs):
                continue
            runs.append(one_run(task, seed, options.runs, rest))
            page = options.runs / f"learning-{task}-seed{seed}" / "report.html"
            if options.reports and seed == options.seeds[0]:
                options.reports.mkdir(parents=True, exist_ok=True)
                shutil.copy(page, options.reports / f"{task}-seed{seed}.html")
            document = {
                "schema_version": 1,
                "machine": _machine(),
                **_when(),
                "summary": by_task(runs),
                "runs": runs,
            }
            write_json(options.out, document)
    rough = {t: [r for r in runs if r["task"] == t and r.get("classes")] for t in by_task(runs)}
    plot_terrain({t: r for t, r in rough.items() if r}, options.out.with_suffix(".svg"))
    print(json.dumps(by_task(runs), indent=2))


def _when() -> dict[str, Any]:
    """When the last run was added, and the commit that it was made with."""
    return {"date": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit()}


def _machine() -> dict[str, Any]:
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    cpu = device_name(torch.device("cpu"))
    return {"cpu": cpu, "cores": os.cpu_count(), "gpu": gpu, "platform": platform.platform()}


if __name__ == "__main__":
    main()
