"""A panel folder of a run: summary.json and episodes.parquet of any version, read as today's.

What an older version had no word for is filled in here and nowhere else, so that every reader sees one
layout.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from surefoot.artifacts import read_json, read_table, table_meta
from surefoot.contract import NOMINAL, TRAINED, SurefootError, digest
from surefoot.runs.folder import PANEL_ROWS_VERSION
from surefoot.statistics import PanelSummary

MEASURED_LATER = (
    *("window_velocity_error_mps", "window_yaw_error_radps", "windows_as_told", "stand_drift_m"),
    *("stand_turn_rad", "stand_speed_mps", "stand_joint_speed_radps"),
    *("foot_slip_per_m", "foot_clearance_m", "vibration_radps"),
)
"""Columns that rows of before there were windows do not have."""


def read_summary(folder: Path) -> PanelSummary:
    """Reads a panel folder's summary. Fields that came after its version have their defaults, which say that
    nothing was measured."""
    summary = read_json(folder / "summary.json", PanelSummary)
    made = digest(summary.measurement) if summary.measurement or summary.measurement_id else ""
    if made and {summary.measurement_id, summary.construct_id} != {made}:
        raise SurefootError(
            f"'{folder / 'summary.json'}' is not what it was: its measurement_id is "
            f"{summary.measurement_id[:12]}, its construct_id {summary.construct_id[:12]}, and its "
            f"measurement gives {made[:12]}; make it again with `surefoot evaluate`."
        )
    return summary


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
