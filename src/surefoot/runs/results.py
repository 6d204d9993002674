"""Reads results: the panel pass of a run that a comparison or a postmortem speaks about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surefoot.contract import NOMINAL, REFERENCE, TRAINED, Half, SurefootError
from surefoot.runs.caveat import caveat
from surefoot.runs.folder import RunFolder, RunRecord
from surefoot.runs.hints import typed
from surefoot.runs.ids import check_ids
from surefoot.runs.panels import read_panel, read_summary
from surefoot.statistics import PanelSummary


@dataclass(frozen=True)
class Result:
    """Holds one panel pass of a run: its summary, and the rows of one column on one engine."""

    run: RunRecord
    folder: Path
    summary: PanelSummary
    """Every figure, counted from the rows."""
    rows: dict[str, np.ndarray]
    engine: str
    index: np.ndarray
    """Number of each row in the file."""
    table: dict[str, np.ndarray]
    """All rows of the file: every column, engine and policy."""
    caveat: str = ""
    """What must be said beside it: training that went on after this evidence."""
    stated: PanelSummary | None = None
    """What summary.json says of it, to be compared; None where nobody asked."""
    home: Path | None = None
    """The run's folder."""


def load_result(run: RunFolder, half: Half = "confirmation", column: str = NOMINAL) -> Result:
    """Loads the pass on `half` of the policy that the run's result is stated on."""
    folder = _folder(run, half)
    check_ids(run.record, read_summary(folder), folder)
    return load_pass(run, folder, column)


def load_pass(run: RunFolder, folder: Path, column: str | None = None) -> Result:
    """Loads the panel pass in `folder`, which is the run's; its first column where there is no nominal one
    and none is asked for."""
    read = read_panel(folder, run.record.contract)
    table = read.rows
    if column is None:
        names = table["column"].astype(str)
        column = NOMINAL if (names == NOMINAL).any() else str(names[0])
    index, engine = _column(table, column, folder)
    rows = {k: v[index] for k, v in table.items()}
    said = caveat(run)
    return Result(run.record, folder, read.summary, rows, engine, index, table, said, read.stated, run.path)


def _folder(run: RunFolder, half: Half) -> Path:
    """Finds the evaluation of `half`, or says how to make it."""
    panels = run.path / "panels" / run.record.panel
    if half == "confirmation":
        folder = panels / "confirmation"
        hint = f"it did not run to its end; let it finish with `{typed('train', '--resume', run.path)}`."
    elif half == "selection":
        chosen = run.record.confirmed_update
        update = int((run.record.figures.get("chosen_update") if chosen is None else chosen) or 0)
        folder = panels / f"selection-update-{update:06d}"
        hint = f"make it with `{typed('evaluate', run.path, '--half', 'selection')}`."
    else:
        folder = panels / "all"
        hint = f"make it with `{typed('evaluate', run.path, '--half', 'all')}`."
    # What `surefoot evaluate` wrote of the checkpoint that is confirmed now, the newest last.
    stated = run.record.confirmation.checkpoint[:8] if run.record.confirmation else ""
    made = sorted(panels.glob(f"{half}-confirmed-{stated}*"), key=lambda p: p.stat().st_mtime)
    if not folder.is_dir() and made:
        folder = made[-1]
    if not (folder / "summary.json").is_file():
        raise SurefootError(f"{run.path} has no result on the {half} half of {run.record.panel}: {hint}")
    return folder


def _column(table: dict[str, np.ndarray], column: str, folder: Path) -> tuple[np.ndarray, str]:
    """Returns the row numbers of one column, on native MuJoCo where it was run there, and the engine."""
    named = table["column"].astype(str) == column
    if not named.any():
        known = ", ".join(sorted(set(table["column"].astype(str))))
        raise SurefootError(f"{folder} has no column '{column}'; choose one of: {known}.")
    engines = sorted(set(table["engine"][named].astype(str)))
    engine = REFERENCE if REFERENCE in engines else engines[0]
    return np.flatnonzero(named & (table["engine"].astype(str) == engine)), engine


def perturbed(result: Result) -> np.ndarray:
    """Returns the row numbers of the trained policy under perturbations."""
    t = result.table
    return np.flatnonzero((t["column"].astype(str) != NOMINAL) & (t["policy"].astype(str) == TRAINED))
