"""Columns of a panel side by side: what each shows, which ones a policy is shown to hold on, whether engines
agree, and whether anything was learned that a baseline does not do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from surefoot.contract import (
    NOMINAL,
    REFERENCE,
    TRAINED,
    Contract,
    Frozen,
    Perturbation,
    SurefootError,
    TaskContract,
    find_perturbation,
    source_digest,
    trained_range,
)
from surefoot.statistics.estimates import Estimate, estimate
from surefoot.statistics.looks import confidence_of
from surefoot.statistics.rates import rate

HOLDS_AT = 0.8
"""A policy is shown to hold on a column when the lower end of its success interval reaches this."""
Rows = Mapping[str, np.ndarray]


class ColumnSummary(Frozen):
    """One column of a panel, on one engine, under one policy."""

    column: str
    perturbation: str
    strength: float
    unit: str = ""
    trained: tuple[float, float] | None = None
    """What training saw of the perturbed quantity; None: nothing."""
    source: str = ""
    """Digest of the function behind another package's perturbation; empty for the built-in ones."""
    shift: str = ""
    """Digest of what the perturbation makes of the panel at this strength; empty where nothing is shifted,
    and in files of before there was a measurement id."""
    engine: str
    policy: str
    episodes: int
    effective_episodes: float
    success: float
    success_low: float
    success_high: float
    fall_rate: float
    fall_low: float
    fall_high: float
    velocity_error_mps: float | None
    velocity_error_low: float | None
    velocity_error_high: float | None
    yaw_error_radps: float | None
    cost_of_transport: float | None
    recovered: float | None
    """Share of the pushed episodes that came back within the limits."""
    recovery_s: float | None
    """Mean over those."""
    holds: bool
    labels: dict[str, int]


class ClassAgreement(Frozen):
    """Two engines on the scenarios of one terrain class."""

    success_agreement: float
    rank_correlation: float | None
    success: float
    """On the other engine."""
    reference_success: float
    n: int


class Agreement(Frozen):
    """The nominal column on another engine against the reference, scenario by scenario. Sim-to-sim: it says
    nothing about a real robot."""

    kind: str = "sim-to-sim"
    engine: str
    reference: str = REFERENCE
    success_agreement: float
    """Share of scenarios on which both say the same."""
    rank_correlation: float | None
    """Spearman's, of the velocity errors that both engines measured."""
    n: int
    """Scenarios that both ran: the box world has only the terrain classes with an exact form."""
    terrain: dict[str, ClassAgreement] = {}
    """The same by terrain class, where there are several."""


def split_columns(rows: Rows) -> Iterator[tuple[str, str, dict[str, np.ndarray]]]:
    """Returns (column, engine, its rows), in the order of the table."""
    names = [f"{c}\0{e}" for c, e in zip(rows["column"].tolist(), rows["engine"].tolist(), strict=True)]
    for name in dict.fromkeys(names):
        named = np.array(names) == name
        column, engine = name.split("\0")
        yield column, engine, {k: v[named] for k, v in rows.items()}


def column_summary(rows: Rows, contract: Contract) -> ColumnSummary:
    family = rows["family"]
    confidence = confidence_of(rows)
    success, fall = (rate(rows[k], family, confidence) for k in ("success", "fall"))
    kind = str(rows["perturbation"][0])
    known = _known(kind)

    def mean(name: str) -> float | None:
        if name not in rows:  # in tables of older versions
            return None
        at = np.isfinite(np.asarray(rows[name], np.float64))
        return float(rows[name][at].mean()) if at.any() else None

    velocity = estimate(rows, "velocity_error_mps", "mean")
    recovered = np.asarray(rows.get("recovered", np.ones(len(family))), bool)
    pushed = np.isfinite(rows.get("recovery_s", np.full(len(family), np.nan))) | ~recovered
    return ColumnSummary(
        column=str(rows["column"][0]),
        perturbation=kind,
        strength=float(rows["strength"][0]),
        unit=known.unit if known else "",
        trained=trained_range(known, contract) if known and isinstance(contract, TaskContract) else None,
        source=source_digest({kind: known.change}) if known and known.change else "",
        engine=str(rows["engine"][0]),
        policy=str(rows["policy"][0]),
        episodes=len(family),
        effective_episodes=round(success.n_eff, 2),
        success=success.value,
        success_low=success.low,
        success_high=success.high,
        fall_rate=fall.value,
        fall_low=fall.low,
        fall_high=fall.high,
        velocity_error_mps=velocity.value if velocity else None,
        velocity_error_low=velocity.low if velocity else None,
        velocity_error_high=velocity.high if velocity else None,
        yaw_error_radps=mean("yaw_error_radps"),
        cost_of_transport=mean("cost_of_transport"),
        recovered=float(recovered[pushed].mean()) if pushed.any() else None,
        recovery_s=mean("recovery_s"),
        holds=success.low >= HOLDS_AT,
        labels=dict(sorted(Counter(x for x in rows.get("label", family[:0]).tolist() if x).items())),
    )


def _known(kind: str) -> Perturbation | None:
    """Returns a perturbation by name; None for none, and for that of a package that is not installed here."""
    try:
        return find_perturbation(kind) if kind else None
    except SurefootError:
        return None


def transfer(columns: list[ColumnSummary], terrain: Mapping[str, Estimate]) -> tuple[str, ...]:
    """Columns and terrain classes on which the trained policy is shown to hold."""
    held = [c.column for c in columns if c.holds and c.policy == TRAINED and c.perturbation]
    held += [f"terrain:{cls}" for cls, f in terrain.items() if f.low is not None and f.low >= HOLDS_AT]
    return tuple(dict.fromkeys(held))


def agreement(reference: Rows, other: Rows) -> Agreement | None:
    """Compares two engines on the scenarios that both ran, once each; None where there is none."""
    _, mine, theirs = np.intersect1d(reference["key"], other["key"], return_indices=True)
    if not len(mine):
        return None
    order = np.argsort(mine)
    places = (reference, mine[order]), (other, theirs[order])
    a, b = ({k: r[k][at] for k in r} for r, at in places)
    classes = np.unique(a["terrain"])
    by_class: dict[str, ClassAgreement] = {}
    for cls in classes if len(classes) > 1 else ():
        same, rank = _same(*({k: r[k][a["terrain"] == cls] for k in r} for r in (a, b)))
        success, stated = (float(r["success"][a["terrain"] == cls].mean()) for r in (b, a))
        n = int((a["terrain"] == cls).sum())
        by_class[str(cls)] = ClassAgreement(
            success_agreement=same, rank_correlation=rank, success=success, reference_success=stated, n=n
        )
    same, rank = _same(a, b)
    return Agreement(
        engine=str(b["engine"][0]),
        reference=str(a["engine"][0]),
        success_agreement=same,
        rank_correlation=rank,
        n=len(mine),
        terrain=by_class,
    )


def _same(reference: Rows, other: Rows) -> tuple[float, float | None]:
    """Returns the share of equal outcomes and the rank correlation of errors, of the same scenarios."""
    errors = (np.asarray(r["velocity_error_mps"], np.float64) for r in (reference, other))
    return float((reference["success"] == other["success"]).mean()), rank_correlation(*errors)


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float | None:
    """Returns Spearman's correlation of what is finite in both; None below three pairs or without
    variation."""
    both = np.isfinite(a) & np.isfinite(b)
    if both.sum() < 3 or np.ptp(a[both]) == 0 or np.ptp(b[both]) == 0:
        return None
    return float(np.corrcoef(ranks(a[both]), ranks(b[both]))[0, 1])


def ranks(values: np.ndarray) -> np.ndarray:
    """Returns the rank of each value, from 1; equal ones share the mean of theirs. Spearman's correlation is
    Pearson's of these; scipy.stats has it too, for a second of import time."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    shared: np.ndarray = (np.cumsum(count) - (count - 1) / 2)[place]
    return shared


def beats_baselines(columns: list[ColumnSummary]) -> bool | None:
    """Returns whether the trained policy's success interval lies above that of every baseline, on the same
    engine.

    None where no baseline was evaluated.
    """
    trained = {c.engine: c for c in columns if c.policy == TRAINED and c.column == NOMINAL}
    baselines = [c for c in columns if c.policy != TRAINED and not c.perturbation]
    if not trained or not baselines:
        return None
    first = next(iter(trained.values()))
    return all(trained.get(b.engine, first).success_low > b.success_high for b in baselines)
