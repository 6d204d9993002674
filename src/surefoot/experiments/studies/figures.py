"""The figures of a study, read back from its runs' artifacts: episode rows, ledger, run.json.

Seeds are the outer cluster throughout. A run gives one value (a mean over the panel's episodes); intervals
are those of a mean of K values, one per training seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.contract import BESIDE, NOMINAL, Frozen, SurefootError
from surefoot.evidence import construct_difference
from surefoot.experiments.studies.design import BUDGETS, Budget, Design
from surefoot.runs import Result, RunFolder, check_ids, read_rows, read_summary
from surefoot.statistics import Estimate, paired_runs, runs_estimate

RATES = ("success", "fall", "disturbed_success")
"""Figures that lie between 0 and 1."""
JUDGED = "success"
"""The figure that verdicts are about."""
COMPARED = (JUDGED, "fall", "disturbed_success", "velocity_error_mps", *BESIDE)


class ColumnFigure(Frozen):
    """Holds how one policy did on one column of the panel."""

    column: str
    perturbation: str
    strength: float
    success: float
    fall: float


class Point(Frozen):
    """Holds one policy: a value, a seed, and the budget that it was trained to."""

    value: int
    seed: int
    budget: Budget
    run: str
    """The run's folder, in the study's."""
    updates: int
    samples: int
    train_seconds: float
    steps_per_second: float
    looks: int
    """Rollout blocks that batch honesty looked at; the next four are means over them."""
    block_samples: float | None
    n_eff_return: float | None
    n_eff_advantage: float | None
    reset_sync: float | None
    age_steps: float
    """Mean age of a sample when it is learned from, in control steps."""
    reuse: int
    """Epochs: how often a sample is learned from."""
    gradient_steps: int
    kl: float
    """Mean over updates, as the clip share."""
    clip_fraction: float
    engine: str
    device: str
    episodes: int
    success: float
    fall: float
    velocity_error_mps: float | None
    cost_of_transport: float | None = None
    foot_slip_per_m: float | None = None
    foot_clearance_m: float | None = None
    vibration_radps: float | None = None
    """Beside the verdict, as the three before it; None in studies of before they were measured."""
    disturbed_success: float | None
    """Mean over the perturbed columns."""
    columns: tuple[ColumnFigure, ...]
    labels: dict[str, int]
    """Failures of the nominal column."""
    disturbed_labels: dict[str, int]


class Group(Frozen):
    """Holds all seeds at one value and budget."""

    value: int
    budget: Budget
    figures: dict[str, Estimate]
    """Mean over seeds with its interval; n is the number of seeds."""
    columns: dict[str, Estimate]
    """Success by column, nominal first."""
    labels: dict[str, int]
    disturbed_labels: dict[str, int]


class Step(Frozen):
    """Compares one value with the next, seed by seed: the larger value's figure less the smaller's."""

    budget: Budget
    figure: str
    lower: int
    upper: int
    a: float
    b: float
    difference: float
    low: float | None
    high: float | None
    p: float
    """Sign flips over seeds; with K seeds never below 2 / 2^K."""
    detectable: float | None
    """Smallest true difference that this many seeds of this spread find with 80% power."""
    seeds: int


def place(budget: Budget) -> str:
    """Returns the folder of a budget's panel pass within a run."""
    return f"study-{budget}"


def folder_name(design: Design, value: int, seed: int) -> str:
    return f"{design.knob.field}-{value}-seed-{seed}"


def passed(run: Path, panel: str, budget: Budget) -> bool:
    """Tells whether the policy of a budget has been scored."""
    return (run / "panels" / panel / place(budget) / "summary.json").is_file()


def read_points(design: Design, study: Path) -> list[Point]:
    """Reads every policy that has been scored; refused where two were not measured alike."""
    scored: list[tuple[Result, Point]] = []
    for seed in design.seeds:
        for value in design.values:
            folder = study / folder_name(design, value, seed)
            if not (folder / "run.json").is_file():
                continue
            run = RunFolder.open(folder)
            rows = run.ledger.rows() if run.ledger.path.exists() else []
            for budget in BUDGETS:
                if passed(folder, run.record.panel, budget):
                    scored.append(_read(run, rows, value, seed, budget))
    for result, _ in scored[1:]:
        differs = construct_difference(scored[0][0], result)
        if differs:
            names = ", ".join(f.name for f in differs)
            raise SurefootError(
                f"{scored[0][0].folder} and {result.folder} were not measured alike ({names}); "
                "begin the study anew."
            )
    return [p for _, p in scored]


def _read(
    run: RunFolder, ledger: list[dict[str, Any]], value: int, seed: int, budget: Budget
) -> tuple[Result, Point]:
    folder = run.path / "panels" / run.record.panel / place(budget)
    summary = read_summary(folder)
    check_ids(run.record, summary, folder)
    rows = read_rows(folder, summary)
    nominal = np.flatnonzero(rows["column"].astype(str) == NOMINAL)
    nominal_rows = {k: v[nominal] for k, v in rows.items()}
    result = Result(run.record, folder, summary, nominal_rows, summary.engine, nominal, rows)
    update = int(summary.checkpoint.removeprefix("update-"))
    until = [r for r in ledger if int(r["update"]) <= update]
    last, looked = until[-1], [r for r in until if "honesty.n" in r]

    def looks(key: str) -> float | None:
        values = [float(r[key]) for r in looked if r[key] is not None]
        return float(np.mean(values)) if values else None

    names = list(dict.fromkeys(rows["column"].astype(str).tolist()))
    at = {name: np.flatnonzero(rows["column"].astype(str) == name) for name in names}
    columns = tuple(
        ColumnFigure(
            column=name,
            perturbation=str(rows["perturbation"][i[0]]),
            strength=float(rows["strength"][i[0]]),
            success=float(rows["success"][i].mean()),
            fall=float(rows["fall"][i].mean()),
        )
        for name, i in at.items()
    )
    disturbed = [c.success for c in columns if c.column != NOMINAL]

    def mean(name: str) -> float | None:
        x = nominal_rows[name].astype(np.float64)
        return float(np.nanmean(x)) if np.isfinite(x).any() else None

    point = Point(
        value=value,
        seed=seed,
        budget=budget,
        run=run.path.name,
        updates=update,
        samples=int(last["samples"]),
        train_seconds=float(last["train_seconds"]),
        steps_per_second=int(last["samples"]) / float(last["train_seconds"]),
        looks=len(looked),
        block_samples=looks("honesty.n"),
        n_eff_return=looks("honesty.n_eff_return"),
        n_eff_advantage=looks("honesty.n_eff_advantage"),
        reset_sync=looks("honesty.reset_sync_index"),
        age_steps=float(last["freshness.mean_age_steps"]),
        reuse=int(last["freshness.epochs"]),
        gradient_steps=int(last["freshness.gradient_steps"]),
        kl=float(np.mean([r["kl"] for r in until])),
        clip_fraction=float(np.mean([r["clip_fraction"] for r in until])),
        engine=summary.engine,
        device=str(nominal_rows["device"][0]),
        episodes=len(nominal),
        success=float(nominal_rows["success"].mean()),
        fall=float(nominal_rows["fall"].mean()),
        velocity_error_mps=mean("velocity_error_mps"),
        **{name: mean(name) for name in BESIDE},
        disturbed_success=float(np.mean(disturbed)) if disturbed else None,
        columns=columns,
        labels=_labels(rows, nominal),
        disturbed_labels=_labels(rows, np.flatnonzero(rows["column"].astype(str) != NOMINAL)),
    )
    return result, point


def _labels(rows: dict[str, np.ndarray], at: np.ndarray) -> dict[str, int]:
    return dict(sorted(Counter(x for x in rows["label"][at].astype(str).tolist() if x).items()))


GROUPED = (
    "updates",
    "samples",
    "train_seconds",
    "steps_per_second",
    "block_samples",
    "n_eff_return",
    "n_eff_advantage",
    "reset_sync",
    "age_steps",
    "reuse",
    "gradient_steps",
    "kl",
    "clip_fraction",
    "success",
    "fall",
    "velocity_error_mps",
    *BESIDE,
    "disturbed_success",
)


def group(points: Sequence[Point], value: int, budget: Budget) -> Group | None:
    """Returns the group of a value under a budget; None where no seed has been scored."""
    members = [p for p in points if (p.value, p.budget) == (value, budget)]
    if not members:
        return None
    figures = {
        name: over_seeds([getattr(p, name) for p in members], rate=name in RATES)
        for name in GROUPED
        if any(getattr(p, name) is not None for p in members)
    }
    names = [c.column for c in members[0].columns]
    by = {n: [c.success for p in members for c in p.columns if c.column == n] for n in names}
    return Group(
        value=value,
        budget=budget,
        figures=figures,
        columns={n: over_seeds(v, rate=True) for n, v in by.items()},
        labels=_sum(p.labels for p in members),
        disturbed_labels=_sum(p.disturbed_labels for p in members),
    )


def _sum(counts: Any) -> dict[str, int]:
    total: Counter[str] = Counter()
    for c in counts:
        total.update(c)
    return dict(sorted(total.items()))


def over_seeds(values: Sequence[float | None], rate: bool = False) -> Estimate:
    """Returns the mean of one value per seed, with the interval of K independent values.

    A rate that is the same in every seed has no interval: no spread bounds nothing, and 0 +- 0 would say that
    it does.
    """
    estimate = runs_estimate(values)
    assert estimate is not None
    if not rate:
        return estimate
    if estimate.low == estimate.high:
        return estimate.model_copy(update={"low": None, "high": None})
    low = None if estimate.low is None else max(estimate.low, 0.0)
    high = None if estimate.high is None else min(estimate.high, 1.0)
    return estimate.model_copy(update={"low": low, "high": high})


def steps(points: Sequence[Point], values: Sequence[int]) -> list[Step]:
    """Compares neighbouring values under each budget, in every compared figure, over the seeds that both
    have."""
    at = {(p.budget, p.value, p.seed): p for p in points}
    out = []
    for budget in BUDGETS:
        for lower, upper in pairwise(values):
            for name in COMPARED:
                pairs = [
                    (s, float(x), float(y))
                    for (b, v, s), p in at.items()
                    if (b, v) == (budget, lower) and (budget, upper, s) in at
                    for x, y in [(getattr(p, name), getattr(at[(budget, upper, s)], name))]
                    if x is not None and y is not None
                ]
                if pairs:
                    seeds, a, b = zip(*pairs, strict=True)
                    out.append(step(budget, name, lower, upper, a, b, seeds))
    return out


def step(
    budget: Budget,
    name: str,
    lower: int,
    upper: int,
    a: Sequence[float],
    b: Sequence[float],
    seeds: Sequence[int],
) -> Step:
    # Two values of the quantity that differ by a shift only are exchangeable, seed by seed: plain t.
    d = paired_runs(a, b, seeds)

    def bounded(x: float) -> float | None:
        if not np.isfinite(x):
            return None
        return min(max(x, -1.0), 1.0) if name in RATES else x  # no difference of rates is beyond 1

    return Step(
        budget=budget,
        figure=name,
        lower=lower,
        upper=upper,
        a=d.a,
        b=d.b,
        difference=d.value,
        low=bounded(d.low),
        high=bounded(d.high),
        p=d.p,
        detectable=d.detectable if np.isfinite(d.detectable) else None,
        seeds=d.families,
    )
