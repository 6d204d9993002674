"""Do environments from outside learn? Trains some with Surefoot's PPO and writes what the held-out seeds say
to outside.json, beside this file.

    python benchmarks/outside.py

Steps per second are those of a machine that may be doing other things; returns and samples are not affected.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from surefoot.artifacts import atomic_write, read_table
from surefoot.runs import RunFolder


@dataclass
class Args:
    tasks: tuple[str, ...] = ("gym:InvertedPendulum-v5=30", "envpool:HalfCheetah-v5=200")
    """Environment=updates."""
    out: str = str(Path(__file__).with_suffix(".json"))


def measure(task: str, updates: int, folder: Path) -> dict[str, Any]:
    options = ["--updates", str(updates), "--evaluate-every", str(updates), "--tracker", "none", "--quiet"]
    command = [sys.executable, "-m", "surefoot", "train", task, *options, "--out", str(folder)]
    subprocess.run(command, check=True)
    record = RunFolder.open(folder).record
    confirmed, figures = record.confirmation, record.figures
    assert confirmed is not None
    rows = read_table(folder / "panels" / record.panel / "confirmation" / "episodes.parquet")
    returns = {
        name: {
            "mean": float(rows["return"][rows["policy"] == name].mean()),
            "std": float(rows["return"][rows["policy"] == name].std(ddof=1)),
        }
        for name in np.unique(rows["policy"]).tolist()
    }
    return {
        "task": task,
        "updates": updates,
        "samples": figures["samples"],
        "train_seconds": figures["train_seconds"],
        "steps_per_second": figures["steps_per_second"],
        "success": confirmed.success,
        "success_low": confirmed.success_low,
        "success_high": confirmed.success_high,
        "episodes": confirmed.episodes,
        "returns": returns,
        "success_is": getattr(record.contract.success, "doc", ""),
        "versions": record.versions,
    }


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for k, named in enumerate(args.tasks):
            task, updates = named.rsplit("=", 1)
            results.append(measure(task, int(updates), Path(folder) / str(k)))
            atomic_write(Path(args.out), (json.dumps(results, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
