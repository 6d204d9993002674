"""What a run shows in a tracker: as it trains, and with `surefoot track` afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from surefoot.contract import SurefootError
from surefoot.runs import RunFolder, load_audit, read_ledger, typed
from surefoot.trackers import FailSafeTracker, Tracker, check_tracker, make_tracker


def begin_tracker(run: RunFolder, name: str, resume: bool, note: Callable[[str], None]) -> FailSafeTracker:
    """Begins the tracker of a run that is about to train. Where it cannot begin nobody trains, and run.json
    says so: a new run failed, and why; a resumed one stands at its checkpoint. Where it fails later, the run
    goes on, and `note` is told."""

    def failed(error: str) -> None:
        again = typed("track", run.path, "--tracker", name)
        note(
            f"The tracker {name} failed ({error}); the run goes on without it. "
            f"Show it all later with: {again}"
        )

    try:
        return FailSafeTracker(_tracker(name, run), failed)
    except SurefootError as error:
        if resume:
            run.write_record(status="interrupted")
        else:
            run.write_record(status="failed", error=str(error))
        raise SurefootError(f"{error} {run.path} is marked {run.record.status}.") from error


def _tracker(name: str, run: RunFolder) -> Tracker:
    """Makes a tracker that has all that the ledger has: nothing yet, or what a resumed run did before."""
    rows = [] if name == "none" else read_ledger(run.ledger.path)[0]
    return make_tracker(name, run.path, run.record.model_dump(mode="json"), rows)


def track_run(folder: str | Path, tracker: str) -> RunFolder:
    """Shows the ledger of a run that has ended in a tracker, and returns the run."""
    check_tracker(tracker)
    run = RunFolder.open(folder)
    shown = _tracker(tracker, run)
    track_audit(run, shown)
    shown.close()
    return run


def track_audit(run: RunFolder, tracker: Tracker) -> None:
    """Shows in a tracker what the audit of a run says, where there is one: its line, how many findings, and
    each finding by its detector."""
    audit = load_audit(run.path)
    if audit is None:
        return
    row = {
        "samples": int(run.record.figures.get("samples") or 0),
        "audit.says": audit.says,
        "audit.proof": len(audit.proof),
        "audit.behaviour": len(audit.remarks),
        "audit.passed": len(audit.passed),
        "audit.failed": len(audit.failed),
    }
    row |= {f"audit.{f.detector}": f"On the {f.kind}, {f.cause}: {f.statement}" for f in audit.findings}
    tracker.log(row)
