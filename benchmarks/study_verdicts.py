"""What a study of six comparisons says where the truth is known, by simulation.

    python benchmarks/study_verdicts.py   two minutes; writes study_verdicts.json

Success of a training seed is normal about its arm's typical value, 1 point wide; a share of the larger
value's seeds may collapse to a fixed success. Verdicts are those of `surefoot study` (margin 3 points).
Beside them, for contrast, the rule that they replaced: plain t on the mean difference, each comparison alone.
"""

from __future__ import annotations

import json
import math
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from scipy import stats

from surefoot.artifacts import atomic_write
from surefoot.experiments.studies.figures import step
from surefoot.experiments.studies.verdict import judge

OUT = Path(__file__).with_name("study_verdicts.json")
COMPARISONS, MARGIN, SPREAD = 6, 0.03, 0.01
SEEDS = (5, 8, 12)


@dataclass(frozen=True)
class Truth:
    """The larger value against the smaller."""

    name: str
    typical: float
    """Difference of the typical seeds, before any collapse."""
    share: float = 0.0
    """Of seeds that collapse at the larger value."""
    to: float = 0.0
    base: float = 0.95
    """Success of the smaller value's typical seed."""

    def mean(self) -> float:
        return (1 - self.share) * (self.base + self.typical) + self.share * self.to - self.base

    def median(self) -> float:
        """The median difference, over many seeds."""
        a, b = self.draw(np.random.default_rng(0), (1, 400_000))
        return float(np.median(b - a))

    def draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Any, Any]:
        a, b = rng.normal(self.base, SPREAD, (2, *shape))
        b = np.where(rng.random(shape) < self.share, self.to + (b - self.base), b + self.typical)
        return a, b


def same_mean(share: float, to: float, base: float = 0.95) -> Truth:
    """Seeds collapse, and the typical one gains as much as leaves the mean as it was."""
    gain = (base - share * to) / (1 - share) - base
    return Truth(f"same mean, {share:.0%} of seeds fall to {to:.0%}", gain, share, to, base)


TRUTHS = (
    Truth("no difference", 0.0),
    same_mean(0.1, 0.6),
    same_mean(0.2, 0.8),
    Truth("same typical seed, 20% of seeds fall to 0%", 0.0, 0.2, 0.0),
    Truth("gain of 0.5 points", 0.005),
    Truth("loss of 0.5 points", -0.005),
    Truth("gain of 3 points, the margin", 0.03, base=0.8),
    Truth("gain of 10 points", 0.1, base=0.8),
    Truth("loss of 10 points, 40% of seeds fall to 0%", -0.1, 0.4, 0.0),
)


@dataclass(frozen=True)
class Args:
    draws: int = 1000
    """Studies of each design."""
    workers: int = 2
    out: Path = OUT


def plain_t(a: np.ndarray, b: np.ndarray) -> str:
    """The rule of before: 95% by Student's t on the mean difference, the margin on one side."""
    d = b - a
    half = stats.t.ppf(0.975, len(d) - 1) * d.std(ddof=1) / math.sqrt(len(d))
    if d.mean() - half > 0:
        return "helped"
    return "made it worse" if d.mean() + half < 0 else ""


def simulate(truth: Truth, seeds: int, draws: int) -> dict[str, Any]:
    rng = np.random.default_rng([seeds, TRUTHS.index(truth)])
    names = ("helped", "made it worse", "no difference that matters", "undecided")
    each = dict.fromkeys(names, 0)
    studies = dict.fromkeys(names, 0)
    before = {"helped": 0, "made it worse": 0}
    before_studies = dict(before)
    for _ in range(draws):
        a, b = truth.draw(rng, (COMPARISONS, seeds))
        steps = [step("samples", "success", 1, 2, x, y, range(seeds)) for x, y in zip(a, b, strict=True)]
        said = [outcome for outcome, _ in judge(steps, MARGIN)]
        old = [plain_t(x, y) for x, y in zip(a, b, strict=True)]
        for name in names:
            each[name] += said.count(name)
            studies[name] += name in said
        for name in before:
            before[name] += old.count(name)
            before_studies[name] += name in old
    return {
        "truth": asdict(truth),
        "mean_difference": round(truth.mean(), 6),
        "median_difference": round(truth.median(), 4),
        "seeds": seeds,
        "of_comparisons": {k: v / (COMPARISONS * draws) for k, v in each.items()},
        "of_studies_with_any": {k: v / draws for k, v in studies.items()},
        "plain_t_of_comparisons": {k: v / (COMPARISONS * draws) for k, v in before.items()},
        "plain_t_of_studies_with_any": {k: v / draws for k, v in before_studies.items()},
    }


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
    with ProcessPoolExecutor(args.workers) as pool:
        jobs = [pool.submit(simulate, t, k, args.draws) for t in TRUTHS for k in SEEDS]
        cases = [j.result() for j in jobs]
    document = {"schema_version": 1, "comparisons": COMPARISONS, "margin": MARGIN,
                "draws": args.draws, "cases": cases}  # fmt: skip
    atomic_write(args.out, (json.dumps(document, indent=1) + "\n").encode())
    for c in cases:
        print(c["truth"]["name"], c["seeds"], c["of_comparisons"], c["plain_t_of_comparisons"])


if __name__ == "__main__":
    main()
