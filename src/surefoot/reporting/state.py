"""Where a run stands: what must be said beside its result, and how far it is while it trains."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.runs import RunFolder, RunRecord

SILENT_S = 600.0
"""A run that has written nothing for so long has broken off."""


@dataclass(frozen=True)
class TimeParts:
    """Seconds of a run. None: not measured."""

    startup: float | None
    training: float | None
    selection: float | None
    confirmation: float | None
    total: float | None


def caveat(run: RunFolder) -> str:
    """Returns the sentence that must stand beside a run's result; "" where there is nothing to say."""
    r = run.record
    if r.status == "finished":
        return "" if r.confirmation is not None else "Training ended; its result is not confirmed yet."
    done = r.figures.get("updates")
    at = f" at update {done}" if done is not None else ""
    word = {"interrupted": "stands", "failed": "failed", "running": "is under way"}[r.status]
    if r.status == "running" and not is_alive(run.path):
        word = "broke off"
    if r.confirmation is None:
        return f"Training {word}{at}; nothing is confirmed."
    return f"The evidence is of an earlier update; training was resumed and {word}{at}, unconfirmed."


def is_alive(folder: str | Path) -> bool:
    """Returns whether somebody trains the run in `folder`."""
    files = [f for n in ("run.json", "ledger.jsonl") if (f := Path(folder) / n).is_file()]
    return any(time.time() - f.stat().st_mtime < SILENT_S for f in files)


def time_parts(record: RunRecord) -> TimeParts:
    """Returns what a run took, by part."""
    f = record.figures
    confirmation = record.confirmation.total_seconds if record.confirmation else None
    parts = (f.get("startup_seconds"), f.get("train_seconds"), f.get("evaluation_seconds"), confirmation)
    known = [x for x in parts if x is not None]
    return TimeParts(*parts, sum(known) if known else None)


def ledger_fault(rows: Sequence[Mapping[str, Any]]) -> str:
    """Says which updates a ledger lacks; "" where it has all."""
    there = {int(r["update"]) for r in rows}
    missing = sorted(set(range(1, max(there, default=0) + 1)) - there)
    return f"The ledger lacks update {', '.join(map(str, missing[:9]))}." if missing else ""
