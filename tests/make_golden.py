"""Makes the golden run of the current schemas: a small run that every later Surefoot must still read.

    PYTHONPATH=src python tests/make_golden.py tests/golden/v2

A golden run is made once per released set of schemas, under a new name, and never again after its release:
that is the point of it. Until then, delete the folder and make it anew whenever the schemas change.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import torch

from surefoot.runs import RunFolder
from surefoot.sessions import TrainOptions, train
from surefoot.training.restore import load_policy

SIZES = {
    "envs": 8, "families": 4, "horizon": 24, "minibatches": 2, "epochs": 2, "hidden": (16, 16),
    "eval_families": 2, "evaluate_every": 3,
}  # fmt: skip


def expected_actions(folder: Path) -> list[float]:
    """Of the run's policy for one fixed observation."""
    _, policy = load_policy(RunFolder.open(folder), "best")
    size = sum(t.size for t in policy.card.observation)
    action, _ = policy(torch.linspace(-1, 1, size)[None], torch.zeros(1, 0))
    return [float(x) for x in action[0]]


def make(folder: Path) -> None:
    train(TrainOptions("walk-flat", SIZES, engine="mujoco", updates=6, out=str(folder)))
    # One of everything is enough to be read: the whole stays small.
    for name in ("latest", "confirmed"):
        (folder / "checkpoints" / f"{name}.safetensors").unlink()
    (folder / "report.html").unlink()
    first, *others = sorted((folder / "panels").glob("*/selection-*"))
    for path in (*others, first / "traces"):
        shutil.rmtree(path)
    traces = sorted((folder / "panels").glob("*/confirmation/traces/*.npz"))
    shortest = min(traces, key=lambda t: (t.stat().st_size, t.stem))
    for trace in traces:
        if trace != shortest:
            trace.unlink()
    run = RunFolder.open(folder)
    run.write_record(versions=run.record.versions | {"platform": "Linux"})  # not whose kernel it was
    expected = {"schema_version": 1, "actions": expected_actions(folder)}
    (folder / "expected.json").write_text(json.dumps(expected, indent=2) + "\n")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
