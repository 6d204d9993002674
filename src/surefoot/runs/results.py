"""Reads results: the panel pass of a run that a comparison or a postmortem speaks about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surefoot.artifacts import read_json
from surefoot.contract import REFERENCE, Half, SurefootError
from surefoot.runs.folder import RunFolder, RunRecord, read_rows
from surefoot.statistics import PanelSummary


@dataclass(frozen=True)
class Result:
    """Holds one panel pass of a run: its summary, and the rows of one column on one engine."""

    run: RunRecord
    folder: Path
    summary: PanelSummary
    rows: dict[str, np.ndarray]
    engine: str
    index: np.ndarray
    """The number of each row in the file."""
    table: dict[str, np.ndarray]
    """All rows of the file: every column, engine and policy."""


def load_result(run: RunFolder, half: Half = "confirmation", column: str = "nominal") -> Result:
    """Reads the pass on `half` of the policy that the run's result is stated on."""
    folder = _folder(run, half)
    summary = read_json(folder / "summary.json", PanelSummary)
    rows = read_rows(folder, summary.construct_id, summary.checkpoint)
    index, engine = _column(rows, column, summary.engine, folder)
    chosen = {k: v[index] for k, v in rows.items()}
    return Result(run.record, folder, summary, chosen, engine, index, rows)


def _folder(run: RunFolder, half: Half) -> Path:
    """Finds the evaluation of `half`, or says how to make it."""
    panels = run.path / "panels" / run.record.panel
    if half == "confirmation":
        folder = panels / "confirmation"
        hint = "it did not run to its end; let it finish with `surefoot train --resume`."
    elif half == "selection":
        update = int(run.record.figures.get("chosen_update") or 0)
        folder = panels / f"selection-update-{update:06d}"
        hint = f"make it with `surefoot evaluate {run.path} --half selection`."
    else:
        folder = panels / "all"
        hint = f"make it with `surefoot evaluate {run.path} --half all`."
    # What `surefoot evaluate` wrote, the newest last.
    made = sorted(panels.glob(f"{half}-confirmed-*"), key=lambda p: p.stat().st_mtime)
    if not folder.is_dir() and made:
        folder = made[-1]
    if not (folder / "summary.json").is_file():
        raise SurefootError(f"{run.path} has no result on the {half} half of {run.record.panel}: {hint}")
    return folder


def _column(rows: dict[str, np.ndarray], column: str, engine: str, folder: Path) -> tuple[np.ndarray, str]:
    """Returns the row numbers of one column, on native MuJoCo where it was run there, and the engine."""
    if "column" not in rows:  # as written before there were perturbations: the nominal pass alone
        if column != "nominal":
            raise SurefootError(
                f"{folder} has no column '{column}': not measured; evaluate it with --perturb."
            )
        return np.arange(len(rows["success"])), engine
    in_column = rows["column"].astype(str) == column
    if not in_column.any():
        known = ", ".join(sorted(set(rows["column"].astype(str))))
        raise SurefootError(f"{folder} has no column '{column}'; choose one of: {known}.")
    engines = sorted(set(rows["engine"][in_column].astype(str)))
    engine = REFERENCE if REFERENCE in engines else engines[0]
    return np.flatnonzero(in_column & (rows["engine"].astype(str) == engine)), engine


def perturbed(result: Result) -> np.ndarray:
    """Returns the row numbers of the trained policy under perturbations; none in files without columns."""
    t = result.table
    if "column" not in t:
        return np.zeros(0, np.int64)
    return np.flatnonzero((t["column"].astype(str) != "nominal") & (t["policy"].astype(str) == "trained"))
