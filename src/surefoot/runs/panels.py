"""A panel folder of a run: summary.json and episodes.parquet of any version, read as today's.

What an older version had no word for is filled in here and nowhere else, so that every reader sees one
layout.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surefoot.artifacts import read_json, read_table, table_meta
from surefoot.contract import NOMINAL, TRAINED, Contract, SurefootError
from surefoot.runs.folder import PANEL_ROWS_VERSION
from surefoot.statistics import PanelSummary, recount


@dataclass(frozen=True)
class PanelPass:
    """Holds one panel folder: its rows, the summary that follows from them, and the one beside them."""

    folder: Path
    rows: dict[str, np.ndarray]
    summary: PanelSummary
    """Counted from the rows: what is shown and decided by."""
    stated: PanelSummary
    """What summary.json says: a cache, good for nothing but to be compared."""


def read_panel(folder: Path, contract: Contract) -> PanelPass:
    """Reads the pass in `folder`; a table that is none is refused."""
    stated = read_summary(folder)
    rows = read_rows(folder, stated)
    path = folder / "episodes.parquet"
    missing = [c for c in NEEDED if c not in rows]
    if missing:
        raise SurefootError(f"'{path}' has no column {', '.join(missing)}; it is not a table of episodes.")
    if not len(rows["family"]):
        raise SurefootError(f"'{path}' has no episode; evaluate the run again.")
    return PanelPass(folder, rows, recount(rows, contract, stated), stated)


NEEDED = ("family", "success", "fall", "reason", "steps", "velocity_error_mps", "yaw_error_radps", "terrain")
"""Columns that no table of episodes is without."""

MEASURED_LATER = (
    *("window_velocity_error_mps", "window_yaw_error_radps", "windows_as_told", "stand_drift_m"),
    *("stand_turn_rad", "stand_speed_mps", "stand_joint_speed_radps"),
    *("foot_slip_per_m", "foot_clearance_m", "vibration_radps"),
)
"""Columns that rows of before there were windows do not have."""


def read_summary(folder: Path) -> PanelSummary:
    """Reads a panel folder's summary. Fields that came after its version have their defaults, which say that
    nothing was measured."""
    return read_json(folder / "summary.json", PanelSummary)


def read_rows(folder: Path, summary: PanelSummary) -> dict[str, np.ndarray]:
    """Reads the rows beside `summary`; refused where they say that they are of another pass."""
    path = folder / "episodes.parquet"
    rows, meta = read_table(path, newest=PANEL_ROWS_VERSION), table_meta(path)
    of = ("construct_id", "measurement_id", "interface_id", "checkpoint")
    if any(meta.get(k, getattr(summary, k)) != getattr(summary, k) for k in of):
        raise SurefootError(
            f"'{path}' and the summary beside it are of different evaluations; make them again with "
            "`surefoot evaluate`."
        )
    return _newest(rows, summary.engine)


def _newest(rows: dict[str, np.ndarray], engine: str) -> dict[str, np.ndarray]:
    """Version 1 had one pass and no name for it: the trained policy, undisturbed, on the summary's engine.
    What was not measured yet is NaN."""
    n = len(next(iter(rows.values()), ()))
    names = {"column": NOMINAL, "perturbation": "", "engine": engine, "policy": TRAINED}
    missing = {k: np.full(n, v, object) for k, v in names.items()} | {"strength": np.zeros(n)}
    missing |= {k: np.full(n, np.nan) for k in MEASURED_LATER}
    return {k: v for k, v in missing.items() if k not in rows} | rows
