"""What a run shows in a tracker: as it trains, and with `surefoot track` afterwards."""

from __future__ import annotations

import shlex
from functools import partial

from rich.console import Console

from surefoot.contract import SurefootError
from surefoot.runs import RunFolder, read_ledger, surefoot_command
from surefoot.trackers import FailSafeTracker, Tracker, check_tracker, make_tracker


def begin_tracker(console: Console, run: RunFolder, name: str, resume: bool) -> FailSafeTracker:
    """The tracker of a run that is about to train. Where it cannot begin nobody trains, and run.json says so:
    a new run failed, and why; a resumed one stands at its checkpoint. Where it fails later, the run goes
    on."""
    try:
        return FailSafeTracker(_tracker(name, run), partial(_tell, console, run, name))
    except SurefootError as error:
        if resume:
            run.write_record(status="interrupted")
        else:
            run.write_record(status="failed", error=str(error))
        raise SurefootError(f"{error} {run.path} is marked {run.record.status}.") from error


def _tell(console: Console, run: RunFolder, name: str, error: str) -> None:
    again = f"{surefoot_command()} track {shlex.quote(str(run.path))} --tracker {name}"
    console.print(
        f"The tracker {name} failed ({error}); the run goes on without it. Show it all later with: {again}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _tracker(name: str, run: RunFolder) -> Tracker:
    """With all that the ledger has: nothing yet, or what a resumed run did before."""
    rows = [] if name == "none" else read_ledger(run.ledger.path)[0]
    return make_tracker(name, run.path, run.record.model_dump(mode="json"), rows)


def track_run(console: Console, folder: str, tracker: str) -> int:
    """Shows the ledger of a run that has ended in a tracker."""
    check_tracker(tracker)
    run = RunFolder.open(folder)
    _tracker(tracker, run).close()
    console.print(f"{tracker} has the ledger of {run.path}", highlight=False, markup=False, soft_wrap=True)
    return 0
