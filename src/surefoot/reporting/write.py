"""`surefoot report`: one self-contained file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from surefoot.artifacts import atomic_write
from surefoot.contract import SurefootError
from surefoot.reporting.figures import read_run
from surefoot.reporting.page import report_page

LARGEST = 15_000_000
"""Bytes; a page beyond it is refused rather than written."""


def write_report(
    folders: Sequence[str | Path], out: str | Path | None = None, dollars_per_hour: float | None = None
) -> Path:
    """Writes the report of the runs; without `out` into the first run's folder as report.html."""
    if not folders:
        raise SurefootError("Say which run to report, e.g. `surefoot report runs/<run>`.")
    if dollars_per_hour is not None and not 0 <= dollars_per_hour < float("inf"):
        raise SurefootError(f"--dollars-per-hour is {dollars_per_hour:g}; use a price of 0 or more.")
    runs = [read_run(f) for f in dict.fromkeys(map(str, folders))]
    path = Path(out) if out is not None else runs[0].folder / "report.html"
    if path.is_dir():
        raise SurefootError(f"'{path}' is a folder; give --out a file name, e.g. {path / 'report.html'}.")
    data = report_page(runs, dollars_per_hour).encode()
    if len(data) > LARGEST:
        raise SurefootError(
            f"The report would take {len(data) / 1e6:.1f} MB, above {LARGEST / 1e6:g} MB; give fewer runs "
            f"at once."
        )
    atomic_write(path, data)
    return path
