"""How often the interval at which a sequential confirmation stops holds the truth, by simulation.

    python benchmarks/sequential_coverage.py   seconds; writes sequential_coverage.json beside it

Scenarios succeed independently with a true rate; looks are those of the product (`surefoot.statistics`), at
1, 2, 4 and 8 times the scenarios of walk-flat-v2, and end when its rule says so. Beside it stands what
looking without an allowance would have done: the same stopping with plain 95% intervals.
"""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from surefoot.artifacts import atomic_write
from surefoot.contract import make_panel
from surefoot.statistics import LOOKS, RELIABLE_AT, clopper_pearson, look_at

OUT = Path(__file__).with_name("sequential_coverage.json")
OWN = len(make_panel("walk-flat-v2").select("confirmation"))
TRUTHS = (0.8, 0.85, 0.88, 0.89, 0.9, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 0.98, 0.99)


@dataclass(frozen=True)
class Args:
    draws: int = 20_000
    out: str = str(OUT)


def ends(allowed: bool) -> list[np.ndarray]:
    """Interval of every number of successes at every look, [successes, 2]."""
    out = []
    for number, times in enumerate(LOOKS, 1):
        n = OWN * times
        if allowed:
            found = [look_at(np.arange(n) < k, number).success for k in range(n + 1)]
            out.append(np.array([(f.low, f.high) for f in found]))
        else:
            out.append(np.array([clopper_pearson(k / n, n) for k in range(n + 1)]))
    return out


def play(truth: float, draws: int, intervals: list[np.ndarray]) -> dict[str, float | list[float]]:
    rng = np.random.default_rng([20_270_101, round(1e4 * truth)])
    new = np.diff(np.array([0, *LOOKS]) * OWN)
    hits = np.cumsum(np.stack([rng.binomial(n, truth, draws) for n in new]), 0)
    low, high = (np.stack([t[h, end] for t, h in zip(intervals, hits, strict=True)]) for end in (0, 1))
    decided = (low >= RELIABLE_AT) | (high < RELIABLE_AT)
    decided[-1] = True
    stop = decided.argmax(0)
    low, high = (np.take_along_axis(x, stop[None], 0)[0] for x in (low, high))
    return {
        "truth": truth,
        "coverage": float(((low <= truth) & (truth <= high)).mean()),
        "reliable": float((low >= RELIABLE_AT).mean()),
        "scenarios": float((np.array(LOOKS) * OWN)[stop].mean()),
        "stopped": [float((stop == k).mean()) for k in range(len(LOOKS))],
    }


def main(args: Args) -> None:
    found = {
        name: [play(truth, args.draws, intervals) for truth in TRUTHS]
        for name, intervals in (("cases", ends(True)), ("without_allowance", ends(False)))
    }
    about = {"machine": platform.processor(), "draws": args.draws, "looks": [OWN * k for k in LOOKS]}
    atomic_write(Path(args.out), json.dumps(about | found, indent=1).encode())
    for case in found["cases"]:
        print(case)
    print(
        "without allowance:", [(c["truth"], c["coverage"], c["reliable"]) for c in found["without_allowance"]]
    )


if __name__ == "__main__":
    main(tyro.cli(Args))
