"""What mirrored samples cost and bring: Surefoot's PPO with and without them, seed by seed.

    python benchmarks/mirroring.py            # continues where it stopped
    python benchmarks/mirroring.py --read     # only what the finished runs say

Writes mirroring.json; tables.py makes its table. Only seeds that are finished both ways count, two or
more of them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from scipy.stats import t

from document import Block, table
from learners import OPTIONS as SMALL
from learners import machine
from surefoot.artifacts import write_json
from surefoot.runs import RunFolder, read_ledger

FOUND = Path(__file__).with_name("mirroring.json")
WAYS = {"mirrored": "True", "plain": "False"}
LIMITS = ("--until", "0.95", "--updates", "450", "--perturb", "none")
SETS: dict[str, tuple[tuple[str, ...], int]] = {
    "small": ((*SMALL[: SMALL.index("--perturb")], "--perturb", "none"), 6),
    "trot": (("trot-flat", *LIMITS), 3),
    "walk": (("walk-flat", *LIMITS), 3),
}
"""Options and seeds: the comparison of learners, and two tasks as they come."""


def read(path: Path) -> dict[str, Any]:
    run = RunFolder.open(path)
    rows, _ = read_ledger(run.ledger.path)
    looks = [r for r in rows if "evaluation.success" in r]
    confirmation = run.record.confirmation
    assert confirmation is not None
    return {
        "mirror": run.record.recipe.mirror,
        "hidden": run.record.recipe.hidden,
        "epochs": run.record.recipe.epochs,
        "samples": [r["samples"] for r in looks],
        "selection": [r["evaluation.success"] for r in looks],
        "reached": next((r["samples"] for r in looks if r["evaluation.success"] >= 0.95), None),
        "confirmation": confirmation.success,
        "std": rows[-1]["std"],
    }


def finished(path: Path) -> bool:
    return (path / "run.json").exists() and RunFolder.open(path).record.confirmation is not None


def train(folder: Path) -> None:
    for name, (options, seeds) in SETS.items():
        for seed in range(1, seeds + 1):
            for way, mirror in WAYS.items():
                out = folder / f"{name}-{way}-seed{seed}"
                if not finished(out):
                    chosen = ("--seed", str(seed), "--mirror", mirror, "--out", str(out), "--quiet")
                    command = [sys.executable, "-m", "surefoot", "train", *options, *chosen]
                    subprocess.run(command, check=True)


def figures(folder: Path) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, (options, seeds) in SETS.items():
        paths = {s: {w: folder / f"{name}-{w}-seed{s}" for w in WAYS} for s in range(1, seeds + 1)}
        both = {
            s: {w: read(p) for w, p in of.items()}
            for s, of in paths.items()
            if all(map(finished, of.values()))
        }
        for of in both.values():
            assert of["mirrored"]["mirror"]
            assert not of["plain"]["mirror"]
        if len(both) > 1:
            out[name] = {"options": options, "seeds": {str(s): of for s, of in both.items()}}
    return out


def rise(of: dict[str, Any], until: int) -> float:
    """Mean success on the selection half over the looks that both ways had."""
    return mean(of["selection"][:until])


def rows(document: dict[str, Any]) -> list[list[str]]:
    out = []
    for of in document.values():
        seeds = list(of["seeds"].values())
        looks = [min(len(s[w]["selection"]) for w in WAYS) for s in seeds]
        gain = np.array(
            [rise(s["plain"], k) - rise(s["mirrored"], k) for s, k in zip(seeds, looks, strict=True)]
        )
        half = t.ppf(0.975, len(gain) - 1) * gain.std(ddof=1) / len(gain) ** 0.5
        low, middle, high = (100 * (gain.mean() + x) for x in (-half, 0.0, half))
        first = seeds[0]["plain"]
        what = f"{of['options'][0]}, {' x '.join(map(str, first['hidden']))}, {first['epochs']} epochs"
        for way in WAYS:
            runs = [s[way] for s in seeds]
            when = ", ".join("no" if r["reached"] is None else f"{r['reached'] / 1e6:.2f}M" for r in runs)
            held = f"{100 * mean(r['confirmation'] for r in runs):.1f}%"
            rises = f"{100 * mean(rise(r, k) for r, k in zip(runs, looks, strict=True)):.1f}%"
            if way == "plain":
                rises += f" ({middle:+.1f}, 95% {low:+.1f} to {high:+.1f})"
            out.append([what, way, when, rises, held])
    return out


def mirroring() -> str:
    head = ["", "samples are", "95% at, by seed", "mean over all evaluations", "confirmation"]
    return table(head, rows(json.loads(FOUND.read_text())["found"]))


BLOCKS = {"mirroring": Block(mirroring, (FOUND.name,))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/mirroring"))
    parser.add_argument("--read", action="store_true", help="train nothing, read the runs that are there")
    args = parser.parse_args()
    if not args.read:
        train(args.runs)
    write_json(FOUND, {"schema_version": 1, "machine": machine(), "found": figures(args.runs)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
