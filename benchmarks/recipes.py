"""Every shipped recipe under the panels and the success rule of today, with what version 1 would have said of
the same policies beside it.

    python benchmarks/recipes.py --device cuda --runs runs/recipes      trains, confirms, writes recipes.json
    python benchmarks/recipes.py --tasks walk-flat trot-flat --out benchmarks/recipes_cpu.json    on two cores
    python benchmarks/recipes.py --tasks walk-flat --seeds 1 --minutes 0.1 --out /tmp/r.json      a short look

A run is what `surefoot train TASK` makes, with its own limits. Version 1: the same policy on the confirmation
half of the old panel on native MuJoCo, judged by the instantaneous errors alone. A run that is there already
is not trained again.
"""

from __future__ import annotations

import surefoot.cli  # noqa: F401  # isort: skip  # first: how waiting threads behave, before torch is loaded

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

from machines import about, device_name
from surefoot.artifacts import write_json
from surefoot.compute import cores
from surefoot.contract import BOX_WORLD, NOMINAL, TRAINED, load_panel
from surefoot.evaluation import PanelEvaluator
from surefoot.runs import RunFolder, load_result
from surefoot.statistics import WORDS, judge, rate
from surefoot.tasks import task
from surefoot.training.restore import load_policy

OUT = Path(__file__).with_name("recipes.json")
TASKS = ("walk-flat", "trot-flat", "walk-rough", "walk-anymal-flat", "walk-anymal-rough", "walk-biped-flat")


@dataclass(frozen=True)
class Args:
    tasks: tuple[str, ...] = TASKS
    seeds: tuple[int, ...] = (1, 2, 3)
    device: str = "cpu"
    runs: str = "runs/recipes"
    """Where the runs are, or come to be."""
    minutes: float | None = None
    """Most minutes of training; a task's own by default."""
    append: bool = False
    """Keep the rows of other tasks and seeds that the file has; each row says its own commit and day."""
    out: str = str(OUT)


def train(args: Args, name: str, seed: int) -> RunFolder:
    folder = Path(args.runs) / f"{name}-{seed}"
    if not folder.exists():
        command = [sys.executable, "-m", "surefoot", "train", name, "--seed", str(seed), "--quiet"]
        command += ["--device", args.device, "--tracker", "none", "--out", str(folder)]
        command += ["--minutes", str(args.minutes)] if args.minutes else []
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return RunFolder.open(folder)


def spoken(values: np.ndarray, family: np.ndarray) -> dict[str, float]:
    found = rate(values, family)
    return {"success": found.value, "low": found.low, "high": found.high, "n": found.n, "n_eff": found.n_eff}


def before(run: RunFolder, name: str) -> dict[str, float]:
    """Says of the run's policy what version 1 would have said."""
    chosen, made = task(name), load_panel(run.record.panel.replace("-v2", "-v1"))
    _, bundle = load_policy(run, "confirmed")
    evaluator = PanelEvaluator(chosen, made, "confirmation", run.record.recipe.control_hz)
    try:
        rows = evaluator.run(bundle, traces=False).rows
    finally:
        evaluator.close()
    limits = chosen.contract.success
    good = (rows["velocity_error_mps"] < limits.velocity_error_mps) & ~rows["fall"].astype(bool)
    good &= rows["yaw_error_radps"] < limits.yaw_error_radps
    return spoken(good, rows["family"])


def row(run: RunFolder, name: str, seed: int) -> dict[str, Any]:
    result = load_result(run)
    rows, s, figures = result.rows, result.summary, run.record.figures
    columns = [c for c in s.columns if c.policy == TRAINED and c.perturbation]
    told = np.abs(np.stack([rows[f"command_{k}"] for k in ("vx", "vy", "wz")])).max(0)
    stand = told <= task(name).contract.command.dead_zone
    boxes = {
        c: [int(rows_["success"][at].sum()), int(at.sum())]
        for rows_ in [_of(result.table, BOX_WORLD)]
        for c in np.unique(rows_["terrain"])
        for at in [rows_["terrain"] == c]
    }
    return {
        "task": name,
        "seed": seed,
        "panel": s.panel,
        "train_seconds": figures.get("train_seconds"),
        "samples": figures.get("samples"),
        "v1": before(run, name),
        "v2": spoken(rows["success"], rows["family"]),
        "fall_rate": s.fall_rate,
        "verdict": WORDS[judge(s.success, s.success_low, s.safety_held, s.beats_baselines)],
        "standing": [int(rows["success"][stand].sum()), int(stand.sum())],
        "columns": {c.column: [c.success, c.success_low, c.holds] for c in columns},
        "classes": {k: [e.value, e.low, e.n] for k, e in s.terrain.items()},
        "boxes": boxes,
        "labels": s.labels,
    }


def _of(table: dict[str, np.ndarray], engine: str) -> dict[str, np.ndarray]:
    own = (table["policy"].astype(str) == TRAINED) & (table["column"].astype(str) == NOMINAL)
    own &= table["engine"].astype(str) == engine
    return {k: v[own] for k, v in table.items()}


def main(args: Args) -> None:
    out = Path(args.out)
    kept = json.loads(out.read_text())["rows"] if args.append and out.exists() else []
    rows = [r for r in kept if r["task"] not in args.tasks or r["seed"] not in args.seeds]
    device = torch.device(args.device)
    for name in args.tasks:
        for seed in args.seeds:
            made = about(device, args.minutes is not None)
            r = row(train(args, name, seed), name, seed)
            rows.append(r | {"commit": made["commit"], "date": made["date"][:10]})
            print(
                f"{name} seed {seed}: v1 {r['v1']['success']:.1%}, v2 {r['v2']['success']:.1%}, "
                f"{r['verdict']}"
            )
            where = (
                {"gpu": device_name(device)}
                if device.type == "cuda"
                else {"cores": cores(), "cpu": device_name(device)}
            )
            write_json(out, {"machine": where} | made | {"rows": rows})


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
