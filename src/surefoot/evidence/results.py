"""Results on disk: the panel pass of a run that a comparison or a postmortem speaks about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surefoot.artifacts import read_json, read_table
from surefoot.contract import Half, SurefootError
from surefoot.evidence.run import PANEL_ROWS_VERSION, RunFolder, RunRecord
from surefoot.evidence.summary import PanelSummary

REFERENCE = "mujoco"
"""The engine that results are stated on."""


@dataclass(frozen=True)
class Result:
    """One panel pass of a run: its summary, and the rows of one column on one engine."""

    run: RunRecord
    folder: Path
    summary: PanelSummary
    rows: dict[str, np.ndarray]
    engine: str


def load_result(run: RunFolder, half: Half = "confirmation", column: str = "nominal") -> Result:
    """The pass on `half` of the policy that the run's result is stated on."""
    folder = _folder(run, half)
    summary = read_json(folder / "summary.json", PanelSummary)
    rows = read_table(folder / "episodes.parquet", newest=PANEL_ROWS_VERSION)
    rows, engine = _column(rows, column, summary.engine, folder)
    return Result(run.record, folder, summary, rows, engine)


def _folder(run: RunFolder, half: Half) -> Path:
    panels = run.path / "panels" / run.record.panel
    if half == "confirmation":
        found = panels / "confirmation"
        hint = "it did not run to its end; let it finish with `surefoot train --resume`."
    elif half == "selection":
        update = int(run.record.figures.get("chosen_update") or 0)
        found = panels / f"selection-update-{update:06d}"
        hint = f"make it with `surefoot evaluate {run.path} --half selection`."
    else:
        found = panels / "all"
        hint = f"make it with `surefoot evaluate {run.path} --half all`."
    # What `surefoot evaluate` wrote, the newest last.
    made = sorted(panels.glob(f"{half}-confirmed-*"), key=lambda p: p.stat().st_mtime)
    if not found.is_dir() and made:
        found = made[-1]
    if not (found / "summary.json").is_file():
        raise SurefootError(f"{run.path} has no result on the {half} half of {run.record.panel}: {hint}")
    return found


def _column(
    rows: dict[str, np.ndarray], column: str, engine: str, folder: Path
) -> tuple[dict[str, np.ndarray], str]:
    """The rows of one column, on native MuJoCo where it was run there."""
    if "column" not in rows:  # as written before there were perturbations: the nominal pass alone
        if column != "nominal":
            raise SurefootError(
                f"{folder} has no column '{column}': not measured; evaluate it with --perturb."
            )
        return rows, engine
    mine = rows["column"].astype(str) == column
    if not mine.any():
        known = ", ".join(sorted(set(rows["column"].astype(str))))
        raise SurefootError(f"{folder} has no column '{column}'; choose one of: {known}.")
    engines = sorted(set(rows["engine"][mine].astype(str)))
    engine = REFERENCE if REFERENCE in engines else engines[0]
    mine &= rows["engine"].astype(str) == engine
    return {k: v[mine] for k, v in rows.items()}, engine
