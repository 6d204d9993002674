"""Exercise 4: the same run by one process and by two. Says what is the same and what it took.

python examples/exercises/two_levels.py runs/one runs/two
"""

from __future__ import annotations

import sys
from pathlib import Path

from surefoot.runs import RunFolder, load_checkpoint, read_ledger

COUNTS = ("samples", "episode.count", "stratum.samples", "family.resets")


def main(one: Path, two: Path) -> None:
    ledgers = [read_ledger(p / "ledger.jsonl")[0] for p in (one, two)]
    weights = [load_checkpoint(p / "checkpoints" / "latest.safetensors").tensors for p in (one, two)]
    print(f"{'':<32}{one.name:>12}{two.name:>12}")
    processes = [RunFolder.open(p).record.versions.get("processes", "1") for p in (one, two)]
    print(f"{'processes':<32}{processes[0]:>12}{processes[1]:>12}")
    print(f"{'updates':<32}{len(ledgers[0]):>12}{len(ledgers[1]):>12}")
    for name in ("samples", "robot_seconds"):
        print(f"{name:<32}{ledgers[0][-1][name]:>12,.0f}{ledgers[1][-1][name]:>12,.0f}")
    for name, part in (("environments, ms an update", "environment"), ("learning, ms an update", "learning")):
        took = [1e3 * sum(r[f"seconds.{part}"] for r in rows[1:]) / (len(rows) - 1) for rows in ledgers]
        print(f"{name:<32}{took[0]:>12.1f}{took[1]:>12.1f}")
    counted = all(a[k] == b[k] for a, b in zip(*ledgers, strict=True) for k in COUNTS)
    floats = [k for k, w in weights[0].items() if k.startswith("learner") and w.is_floating_point()]
    apart = max(float((weights[0][k] - weights[1][k]).abs().max()) for k in floats)
    print(f"\nthe same counts in every row: {'yes' if counted else 'no'}")
    print(f"largest difference of a weight below 0.001: {'yes' if apart < 1e-3 else 'no'}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
