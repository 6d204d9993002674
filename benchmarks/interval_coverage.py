"""How often the 95% intervals of evidence/statistics hold the truth, by simulation.

    python benchmarks/interval_coverage.py   minutes on one core; writes interval_coverage.json beside it

Families are alike by a Gaussian copula: z = sqrt(icc) * family + sqrt(1 - icc) * episode, then the quantile
function of each distribution. The truth is the mean (or the mean of the middle half) of that distribution.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from scipy import stats

from surefoot.artifacts import atomic_write
from surefoot.evidence.statistics import iqm_interval, mean_interval, paired, rate

OUT = Path(__file__).with_name("interval_coverage.json")
GRID = np.arange(0.5, 100_000) / 100_000
DISTRIBUTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "normal": stats.norm.ppf,
    "heavy (t, 4 degrees)": lambda u: stats.t.ppf(u, 4),
    "skewed (lognormal 0.5)": lambda u: np.exp(0.5 * stats.norm.ppf(u)),
    "one in ten falls": lambda u: np.where(u < 0.1, 2 + 50 * u, 15 + 5 * u),
}
SIZES = {
    "8 x 8": np.full(8, 8),
    "14 unequal": np.array([1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 10, 12, 16, 20]),
    "20 x 8": np.full(20, 8),
    "24 x 8": np.full(24, 8),
    "32 x 8": np.full(32, 8),
    "64 x 8": np.full(64, 8),
    "60 unequal": np.tile([1, 2, 4, 8, 12], 12),
}
CORRELATIONS = (0.0, 0.3, 0.9)


@dataclass(frozen=True)
class Args:
    draws: int = 2000
    out: str = str(OUT)


def alike(rng: np.random.Generator, sizes: np.ndarray, icc: float, draws: int) -> np.ndarray:
    """Standard normals [draws, n], correlated by `icc` within families."""
    family = np.repeat(np.arange(len(sizes)), sizes)
    shared = rng.normal(size=(draws, len(sizes)))[:, family]
    return np.asarray(math.sqrt(icc) * shared + math.sqrt(1 - icc) * rng.normal(size=shared.shape))


def means(draws: int) -> list[dict[str, Any]]:
    out = []
    rng = np.random.default_rng(1)
    for layout, sizes in SIZES.items():
        family = np.repeat(np.arange(len(sizes)), sizes)
        for name, quantile in DISTRIBUTIONS.items():
            grid = quantile(GRID)
            truths = {"mean": grid.mean(), "iqm": grid[25_000:75_000].mean()}
            for icc in CORRELATIONS:
                data = quantile(stats.norm.cdf(alike(rng, sizes, icc, draws)))
                for what, interval in (("mean", mean_interval), ("iqm", iqm_interval)):
                    runs = [interval(x, family) for x in data]
                    held = float(np.mean([r.low <= truths[what] <= r.high for r in runs]))
                    case = {"interval": what, "families": layout, "values": name, "icc": icc}
                    out.append(case | {"coverage": held, "labelled": runs[0].few})
    return out


def rates(draws: int) -> list[dict[str, Any]]:
    out = []
    rng = np.random.default_rng(2)
    for layout, sizes in SIZES.items():
        family = np.repeat(np.arange(len(sizes)), sizes)
        for p in (0.02, 0.1, 0.5):
            for icc in CORRELATIONS:
                data = alike(rng, sizes, icc, draws) < stats.norm.ppf(p)
                held = float(np.mean([(r := rate(x, family)).low <= p <= r.high for x in data]))
                case = {"interval": "rate", "families": layout, "values": f"{p:g}", "icc": icc}
                out.append(case | {"coverage": held, "labelled": False})
    return out


def pairs(draws: int) -> list[dict[str, Any]]:
    out = []
    rng = np.random.default_rng(3)
    for layout, sizes in SIZES.items():
        family = np.repeat(np.arange(len(sizes)), sizes)
        for pa, pb in ((0.95, 0.99), (0.5, 0.7), (0.9, 0.9), (0.02, 0.02)):
            for icc in CORRELATIONS:
                a = alike(rng, sizes, icc, draws)
                b = 0.6 * a + 0.8 * alike(rng, sizes, icc, draws)
                hits = zip(a < stats.norm.ppf(pa), b < stats.norm.ppf(pb), strict=True)
                runs = [paired(x, y, family, binary=True) for x, y in hits]
                held = float(np.mean([r.low <= pb - pa <= r.high for r in runs]))
                values = f"{pa:g} against {pb:g}"
                case = {"interval": "paired rate", "families": layout, "values": values, "icc": icc}
                out.append(case | {"coverage": held, "labelled": False})
    return out


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
    cases = [*means(args.draws), *rates(args.draws), *pairs(args.draws // 2)]
    found = {"schema_version": 2, "nominal": 0.95, "draws": args.draws, "cases": cases}
    atomic_write(args.out, (json.dumps(found, indent=1) + "\n").encode())
    for kind in ("mean", "iqm", "rate", "paired rate"):
        for labelled in (False, True):
            held = sorted(
                (c["coverage"], c["families"], c["values"], c["icc"])
                for c in cases
                if c["interval"] == kind and c["labelled"] == labelled
            )
            if held:
                average = np.mean([h[0] for h in held])
                what = f"{kind}{', labelled' if labelled else ''}: {len(held)} designs, average {average:.4f}"
                print(what, *held[:6], sep="\n  ")


if __name__ == "__main__":
    main()
