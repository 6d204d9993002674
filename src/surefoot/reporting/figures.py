"""A run's artifacts read into plain figures. Nothing here is rendered, and nothing that is absent is guessed.

Every statement about held-out episodes is computed from the episode rows (`evidence.judgement`); what
summary.json and run.json say of the same is compared with it, and a contradiction is in the verdict.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.contract import TRAINED, SurefootError, TaskContract
from surefoot.evidence import Improvement, Judgement, improvement, judgement
from surefoot.reporting.ledger import Ledger
from surefoot.runs import (
    RunFolder,
    RunRecord,
    TimeParts,
    broken_chain,
    caveat,
    ledger_fault,
    load_pass,
    read_ledger,
    time_parts,
)
from surefoot.statistics import ColumnSummary, Estimate, PanelSummary, estimate, rate_estimate

Rows = dict[str, np.ndarray]


@dataclass(frozen=True)
class Column:
    """One pass over the panel: a policy on an engine, nominal or perturbed. Figures are those of its rows."""

    name: str
    perturbation: str
    strength: float
    engine: str
    policy: str
    success: Estimate
    fall: Estimate
    velocity_error: Estimate | None
    yaw_error: Estimate | None
    cost_of_transport: Estimate | None
    labels: dict[str, int]
    said: ColumnSummary | None = None
    """The same and more as the summary of the rows has it."""

    @property
    def baseline(self) -> bool:
        return self.policy != TRAINED

    @property
    def holds(self) -> bool | None:
        return self.said.holds if self.said else None


@dataclass(frozen=True)
class Speed:
    """Steps per second: `value` over all of training, with checkpoints and what else lies between updates;
    `low` and `high` of single updates, the 5th and the 95th percentile. None: not measured."""

    value: float | None
    low: float | None
    high: float | None
    updates: int


@dataclass(frozen=True)
class PanelFigures:
    """What one evaluation folder says."""

    folder: Path
    summary: PanelSummary
    """Counted from the rows."""
    rows: Rows
    columns: tuple[Column, ...]
    nominal: Column
    nominal_rows: Rows
    judgement: Judgement
    """What all of it shows, and what speaks against the evidence."""

    @property
    def baselines(self) -> tuple[Column, ...]:
        return tuple(c for c in self.columns if c.baseline and not c.perturbation)

    @property
    def perturbed(self) -> tuple[Column, ...]:
        return tuple(c for c in self.columns if not c.baseline and c.perturbation)

    def reference(self, column: Column) -> Column:
        """Returns the unperturbed column on the same engine, else the nominal one."""
        same = [c for c in self.columns if _is_nominal(c) and c.engine == column.engine]
        return same[0] if same else self.nominal


@dataclass(frozen=True)
class RunFigures:
    folder: Path
    record: RunRecord
    ledger: Ledger
    panel: PanelFigures | None
    """The confirmation half, on which the result is stated; None while the run has none."""
    times: TimeParts
    """What it took, by part."""
    steps_per_second: Speed
    caveats: tuple[str, ...] = ()
    """What must be said beside the result: of an unfinished or resumed run, of a ledger with holes."""
    improvement: Improvement | None = None
    """What became of every stratum between the first evaluation and the last; None where there was one."""

    @property
    def safety(self) -> float | None:
        """The share of steps on which the contract's safety event happened; None where nobody knows."""
        contract, rows = self.record.contract, self.panel.nominal_rows if self.panel else {}
        if not isinstance(contract, TaskContract) or not {contract.safety.name, "steps"} <= rows.keys():
            return None
        share = rows[contract.safety.name].astype(float)
        known = np.isfinite(share)
        return float(np.average(share[known], weights=rows["steps"][known])) if known.any() else None

    @property
    def wall_seconds(self) -> float | None:
        return self.times.total


def read_run(folder: str | Path) -> RunFigures:
    """Reads the figures of a run folder; a corrupt or foreign artifact is refused with a sentence."""
    run = RunFolder.open(folder)
    ledger = Ledger(*read_ledger(run.path / "ledger.jsonl"))
    # A run that was killed has no closing figures; its last ledger row has them.
    figures = _last_figures(ledger) | run.record.figures
    train = _number(figures.get("train_seconds"))
    samples = _number(figures.get("samples"))
    speed = ledger.values("steps_per_second")
    low, high = np.percentile(speed, [5, 95]).tolist() if len(speed) else (None, None)
    rate_all = samples / train if samples is not None and train else None
    panel = _confirmation(run)
    return RunFigures(
        folder=run.path,
        record=run.record,
        ledger=ledger,
        panel=panel,
        times=time_parts(run.record.model_copy(update={"figures": figures})),
        steps_per_second=Speed(rate_all, low, high, len(speed)),
        caveats=_caveats(run, ledger, judged=panel is not None),
        improvement=improvement(run),
    )


def _last_figures(ledger: Ledger) -> dict[str, float | int | None]:
    last = ledger.rows[-1] if ledger.rows else {}
    train, wall = _number(last.get("train_seconds")), _number(last.get("wall_seconds"))
    rest = wall - train if wall is not None and train is not None else None
    return {"train_seconds": train, "evaluation_seconds": rest, "samples": _number(last.get("samples"))}


def _caveats(run: RunFolder, ledger: Ledger, judged: bool) -> tuple[str, ...]:
    cut = "The ledger's last line was cut off when the run was killed; it is left out." if ledger.torn else ""
    updates = run.record.figures.get("updates") if run.record.status == "finished" else None
    holes = ledger_fault(ledger.rows, None if updates is None else int(updates))
    # A broken chain contradicts a result; where there is none, it is said all the same.
    broken = "" if judged else broken_chain(run.path, run.record)
    return tuple(c for c in (caveat(run), broken, holes, cut) if c)


def _confirmation(run: RunFolder) -> PanelFigures | None:
    """Chooses, of the passes of the confirmed checkpoint over the confirmation half, the one with the most
    columns."""
    root = run.path / "panels" / run.record.panel
    first = root / "confirmation"
    folders = [first, *sorted(root.glob("confirmation-confirmed-*"))]
    read = [read_panel(run, f) for f in folders if (f / "summary.json").is_file()]
    stated = run.record.confirmation
    checkpoint = stated.checkpoint if stated else None
    ids = {
        run.record.construct_id,
        *([stated.construct_id] if stated else []),
    }  # a list that grew has its own
    same = [p for p in read if p.summary.construct_id in ids]
    same = [p for p in same if checkpoint is None or p.summary.checkpoint == checkpoint]
    # A pass on another engine stands beside the result; it is not the result.
    same = [p for p in same if p.summary.engine == same[0].summary.engine]
    if read and not same:
        raise SurefootError(
            f"'{read[0].folder}' belongs to another run: its construct id or checkpoint is not the one in "
            f"'{run.path / 'run.json'}'; put the run's own panels back or evaluate it again."
        )
    return max(same, key=lambda p: len(p.columns)) if same else None


def read_panel(run: RunFolder, folder: Path) -> PanelFigures:
    result = load_pass(run, folder)
    summary, rows = result.summary, result.table
    columns = _columns(rows, summary)
    nominal = [c for c in columns if _is_nominal(c) and c.engine == summary.engine]
    nominal = nominal or [c for c in columns if _is_nominal(c)]
    if not nominal:
        raise SurefootError(f"'{folder}' has no nominal column of the policy; evaluate the run again.")
    return PanelFigures(
        folder=folder,
        summary=summary,
        rows=rows,
        columns=columns,
        nominal=nominal[0],
        nominal_rows=select(rows, nominal[0]),
        judgement=judgement(result),
    )


def select(rows: Rows, column: Column) -> Rows:
    """Returns the rows of one column."""
    mask = (rows["column"] == column.name) & (rows["engine"] == column.engine)
    mask &= rows["policy"] == column.policy
    return {k: v[mask] for k, v in rows.items()}


def where(rows: Rows, mask: np.ndarray) -> Rows:
    return {k: v[mask] for k, v in rows.items()}


def _is_nominal(column: Column) -> bool:
    return not column.baseline and not column.perturbation


def _columns(rows: Rows, summary: PanelSummary) -> tuple[Column, ...]:
    names = list(dict.fromkeys(zip(rows["column"], rows["engine"], rows["policy"], strict=True)))
    summaries = {(c.column, c.engine, c.policy): c for c in summary.columns}
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
                success=rate_estimate(part["success"], part["family"]),
                fall=rate_estimate(part["fall"], part["family"]),
                velocity_error=_mean(part, "velocity_error_mps"),
                yaw_error=_mean(part, "yaw_error_radps"),
                cost_of_transport=_mean(part, "cost_of_transport"),
                labels={k: labels.count(k) for k in dict.fromkeys(labels)},
                said=summaries.get(key),
            )
        )
    return tuple(out)


def _mean(rows: Rows, name: str) -> Estimate | None:
    """Estimates a mean over the episodes that have the figure; a faller before the settling time has no
    error."""
    return estimate(rows, name, "mean") if name in rows else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
