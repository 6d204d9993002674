"""Where a run can go on: at the latest checkpoint whose rows are all in the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from surefoot.contract import SurefootError
from surefoot.runs import CHECKPOINTS, Checkpoint, RunFolder, RunRecord, ledger_fault, read_ledger
from surefoot.training.selection import Progress


@dataclass(frozen=True)
class Standing:
    """Says where a run can go on, and why not later."""

    checkpoint: Checkpoint
    progress: Progress
    elapsed: float
    """Seconds that the run had taken until then; 0.0 where its ledger does not say."""
    fault: str = ""
    """What is wrong with the ledger after this checkpoint; "" where nothing is."""


def standing(run: RunFolder) -> Standing:
    """Finds the checkpoint to go on from: `latest`, or where the ledger has a hole before it, an earlier one.
    Refused where there is none."""
    latest = run.load_checkpoint("latest")
    rows, _ = read_ledger(run.ledger.path)
    fault = _fault(rows, latest)
    if not fault:
        return _at(latest, rows)
    earlier = [
        run.load_checkpoint(n) for n in CHECKPOINTS if n != "latest" and run.checkpoint_path(n).exists()
    ]
    whole = [c for c in earlier if not _fault(rows, c)]
    if not whole:
        raise SurefootError(
            f"{fault} No checkpoint of {run.path} is from before that, so the run cannot go on without a "
            "hole in its ledger; restore ledger.jsonl, or train anew with another --out."
        )
    return _at(max(whole, key=lambda c: int(c.meta["update"])), rows, fault)


def _fault(rows: list[dict[str, Any]], checkpoint: Checkpoint) -> str:
    """Says what the ledger lacks of what was done before the checkpoint."""
    update = int(checkpoint.meta["update"])
    return ledger_fault([r for r in rows if int(r["update"]) <= update], update)


def _at(checkpoint: Checkpoint, rows: list[dict[str, Any]], fault: str = "") -> Standing:
    progress, elapsed = Progress(), 0.0
    progress.load(checkpoint.meta)
    if progress.update:  # else it was killed in its first update, and has no row yet
        row: Mapping[str, Any] = next(r for r in rows if int(r["update"]) == progress.update)
        progress.load_seconds(row)
        elapsed = float(row.get("elapsed_seconds") or row["wall_seconds"])
    return Standing(checkpoint, progress, elapsed, fault)


def confirmed(record: RunRecord) -> dict[str, Any]:
    """Returns which update a record's confirmation is of, for a run that is about to train on: what figures
    say of that is overwritten then."""
    if record.confirmation is None or record.confirmed_update is not None:
        return {}
    f = record.figures
    return {"confirmed_update": f.get("chosen_update"), "confirmed_after": f.get("updates")}
