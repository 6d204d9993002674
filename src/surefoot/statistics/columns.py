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
    """Digest of the function behind another package's perturbation; empty for the built-in ones, which are
    part of the construct id."""
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


def split_columns(rows: Rows) -> Iterator[tuple[str, str, dict[str, np.ndarray]]]:
    """Returns (column, engine, its rows), in the order of the table."""
    names = [f"{c}\0{e}" for c, e in zip(rows["column"].tolist(), rows["engine"].tolist(), strict=True)]
    for name in dict.fromkeys(names):
        named = np.array(names) == name
        column, engine = name.split("\0")
        yield column, engine, {k: v[named] for k, v in rows.items()}


def column_summary(rows: Rows, contract: Contract) -> ColumnSummary:
    family = rows["family"]
    success, fall = rate(rows["success"], family), rate(rows["fall"], family)
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
    """Compares two engines on the scenarios that both tables have, once each; None where there is none."""
    places, i, j = np.intersect1d(
        np.asarray(reference["key"], str), np.asarray(other["key"], str), return_indices=True
    )
    if not len(places):
        return None
    order = np.argsort(i)
    i, j = i[order], j[order]
    a = np.asarray(reference["velocity_error_mps"], np.float64)[i]
    b = np.asarray(other["velocity_error_mps"], np.float64)[j]
    both = np.isfinite(a) & np.isfinite(b)
    varied = both.sum() > 2 and np.ptp(a[both]) > 0 and np.ptp(b[both]) > 0
    rank = float(np.corrcoef(ranks(a[both]), ranks(b[both]))[0, 1]) if varied else None
    return Agreement(
        engine=str(other["engine"][0]),
        reference=str(reference["engine"][0]),
        success_agreement=float((reference["success"][i] == other["success"][j]).mean()),
        rank_correlation=rank,
        n=len(i),
    )


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
