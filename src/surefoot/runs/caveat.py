"""Says what a run's evidence is not of: training that went on after it, or that has no evidence yet."""

from __future__ import annotations

import json
import os
from pathlib import Path

from surefoot.runs.folder import RunFolder, RunRecord
from surefoot.runs.lock import is_alive

_LAST_ROW_BYTES = 1 << 20
"""More than a row of the ledger takes."""


def caveat(run: RunFolder | RunRecord) -> str:
    """Returns the sentence that must stand beside a run's result; "" where there is nothing to say.

    A folder says more than its record alone: how far a run is that is training, and whether anybody trains
    it.
    """
    r = run.record if isinstance(run, RunFolder) else run
    if r.status == "finished":
        return ""
    if r.confirmation is None:
        end = "its result is not confirmed yet" if r.status == "unconfirmed" else "nothing is confirmed"
        return f"Training {_state(run)}; {end}."
    now, then = _update(run), r.confirmed_after
    if then is not None and now == then and r.status != "unconfirmed":
        return f"{_evidence(r)}; training was resumed from update {then} and has recorded nothing since."
    return f"{_evidence(r)}; training was resumed and {_state(run)}, unconfirmed."


def _evidence(r: RunRecord) -> str:
    of = "an earlier update" if r.confirmed_update is None else f"update {r.confirmed_update}"
    return f"The evidence is of {of}"


def _state(run: RunFolder | RunRecord) -> str:
    """Says what became of training, and at which update."""
    r = run.record if isinstance(run, RunFolder) else run
    now = _update(run)
    at = "" if now is None else f" at update {now}"
    if r.status != "running":
        word = {"interrupted": "stands", "failed": "failed", "unconfirmed": "ended"}[r.status]
        return f"{word}{at}"
    if isinstance(run, RunFolder) and not is_alive(run.path):
        return f"broke off{at}"
    return f"is under way{at}"


def _update(run: RunFolder | RunRecord) -> int | None:
    """Returns the update that training stands at. What run.json says of a run that trains is of its start."""
    r = run.record if isinstance(run, RunFolder) else run
    done = r.figures.get("updates")
    if r.status == "running" and isinstance(run, RunFolder):
        return _last_row(run.ledger.path)
    return None if done is None else int(done)


def _last_row(path: Path) -> int | None:
    """Returns the update of the ledger's last whole row; 0 before the first, None where it cannot be read."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_ROW_BYTES))
            lines = file.read().split(b"\n")[:-1]
        return int(json.loads(lines[-1])["update"]) if lines else 0
    except FileNotFoundError:
        return 0
    except (OSError, ValueError, KeyError, TypeError):
        return None
