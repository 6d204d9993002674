"""What `cpu_throughput.py` measured: medians, ratios, targets, and their JSON, tables and plot."""

from __future__ import annotations

import datetime
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from surefoot.contract import EVALUATION_PLANT, FAST_PLANT

SCHEMA_VERSION = 1
PLANTS = {"evaluation": EVALUATION_PLANT, "training": FAST_PLANT}
LAYERS = ("rollout", "engine", "env", "learning rollout", "training")
RAW = {"engine": "rollout", "env": "rollout", "training": "learning rollout"}
"""The raw physics that a layer stands on."""
GIB = 2**30


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    envs: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048)
    batches: tuple[int, ...] = (1, 4, 16)
    """Smaller sizes, for which only `env` is measured."""
    judged: int = 512
    """The N that the targets are judged at: the default recipe's."""
    processes: tuple[int, ...] = (2, 8, 32)
    rounds: int = 3
    samples: int = 24 * 512
    """Control steps per measurement, at least; always whole updates."""
    most_steps: int = 600
    warm_up: int = 25
    memory_envs: int = 2048
    memory_options: tuple[str, ...] = ()


QUICK = Sizes(
    envs=(8, 16), batches=(1,), judged=16, processes=(2,), rounds=2, samples=24 * 8, most_steps=24, warm_up=2,
    memory_envs=32, memory_options=("--eval-families", "2"),
)  # fmt: skip


@dataclass
class Case:
    """One thing that is measured: `run(steps)` advances `envs` environments; `prepare` is not timed."""

    plant: str
    what: str
    envs: int
    steps: int
    run: Callable[[int], None]
    prepare: Callable[[], None] = lambda: None
    rates: list[float] = field(default_factory=list)

    def measure(self) -> None:
        self.prepare()
        begun = time.perf_counter()
        self.run(self.steps)
        self.rates.append(self.envs * self.steps / (time.perf_counter() - begun))

    @property
    def median(self) -> float:
        return statistics.median(self.rates)


class Results:
    """All cases after the last round, and what follows from them."""

    def __init__(
        self, cases: list[Case], sizes: Sizes, peak_rss_bytes: int | None, about: dict[str, Any]
    ) -> None:
        self.cases, self.sizes, self.peak, self.about = cases, sizes, peak_rss_bytes, about

    def case(self, plant: str, what: str, envs: int) -> Case:
        return next(c for c in self.cases if (c.plant, c.what, c.envs) == (plant, what, envs))

    def gymnasium(self, plant: str) -> Case:
        """The number of processes that was fastest."""
        return max(
            (c for c in self.cases if (c.plant, c.what) == (plant, "gymnasium")), key=lambda c: c.median
        )

    def ratio(self, plant: str, what: str, envs: int, to: Case | None = None) -> float:
        """Median over rounds of `what` relative to its raw physics at the same N, or to another case."""
        to = to or self.case(plant, RAW[what], envs)
        return statistics.median(
            a / b for a, b in zip(self.case(plant, what, envs).rates, to.rates, strict=True)
        )

    def sweep(self, plant: str) -> dict[str, Any]:
        """VecEnv.step by batch size; it counts as flat from the smallest batch that gives 90% of the best."""
        cases = sorted((c for c in self.cases if (c.plant, c.what) == (plant, "env")), key=lambda c: c.envs)
        enough = 0.9 * max(c.median for c in cases)
        return {
            "envs": [c.envs for c in cases],
            "steps_per_second": [round(c.median, 1) for c in cases],
            "flat_from_envs": next(c.envs for c in cases if c.median >= enough),
        }

    def targets(self) -> list[dict[str, Any]]:
        n, plant = self.sizes.judged, "evaluation"
        plain = self.gymnasium(plant)
        rows: list[tuple[str, float | None, str, float]] = [
            (f"VecEnv.step / rollout of the same physics, N={n}", self.ratio(plant, "env", n), ">=", 0.8),
            (f"training / rollout of the same physics, N={n}", self.ratio(plant, "training", n), ">=", 0.6),
            (f"VecEnv.step / AsyncVectorEnv, N={n}", self.ratio(plant, "env", n, plain), ">=", 3.0),
            (f"peak memory, N={self.sizes.memory_envs}, GiB", self.peak and self.peak / GIB, "<", 3.0),
        ]
        met = {">=": lambda x, limit: x >= limit, "<": lambda x, limit: x < limit}
        return [
            {
                "name": name,
                "value": x and round(x, 3),
                "must_be": f"{sign} {limit:g}",
                "met": x and bool(met[sign](x, limit)),
            }
            for name, x, sign, limit in rows
        ]

    def as_json(self) -> dict[str, Any]:
        layers = [c for c in self.cases if c.what in RAW and c.envs in self.sizes.envs]
        return {
            "schema_version": SCHEMA_VERSION,
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "quick": self.sizes is QUICK,
            "machine": self.about,
            "task": "walk-flat",
            "plants": {k: p.model_dump(mode="json") for k, p in PLANTS.items()},
            "rates": [
                {
                    "plant": c.plant, "what": c.what, "envs": c.envs, "steps": c.steps,
                    "steps_per_second": round(c.median, 1), "rounds": [round(r, 1) for r in c.rates],
                }
                for c in self.cases
            ],
            "shares_of_rollout": [
                {
                    "plant": c.plant, "what": c.what, "envs": c.envs,
                    "share": round(self.ratio(c.plant, c.what, c.envs), 4),
                }
                for c in layers
            ],
            "gymnasium_best_processes": {k: self.gymnasium(k).envs for k in PLANTS},
            "batch_sweep": {k: self.sweep(k) for k in PLANTS},
            "memory": {"envs": self.sizes.memory_envs, "peak_rss_bytes": self.peak},
            "targets": self.targets(),
        }  # fmt: skip


def print_results(console: Console, r: Results) -> None:
    for plant, p in PLANTS.items():
        table = Table(
            title=f"Control steps per second, {plant} plant ({p.dt_s:g} s x {p.decimation}, {p.cone})",
            title_justify="left",
        )
        for name in ("N", *LAYERS):
            table.add_column(name, justify="right")
        for n in r.sizes.batches:
            table.add_row(str(n), "", "", f"{r.case(plant, 'env', n).median:,.0f}", "", "")
        for n in r.sizes.envs:
            rates = {k: f"{r.case(plant, k, n).median:,.0f}" for k in LAYERS}
            rates |= {k: f"{rates[k]} [dim]{r.ratio(plant, k, n):4.0%}" for k in RAW}
            table.add_row(str(n), *(rates[k] for k in LAYERS))
        console.print(table, highlight=False)
        console.print(
            f"VecEnv.step reaches 90% of its best rate at N={r.sweep(plant)['flat_from_envs']}.",
            highlight=False,
        )
        plain = [c for c in r.cases if (c.plant, c.what) == (plant, "gymnasium")]
        rates = ", ".join(f"{c.envs} processes {c.median:,.0f}" for c in plain)
        console.print(f"AsyncVectorEnv of plain environments: {rates} steps/s.\n", highlight=False)
    table = Table(title="Targets (evaluation plant)", title_justify="left")
    for name in ("target", "measured", "must be", ""):
        table.add_column(name)
    for t in r.targets():
        verdict = "not measured" if t["value"] is None else "[green]pass" if t["met"] else "[red]FAIL"
        table.add_row(t["name"], f"{t['value']:.3g}" if t["value"] is not None else "", t["must_be"], verdict)
    console.print(table, highlight=False)


def plot(r: Results, path: Path) -> bool:
    """Rates over N, one panel per plant; False where matplotlib is not installed."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return False
    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(PLANTS), figsize=(10, 4), layout="constrained")
    for ax, (plant, p) in zip(axes, PLANTS.items(), strict=True):
        for what in LAYERS:
            cases = sorted((c for c in r.cases if (c.plant, c.what) == (plant, what)), key=lambda c: c.envs)
            ax.plot([c.envs for c in cases], [c.median for c in cases], marker="o", label=what)
        best = r.gymnasium(plant)
        ax.axhline(best.median, color="gray", linestyle="--", label=f"AsyncVectorEnv, {best.envs} processes")
        ax.set(xlabel="environments", title=f"{plant} plant, {p.dt_s:g} s x {p.decimation}")
        ax.set_xscale("log", base=2)
        ax.set_ylim(bottom=0)
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("control steps per second")
    axes[0].legend(fontsize="small")
    figure.suptitle(f"{r.about['cpu']}, {r.about['cores']} cores", fontsize="small")
    figure.savefig(path, metadata={"Date": None})
    return True
