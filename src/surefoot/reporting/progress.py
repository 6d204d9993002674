"""How far a run is that trains: read from its ledger while another process writes it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.runs import RunFolder, is_alive

TAIL = 1 << 18
"""Bytes at the end of a ledger that are read: some hundred updates."""


@dataclass(frozen=True)
class Progress:
    """How far a run is. None: not known, or not measured yet."""

    update: int
    of: int | None
    success: float | None
    """On the selection half, when it was last evaluated."""
    steps_per_second: float | None
    left_s: float | None
    """Seconds of training until a limit is reached; a wanted success may end it sooner."""
    share: float | None
    """How much of that limit is done."""


def read_progress(run: RunFolder) -> Progress | None:
    """Reads how far a run is that somebody trains; None where nobody does."""
    if run.record.status != "running" or not is_alive(run.path):
        return None
    rows = _last_rows(run.path / "ledger.jsonl")
    last = rows[-1] if rows else {}
    update, seconds = int(last.get("update", 0)), float(last.get("train_seconds") or 0.0)
    of, minutes = run.record.limits.get("updates"), run.record.limits.get("minutes")
    left, shares = [], []
    if of and update:
        left.append(seconds / update * max(of - update, 0))
        shares.append(update / of)
    if minutes and update:
        left.append(max(60 * minutes - seconds, 0.0))
        shares.append(seconds / (60 * minutes))
    known = [r["evaluation.success"] for r in rows if r.get("evaluation.success") is not None]
    return Progress(
        update=update,
        of=int(of) if of else None,
        success=known[-1] if known else None,
        steps_per_second=last.get("steps_per_second"),
        left_s=min(left) if left else None,
        share=min(max(shares), 1.0) if shares else None,
    )


def _last_rows(path: Path) -> list[dict[str, Any]]:
    """Returns the whole rows at the end of the ledger; a line that is being written is left out."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - TAIL))
            lines = file.read().split(b"\n")[1 if size > TAIL else 0 : -1]
    except OSError:  # no update has ended yet
        return []
    rows = []
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:  # the report of the run says what is wrong with it
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows
