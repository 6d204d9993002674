"""A run's artifacts read into plain figures. Nothing here is rendered, and nothing that is absent is guessed.

Every figure about held-out episodes is recomputed from the episode rows; what summary.json says of the same
is compared with it, so that a summary that was edited by hand shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.contract import SurefootError
from surefoot.reporting.ledger import Ledger
from surefoot.reporting.summary import Summary, read_summary
from surefoot.runs import RunFolder, RunRecord, read_ledger, read_rows
from surefoot.statistics import SPANS, mean_interval, rate

Rows = dict[str, np.ndarray]


@dataclass(frozen=True)
class Figure:
    """A number with what it rests on. `value` None: not measured."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    n_eff: float | None = None
    few: bool = False
    """So few families that the interval allows for events that none of them may have shown."""


ABSENT = Figure()


@dataclass(frozen=True)
class Column:
    """One pass over the panel: a policy on an engine, nominal or perturbed."""

    name: str
    perturbation: str
    strength: float
    engine: str
    policy: str
    success: Figure
    fall: Figure
    velocity_error: Figure
    yaw_error: Figure
    cost_of_transport: Figure
    labels: dict[str, int]
    holds: bool | None
    unit: str = ""
    trained: tuple[float, float] | None = None
    """What training saw of the perturbed quantity; None: nothing, or not said."""

    @property
    def baseline(self) -> bool:
        return self.policy != "trained"


@dataclass(frozen=True)
class PanelFigures:
    """What one evaluation folder says."""

    folder: Path
    summary: Summary
    rows: Rows
    columns: tuple[Column, ...]
    nominal: Column
    nominal_rows: Rows
    disagreements: tuple[str, ...]
    """Figures of summary.json that the rows do not bear out; empty when all do."""

    @property
    def baselines(self) -> tuple[Column, ...]:
        return tuple(c for c in self.columns if c.baseline and not c.perturbation)

    @property
    def perturbed(self) -> tuple[Column, ...]:
        return tuple(c for c in self.columns if not c.baseline and c.perturbation)

    def reference(self, column: Column) -> Column:
        """The unperturbed column on the same engine, else the nominal one."""
        same = [c for c in self.columns if _is_nominal(c) and c.engine == column.engine]
        return same[0] if same else self.nominal


@dataclass(frozen=True)
class RunFigures:
    folder: Path
    record: RunRecord
    ledger: Ledger
    panel: PanelFigures | None
    """The confirmation half, on which the result is stated; None while the run has none."""
    train_seconds: float | None
    evaluation_seconds: float | None
    steps_per_second: Figure
    """All samples over all training seconds; its range is the 5th to 95th percentile over updates."""

    @property
    def wall_seconds(self) -> float | None:
        if self.train_seconds is None:
            return None
        return self.train_seconds + (self.evaluation_seconds or 0.0)


def read_run(folder: str | Path) -> RunFigures:
    """The figures of a run folder; a corrupt or foreign artifact is refused with a sentence."""
    run = RunFolder.open(folder)
    ledger = Ledger(*read_ledger(run.path / "ledger.jsonl"))
    figures = run.record.figures
    # A run that was killed has no closing figures; its last ledger row has them.
    last = ledger.rows[-1] if ledger.rows else {}
    train = _number(figures.get("train_seconds", last.get("train_seconds")))
    wall = _number(last.get("wall_seconds"))
    evaluation = _number(figures.get("evaluation_seconds"))
    if evaluation is None and wall is not None and train is not None:
        evaluation = wall - train
    samples = _number(figures.get("samples", last.get("samples")))
    speed = ledger.values("steps_per_second")
    low, high = np.percentile(speed, [5, 95]).tolist() if len(speed) else (None, None)
    rate_all = samples / train if samples is not None and train else None
    return RunFigures(
        folder=run.path,
        record=run.record,
        ledger=ledger,
        panel=_confirmation(run),
        train_seconds=train,
        evaluation_seconds=evaluation,
        steps_per_second=Figure(rate_all, low, high, len(speed) or None),
    )


def _confirmation(run: RunFolder) -> PanelFigures | None:
    """Of the passes of the confirmed checkpoint over the confirmation half, the one with the most columns."""
    root = run.path / "panels" / run.record.panel
    first = root / "confirmation"
    found = [first, *sorted(root.glob("confirmation-confirmed-*"))]
    read = [read_panel(f) for f in found if (f / "summary.json").is_file()]
    same = [p for p in read if p.summary.construct_id == run.record.construct_id]
    checkpoint = run.record.confirmation.checkpoint if run.record.confirmation else None
    same = [p for p in same if checkpoint is None or p.summary.checkpoint == checkpoint]
    # A pass on another engine stands beside the result; it is not the result.
    same = [p for p in same if p.summary.engine == same[0].summary.engine]
    if read and not same:
        raise SurefootError(
            f"'{read[0].folder}' belongs to another run: its construct id or checkpoint is not the one in "
            f"'{run.path / 'run.json'}'; put the run's own panels back or evaluate it again."
        )
    return max(same, key=lambda p: len(p.columns)) if same else None


def read_panel(folder: Path) -> PanelFigures:
    summary = read_summary(folder / "summary.json")
    path = folder / "episodes.parquet"
    rows = read_rows(folder, summary.construct_id, summary.checkpoint)
    missing = [c for c in ("family", "success", "fall", "velocity_error_mps", "reason") if c not in rows]
    if missing:
        raise SurefootError(f"'{path}' has no column {', '.join(missing)}; it is not a table of episodes.")
    if not len(rows["family"]):
        raise SurefootError(f"'{path}' has no episode; evaluate the run again.")
    rows = _with_columns(rows, summary)
    columns = _columns(rows, summary)
    nominal = [c for c in columns if _is_nominal(c) and c.engine == summary.engine]
    nominal = nominal or [c for c in columns if _is_nominal(c)]
    if not nominal:
        raise SurefootError(f"'{path}' has no nominal column; evaluate the run again.")
    return PanelFigures(
        folder=folder,
        summary=summary,
        rows=rows,
        columns=columns,
        nominal=nominal[0],
        nominal_rows=select(rows, nominal[0]),
        disagreements=_disagreements(nominal[0], columns, summary),
    )


def select(rows: Rows, column: Column) -> Rows:
    """The rows of one column."""
    mask = (rows["column"] == column.name) & (rows["engine"] == column.engine)
    mask &= rows["policy"] == column.policy
    return {k: v[mask] for k, v in rows.items()}


def where(rows: Rows, mask: np.ndarray) -> Rows:
    return {k: v[mask] for k, v in rows.items()}


def rate_of(values: np.ndarray, family: np.ndarray) -> Figure:
    if not len(values):
        return ABSENT
    r = rate(values.astype(bool), family)
    return Figure(r.value, r.low, r.high, r.n, r.n_eff)


def mean_of(rows: Mapping[str, np.ndarray], name: str) -> Figure:
    """A mean over the episodes that have the figure; a faller before the settling time has no error."""
    if name not in rows:
        return ABSENT
    values = rows[name].astype(float)
    ok = np.isfinite(values)
    if not ok.any():
        return ABSENT
    m = mean_interval(values[ok], rows["family"][ok], SPANS[name])
    low, high = (m.low, m.high) if math.isfinite(m.low) else (None, None)
    return Figure(m.value, low, high, m.n, m.n_eff, m.few)


def _is_nominal(column: Column) -> bool:
    return not column.baseline and not column.perturbation


def _with_columns(rows: Rows, summary: Summary) -> Rows:
    """Rows of a pass from before there were columns are all nominal, on the summary's engine."""
    n = len(rows["family"])
    defaults = {"column": "nominal", "perturbation": "", "engine": summary.engine, "policy": "trained"}
    filled = {k: np.full(n, v, object) for k, v in defaults.items()} | {"strength": np.full(n, math.nan)}
    return filled | rows


def _columns(rows: Rows, summary: Summary) -> tuple[Column, ...]:
    names = list(dict.fromkeys(zip(rows["column"], rows["engine"], rows["policy"], strict=True)))
    said = {(c.column, c.engine, c.policy): c for c in summary.columns}
    out = []
    for key in names:
        name, engine, policy = key
        mask = (rows["column"] == name) & (rows["engine"] == engine) & (rows["policy"] == policy)
        part = where(rows, mask)
        labels = [str(x) for x in part.get("label", np.zeros(0)) if x]
        out.append(
            Column(
                name=str(name),
                perturbation=str(part["perturbation"][0] or ""),
                strength=float(part["strength"][0]),
                engine=str(engine),
                policy=str(policy),
                success=rate_of(part["success"], part["family"]),
                fall=rate_of(part["fall"], part["family"]),
                velocity_error=mean_of(part, "velocity_error_mps"),
                yaw_error=mean_of(part, "yaw_error_radps"),
                cost_of_transport=mean_of(part, "cost_of_transport"),
                labels={k: labels.count(k) for k in dict.fromkeys(labels)},
                holds=said[key].holds if key in said else None,
                unit=said[key].unit if key in said else "",
                trained=said[key].trained if key in said else None,
            )
        )
    return tuple(out)


def _disagreements(nominal: Column, columns: tuple[Column, ...], summary: Summary) -> tuple[str, ...]:
    found = []

    def check(what: str, said: float | None, counted: float | None) -> None:
        if (said is None) != (counted is None) or (
            said is not None and counted is not None and not math.isclose(said, counted, abs_tol=1e-9)
        ):
            found.append(f"{what}: summary.json says {said}, the rows say {counted}")

    check("success", summary.success, nominal.success.value)
    check("fall rate", summary.fall_rate, nominal.fall.value)
    check("velocity error", summary.velocity_error_mps, nominal.velocity_error.value)
    check("episodes", summary.episodes, nominal.success.n)
    by_key = {(c.name, c.engine, c.policy): c for c in columns}
    for c in summary.columns:
        mine = by_key.get((c.column, c.engine, c.policy))
        check(f"success of {c.column} on {c.engine}", c.success, mine.success.value if mine else None)
    return tuple(found)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
