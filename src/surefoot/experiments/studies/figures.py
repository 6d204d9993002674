"""The figures of a study, read back from its runs' artifacts: episode rows, ledger, run.json.

A run gives one value (a mean over the panel's episodes), however many episodes it was scored on; K seeds give
K values, and every figure over them is that of the typical seed, their median.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.artifacts import read_table
from surefoot.contract import BESIDE, NOMINAL, Frozen, SurefootError
from surefoot.evidence import check_audited, check_sound, construct_difference
from surefoot.experiments.studies.design import BUDGETS, Budget, Design
from surefoot.runs import Result, RunFolder, check_ids, read_panel
from surefoot.statistics import (
    ALPHA,
    Collapses,
    OverSeeds,
    collapses,
    findable,
    over_seeds,
    shown_above,
    shown_below,
)

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
    failures: int | None = None
    """Training episodes until then that did not end by time; None in studies of before they were counted,
    as the next two."""
    rarest_failures: int | None = None
    """Those of the contract's termination that ended fewest."""
    failure_cells: float | None = None
    """Share of cells, a termination in a stratum each, in which an episode ended."""
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
    figures: dict[str, OverSeeds]
    """The typical seed with its interval; n is the number of seeds."""
    columns: dict[str, OverSeeds]
    """Success by column, nominal first."""
    collapses: Collapses
    """Seeds whose success is below half of the typical one."""
    labels: dict[str, int]
    disturbed_labels: dict[str, int]


class Step(Frozen):
    """Compares one value with the next, seed by seed: the larger value's figure less the smaller's."""

    budget: Budget
    figure: str
    lower: int
    upper: int
    a: float
    """The typical seed of the smaller value."""
    b: float
    differences: tuple[float, ...]
    """By seed."""
    difference: float
    """Their median."""
    low: float | None
    high: float | None
    confidence: float
    """What the interval from low to high attains: 95% or more from six seeds on."""
    p: float
    """Two-sided, by sign flips over seeds: that the median difference is 0. With K seeds never below
    2 / 2^K."""
    detectable: float | None
    """Smallest true difference that this many seeds of this spread find at 95% with 80% power."""
    seeds: int
    collapses: tuple[Collapses, Collapses]
    """Those of the smaller value and of the larger, among these seeds."""


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
    read = read_panel(folder, run.record.contract)
    check_ids(run.record, read.stated, folder)
    summary, rows = read.summary, read.rows
    nominal = np.flatnonzero(rows["column"].astype(str) == NOMINAL)
    nominal_rows = {k: v[nominal] for k, v in rows.items()}
    result = Result(
        run.record, folder, summary, nominal_rows, summary.engine, nominal, rows, "", read.stated, run.path
    )
    check_sound(result)
    check_audited(run)
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

    more: dict[str, Any] = {name: mean(name) for name in BESIDE} | _failures(run, update)
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
        **more,
        disturbed_success=float(np.mean(disturbed)) if disturbed else None,
        columns=columns,
        labels=_labels(rows, nominal),
        disturbed_labels=_labels(rows, np.flatnonzero(rows["column"].astype(str) != NOMINAL)),
    )
    return result, point


def _failures(run: RunFolder, update: int) -> dict[str, Any]:
    """Counts the training episodes until an update that ended otherwise than by time: all of them, those of
    the rarest termination, and the share of cells of terminations and strata that have one."""
    reasons, strata = len(run.record.contract.terminations), len(run.record.strata)
    folder = run.path / "episodes"
    e = read_table(folder) if any(folder.glob("*.parquet")) else {}
    mine = (e["update"] <= update) & (e["reason"] >= 2) if e else np.zeros(0, bool)
    known = mine & (e["reason"] < 2 + reasons) if e else mine
    cells = np.zeros((reasons, strata), np.int64)
    if e:
        np.add.at(cells, (e["reason"][known].astype(int) - 2, e["stratum"][known].astype(int)), 1)
    return {
        "failures": int(mine.sum()),
        "rarest_failures": int(cells.sum(1).min()) if reasons else None,
        "failure_cells": float((cells > 0).mean()) if reasons else None,
    }


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
    "failures",
    "rarest_failures",
    "failure_cells",
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
        name: figure
        for name in GROUPED
        if (figure := over_seeds([getattr(p, name) for p in members])) is not None
    }
    names = [c.column for c in members[0].columns]
    by = {n: over_seeds([c.success for p in members for c in p.columns if c.column == n]) for n in names}
    return Group(
        value=value,
        budget=budget,
        figures=figures,
        columns={n: f for n, f in by.items() if f is not None},
        collapses=collapses([p.success for p in members]),
        labels=_sum(p.labels for p in members),
        disturbed_labels=_sum(p.disturbed_labels for p in members),
    )


def _sum(counts: Any) -> dict[str, int]:
    total: Counter[str] = Counter()
    for c in counts:
        total.update(c)
    return dict(sorted(total.items()))


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
    gaps = [y - x for x, y in zip(a, b, strict=True)]
    gap, first, second = over_seeds(gaps), over_seeds(a), over_seeds(b)
    assert gap is not None
    assert first is not None
    assert second is not None
    reach = findable(gaps, ALPHA) if len(gaps) > 1 else math.inf
    return Step(
        budget=budget,
        figure=name,
        lower=lower,
        upper=upper,
        a=first.value,
        b=second.value,
        differences=tuple(gaps),
        difference=gap.value,
        low=gap.low,
        high=gap.high,
        confidence=gap.confidence,
        p=min(shown_above(gaps, 0.0), shown_below(gaps, 0.0)),
        detectable=reach if math.isfinite(reach) else None,
        seeds=len(seeds),
        collapses=(collapses(a), collapses(b)),
    )
