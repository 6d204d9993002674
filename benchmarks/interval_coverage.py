"""How often the 95% intervals of evidence/statistics hold the truth, by simulation.

    python benchmarks/interval_coverage.py   minutes; writes interval_coverage.json

Families are alike by a Gaussian copula: z = sqrt(icc) * family + sqrt(1 - icc) * episode, then the quantile
function of each distribution. The truth is the mean (or the mean of the middle half) of that distribution;
its span, where it has no ends, lies between the quantiles of 0.1% and 99.9%.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from scipy import stats

from surefoot.artifacts import atomic_write
from surefoot.statistics import iqm_interval, mean_interval, rate
from surefoot.statistics.means import UNSEEN_FAMILIES
from surefoot.statistics.paired import SPARSE_FAMILIES, paired_interval

OUT = Path(__file__).with_name("interval_coverage.json")
GRID = np.arange(0.5, 100_000) / 100_000


def falls(share: float) -> Callable[[np.ndarray], np.ndarray]:
    """Returns from 15 to 20, but for a share that are those of a fall, from 2 to 7."""
    return lambda u: np.where(u < share, 2 + 5 / share * u, 15 + 5 * u)


DISTRIBUTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "normal": stats.norm.ppf,
    "heavy (t, 4 degrees)": lambda u: stats.t.ppf(u, 4),
    "skewed (lognormal 0.5)": lambda u: np.exp(0.5 * stats.norm.ppf(u)),
    "one in ten falls": falls(0.1),
    "three in ten fall": falls(0.3),
    "half fall": falls(0.5),
}
SIZES = {
    "4 x 8": np.full(4, 8),
    "6 x 8": np.full(6, 8),
    "8 x 8": np.full(8, 8),
    "12 x 8": np.full(12, 8),
    "14 unequal": np.array([1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 10, 12, 16, 20]),
    "16 x 16": np.full(16, 16),
    "20 x 8": np.full(20, 8),
    "24 x 8": np.full(24, 8),
    "28 x 8": np.full(28, 8),
    "32 x 8": np.full(32, 8),
    "64 x 8": np.full(64, 8),
    "60 unequal": np.tile([1, 2, 4, 8, 12], 12),
}
CORRELATIONS = (0.0, 0.3, 0.9, 1.0)


@dataclass(frozen=True)
class Args:
    draws: int = 1000
    workers: int = 2
    out: str = str(OUT)


def alike(rng: np.random.Generator, sizes: np.ndarray, icc: float, draws: int) -> np.ndarray:
    """Standard normals [draws, n], correlated by `icc` within families."""
    family = np.repeat(np.arange(len(sizes)), sizes)
    shared = rng.normal(size=(draws, len(sizes)))[:, family]
    return np.asarray(math.sqrt(icc) * shared + math.sqrt(1 - icc) * rng.normal(size=shared.shape))


def begin(seed: int, layout: str) -> tuple[np.random.Generator, np.ndarray, np.ndarray, bool]:
    """(generator, sizes, family of each episode, whether a mean of so few allows for what was not seen)."""
    sizes = SIZES[layout]
    rng = np.random.default_rng([seed, list(SIZES).index(layout)])
    few = sizes.sum() ** 2 / (sizes @ sizes) < UNSEEN_FAMILIES
    return rng, sizes, np.repeat(np.arange(len(sizes)), sizes), bool(few)


def case(what: str, layout: str, values: str, icc: float, held: list[bool], exact: bool) -> dict[str, Any]:
    """`exact`: built on an exact interval, hence conservative, or infinite."""
    named = {"interval": what, "families": layout, "values": values, "icc": icc}
    return named | {"coverage": float(np.mean(held)), "exact": exact}


def means(layout: str, draws: int) -> list[dict[str, Any]]:
    out = []
    rng, sizes, family, few = begin(1, layout)
    for name, quantile in DISTRIBUTIONS.items():
        grid = quantile(GRID)
        truth, middle = grid.mean(), grid[25_000:75_000].mean()
        low, high = quantile(np.array([0.001, 0.999]))
        for icc in CORRELATIONS:
            data = quantile(stats.norm.cdf(alike(rng, sizes, icc, draws)))
            held = [(r := mean_interval(x, family, (low, high))).low <= truth <= r.high for x in data]
            out.append(case("mean", layout, name, icc, held, few))
            intervals = [iqm_interval(x, family) for x in data]
            held = [r.low <= middle <= r.high for r in intervals]
            out.append(case("iqm", layout, name, icc, held, math.isinf(intervals[0].high)))
    return out


def rates(layout: str, draws: int) -> list[dict[str, Any]]:
    out = []
    rng, sizes, family, _ = begin(2, layout)
    for p in (0.02, 0.1, 0.5, 0.98):
        for icc in CORRELATIONS:
            data = alike(rng, sizes, icc, draws) < stats.norm.ppf(p)
            held = [(r := rate(x, family)).low <= p <= r.high for x in data]
            out.append(case("rate", layout, f"{p:g}", icc, held, True))
    return out


def paired_rates(layout: str, draws: int) -> list[dict[str, Any]]:
    out = []
    rng, sizes, family, _ = begin(3, layout)
    for pa, pb in ((0.95, 0.99), (0.5, 0.7), (0.9, 0.9), (0.02, 0.02)):
        for icc in CORRELATIONS:
            a = alike(rng, sizes, icc, draws)
            b = 0.6 * a + 0.8 * alike(rng, sizes, icc, draws)
            x, y = (a < stats.norm.ppf(pa)).astype(float), (b < stats.norm.ppf(pb)).astype(float)
            held = [
                (r := paired_interval(*z, family, (0, 1))).low <= pb - pa <= r.high
                for z in zip(x, y, strict=True)
            ]
            differ = [np.unique(family[d]).size for d in x != y]
            exact = float(np.mean(differ)) < SPARSE_FAMILIES
            out.append(case("paired rate", layout, f"{pa:g} against {pb:g}", icc, held, exact))
    return out


def paired_means(layout: str, draws: int) -> list[dict[str, Any]]:
    """Policies of the same distribution, and one of which one in ten falls against one that never does."""
    out = []
    rng, sizes, family, few = begin(4, layout)
    kinds = {name: (f, f) for name, f in DISTRIBUTIONS.items()}
    kinds["one in ten falls against none"] = (falls(0.1), lambda u: 15 + 5 * u)
    for name, (before, after) in kinds.items():
        truth = after(GRID).mean() - before(GRID).mean()
        low, high = before(np.array([0.001, 0.999]))
        for icc in CORRELATIONS:
            a = alike(rng, sizes, icc, draws)
            b = 0.6 * a + 0.8 * alike(rng, sizes, icc, draws)
            z = zip(before(stats.norm.cdf(a)), after(stats.norm.cdf(b)), strict=True)
            held = [(r := paired_interval(*x, family, (low, high))).low <= truth <= r.high for x in z]
            out.append(case("paired mean", layout, name, icc, held, few))
    return out


def beyond(draws: int) -> list[dict[str, Any]]:
    """What no mean of so many families can see: whole families fall, but fewer than one in ten."""
    out = []
    rng = np.random.default_rng(5)
    for layout, share in (("32 x 8", 0.05), ("64 x 8", 0.02)):
        family, quantile = np.repeat(np.arange(len(SIZES[layout])), 8), falls(share)
        data = quantile(stats.norm.cdf(alike(rng, SIZES[layout], 1.0, draws)))
        truth = quantile(GRID).mean()
        held = [(r := mean_interval(x, family, (2, 20))).low <= truth <= r.high for x in data]
        out.append(case("mean", layout, f"one in {1 / share:g} falls", 1.0, held, False))
    return out


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
    n = args.draws
    jobs = [(kind, layout) for kind in (means, rates, paired_rates, paired_means) for layout in SIZES]
    with ProcessPoolExecutor(args.workers) as pool:
        found_by = [pool.submit(kind, layout, n) for kind, layout in jobs]
        cases = [c for f in found_by for c in f.result()]
    document = {"schema_version": 3, "nominal": 0.95, "draws": n, "cases": cases, "beyond": beyond(n)}
    atomic_write(args.out, (json.dumps(document, indent=1) + "\n").encode())
    for kind in dict.fromkeys(c["interval"] for c in cases):
        for exact in (False, True):
            held = sorted(
                (c["coverage"], c["families"], c["values"], c["icc"])
                for c in cases
                if c["interval"] == kind and c["exact"] == exact
            )
            if held:
                average = np.mean([h[0] for h in held])
                what = (
                    f"{kind}{', built on exact' if exact else ''}: {len(held)} designs, average {average:.4f}"
                )
                print(what, *held[:6], sep="\n  ")
    average = np.mean([c["coverage"] for c in cases if not c["exact"]])
    print(f"all that are not exact: average {average:.4f}", *document["beyond"], sep="\n")


if __name__ == "__main__":
    main()
