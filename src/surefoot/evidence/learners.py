"""Learners side by side: the same environments, samples and panel, several training seeds each.

A training seed is the independent draw here, so every figure is that of the typical seed, with the interval
of one value per seed; the panel's scenarios are the same for all of them. Two learners that were judged on
different panels are never put into one table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from surefoot.contract import BESIDE, NOMINAL, TRAINED, Frozen, Recipe, SurefootError
from surefoot.evidence.judgement import check_sound
from surefoot.runs import Result, RunFolder, load_result, versions
from surefoot.statistics import OverSeeds, over_seeds, shown_above, shown_below

TARGET = 0.95
"""Held-out success that learners are raced to."""


class Reached(Frozen):
    """When training seeds first scored the target on the selection half, at the evaluations there were."""

    target: float = TARGET
    seeds: int
    """How many did, of those that were trained."""
    of: int
    samples: tuple[int | None, ...]
    """Samples by seed; None: not within the budget."""
    minutes: tuple[float | None, ...]
    """Minutes of training by seed, evaluation left out."""
    samples_figure: OverSeeds | None
    """The typical seed's, only where all of them reached it: that of those that did would flatter the
    others."""
    minutes_figure: OverSeeds | None


class Point(Frozen):
    """Holds a point of the curve of held-out success: mean and range over the training seeds."""

    samples: int
    success: float
    lowest: float
    highest: float


class LearnerFigures(Frozen):
    learner: str
    version: str | None
    timeouts: str
    differences: tuple[str, ...]
    seeds: tuple[int, ...]
    failed: tuple[int, ...]
    """Seeds whose training broke off; they are in no figure."""
    columns: dict[str, OverSeeds]
    """Success on the confirmation half by column."""
    figures: dict[str, OverSeeds]
    """Figures of the nominal column: falls, errors, and the metrics beside the verdict."""
    by_seed: dict[str, tuple[float | None, ...]] = {}
    """The same figures, and success, of each of `seeds`; None: not measured."""
    reached: Reached
    curve: tuple[Point, ...]
    steps_per_second: OverSeeds
    train_minutes: OverSeeds
    host_syncs_per_step: float | None
    """Null on a CPU, where there is no device to wait for."""

    @property
    def column_names(self) -> list[str]:
        """Returns the names of columns, the nominal one first; files keep names in their own order."""
        return sorted(self.columns, key=lambda name: (name != NOMINAL, name))


class SeedDifference(Frozen):
    """One learner less another in one figure, seed by seed: the typical (median) difference."""

    learner: str
    against: str
    figure: str
    value: float
    low: float | None
    """None: unbounded."""
    high: float | None
    confidence: float = 0.95
    """What the interval of the typical seed attains."""
    p: float
    """Two-sided, by sign flips over seeds."""
    seeds: int


class LearnerComparison(Frozen):
    """comparison.json of `surefoot compare-learners`."""

    schema_version: int = 1
    task: str
    construct_id: str
    panel: str
    panel_digest: str
    half: str
    samples: int
    updates: int
    recipe: Recipe
    device: str
    versions: dict[str, str]
    learners: tuple[LearnerFigures, ...]
    paired: tuple[SeedDifference, ...] = ()
    """Every learner against the first, over the seeds that both have."""


def compare_learners(runs: Sequence[RunFolder]) -> LearnerComparison:
    """Compares all runs of one comparison, failed ones among them."""
    done = [r for r in runs if r.record.status == "finished" and r.record.confirmation is not None]
    if not done:
        raise SurefootError("None of the runs has finished; there is nothing to compare.")
    results = {r.path: load_result(r) for r in done}
    for result in results.values():
        check_sound(result)
    check_alike(list(results.values()))
    first = done[0].record
    names = dict.fromkeys(r.record.learner for r in runs)
    rows = [_figures([r for r in runs if r.record.learner == n], results) for n in names]
    learners = tuple(r for r in rows if r is not None)
    return LearnerComparison(
        task=first.task,
        construct_id=first.construct_id,
        panel=first.panel,
        panel_digest=first.panel_digest,
        half="confirmation",
        samples=int(first.figures["samples"] or 0),
        updates=int(first.figures["updates"] or 0),
        recipe=first.recipe,
        device=first.device,
        versions=versions(),
        learners=learners,
        paired=tuple(d for of in learners[1:] for d in _paired(learners[0], of)),
    )


def _paired(first: LearnerFigures, other: LearnerFigures) -> Iterator[SeedDifference]:
    for name, values in other.by_seed.items():
        a = dict(zip(first.seeds, first.by_seed.get(name, ()), strict=False))
        known = [(s, a.get(s), y) for s, y in zip(other.seeds, values, strict=True)]
        both = [(s, x, y) for s, x, y in known if x is not None and y is not None]
        if not both:
            continue
        gaps = [y - x for _, x, y in both]
        d = over_seeds(gaps)
        assert d is not None
        yield SeedDifference(
            learner=other.learner,
            against=first.learner,
            figure=name,
            value=d.value,
            low=d.low,
            high=d.high,
            confidence=d.confidence,
            p=min(shown_above(gaps, 0.0), shown_below(gaps, 0.0)),
            seeds=len(both),
        )


def check_alike(results: Sequence[Result]) -> None:
    """Refuses results that were not measured alike, or did not have the same number of samples."""
    alike: dict[str, Callable[[Result], Any]] = {
        "construct ids": lambda r: r.summary.construct_id,
        "panels": lambda r: r.summary.panel_digest,
        "recipes": lambda r: r.run.recipe.digest,
        "sample budgets": lambda r: r.run.figures.get("samples"),
    }
    for what, of in alike.items():
        by: dict[Any, str] = {}
        for r in results:
            by.setdefault(of(r), r.run.id)
        if len(by) > 1:
            raise SurefootError(
                f"{' and '.join(list(by.values())[:2])} have different {what}; learners are only compared "
                "where everything but the learner and its seed is the same."
            )


def _figures(runs: list[RunFolder], results: dict[Any, Result]) -> LearnerFigures | None:
    finished = [r for r in runs if r.path in results]
    if not finished:
        return None
    first, library = finished[0].record, finished[0].record.library
    seeds = [r.record.seeds.root for r in finished]
    tables = [results[r.path] for r in finished]
    columns = [c.column for c in tables[0].summary.columns if c.policy == TRAINED]
    columns = list(dict.fromkeys([NOMINAL, *columns]))
    by_column = {
        c: _typical([float(load_result(r, column=c).rows["success"].mean()) for r in finished])
        for c in columns
    }
    other: dict[str, OverSeeds | None] = {"fall": _typical([float(t.rows["fall"].mean()) for t in tables])}
    by_seed = {k: tuple(float(t.rows[k].mean()) for t in tables) for k in ("success", "fall")}
    measured: dict[str, tuple[float | None, ...]] = {**by_seed}
    for name in ("velocity_error_mps", "yaw_error_radps", *BESIDE):
        known = [t.rows[name][np.isfinite(t.rows[name])] for t in tables]
        measured[name] = tuple(float(x.mean()) if len(x) else None for x in known)
        other[name] = over_seeds(measured[name])
    syncs = [r.record.figures.get("host_syncs_per_step") for r in finished]
    counted = [float(s) for s in syncs if s is not None]
    return LearnerFigures(
        learner=first.learner,
        version=library.version if library else None,
        timeouts=library.timeouts if library else "bootstrapped from the final observation",
        differences=library.differences if library else (),
        seeds=tuple(seeds),
        failed=tuple(r.record.seeds.root for r in runs if r.record.status == "failed"),
        columns=by_column,
        figures={k: f for k, f in other.items() if f is not None},
        by_seed=measured,
        reached=_reached(finished, seeds),
        curve=_curve(finished),
        steps_per_second=_typical([float(r.record.figures["steps_per_second"] or 0) for r in finished]),
        train_minutes=_typical([float(r.record.figures["train_seconds"] or 0) / 60 for r in finished]),
        host_syncs_per_step=sum(counted) / len(counted) if counted else None,
    )


def _typical(values: list[float]) -> OverSeeds:
    typical = over_seeds(values)
    assert typical is not None
    return typical


def _evaluations(run: RunFolder) -> list[dict[str, Any]]:
    return [row for row in run.ledger.rows() if row.get("evaluation.success") is not None]


def _reached(runs: list[RunFolder], seeds: list[int]) -> Reached:
    samples: list[int | None] = []
    minutes: list[float | None] = []
    for run in runs:
        hit = next((r for r in _evaluations(run) if r["evaluation.success"] >= TARGET), None)
        samples.append(int(hit["samples"]) if hit else None)
        minutes.append(float(hit["train_seconds"]) / 60 if hit else None)
    known = [s for s in samples if s is not None]
    whole = len(known) == len(seeds)
    return Reached(
        seeds=len(known),
        of=len(seeds),
        samples=tuple(samples),
        minutes=tuple(minutes),
        samples_figure=_typical([float(s) for s in known]) if whole else None,
        minutes_figure=_typical([m for m in minutes if m is not None]) if whole else None,
    )


def _curve(runs: list[RunFolder]) -> tuple[Point, ...]:
    """Returns the curve at the evaluations that every seed has."""
    series = [{int(r["samples"]): float(r["evaluation.success"]) for r in _evaluations(run)} for run in runs]
    shared = sorted(set.intersection(*[set(s) for s in series]))
    points = [(x, [s[x] for s in series]) for x in shared]
    return tuple(Point(samples=x, success=sum(y) / len(y), lowest=min(y), highest=max(y)) for x, y in points)


def rows_of(c: LearnerComparison) -> list[dict[str, Any]]:
    """Returns one flat row per learner, for comparison.csv."""
    out = []
    for of in c.learners:
        row: dict[str, Any] = {
            "task": c.task,
            "construct_id": c.construct_id,
            "panel": c.panel,
            "samples": c.samples,
            "learner": of.learner,
            "version": of.version,
            "timeouts": of.timeouts,
            "seeds": " ".join(map(str, of.seeds)),
            "failed_seeds": " ".join(map(str, of.failed)),
        }
        named = {f"success.{k}": f for k, f in of.columns.items()} | dict(of.figures)
        named |= {"steps_per_second": of.steps_per_second, "train_minutes": of.train_minutes}
        for name, f in named.items():
            row |= {name: f.value, f"{name}.low": f.low, f"{name}.high": f.high}
        row |= {
            "reached_95": f"{of.reached.seeds}/{of.reached.of}",
            "reached_95.samples": " ".join("-" if s is None else str(s) for s in of.reached.samples),
            "reached_95.minutes": " ".join("-" if m is None else f"{m:.2f}" for m in of.reached.minutes),
            "host_syncs_per_step": of.host_syncs_per_step,
        }
        out.append(row)
    return out
