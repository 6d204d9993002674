"""What a run took, by part: all of its wall-clock, not training alone."""

from __future__ import annotations

from dataclasses import dataclass

from surefoot.runs.folder import RunRecord


@dataclass(frozen=True)
class TimeParts:
    """Seconds of a run, over all processes that worked on it. None: not measured, as in runs of older
    versions."""

    startup: float | None
    """From the start of the program to the first update: imports, compilation, laying out environments."""
    training: float | None
    selection: float | None
    """Evaluations on the selection half, while it trained."""
    confirmation: float | None
    """Closing evaluations; several where the run was resumed, or one broke off."""
    other: float | None
    """The rest of the total: waiting for files, and what a killed process had begun."""
    total: float | None
    """Wall-clock from the start of the program to the result; the sum of the parts that are known where it
    was not measured."""
    measured: bool
    """Whether the total was measured."""


def time_parts(record: RunRecord) -> TimeParts:
    """Returns what a run took, from run.json. A process that was killed is counted to its last checkpoint."""
    f, s = record.figures, record.confirmation
    training, selection = f.get("train_seconds"), f.get("evaluation_seconds")
    startup, confirmation = f.get("preparation_seconds"), f.get("confirmation_seconds")
    if confirmation is None and s is not None and record.status == "finished":
        confirmation = s.total_seconds
    known = [x for x in (startup, training, selection, confirmation) if x is not None]
    total = f.get("total_seconds")
    return TimeParts(
        startup=startup,
        training=training,
        selection=selection,
        confirmation=confirmation,
        other=None if total is None else max(0.0, total - sum(known)),
        total=total if total is not None else sum(known) if known else None,
        measured=total is not None,
    )
