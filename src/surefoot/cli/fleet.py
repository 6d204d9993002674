"""`surefoot fleet`: what a fleet does, and how it is ended in order, from another terminal."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from surefoot.cli.parser import Positional
from surefoot.contract import SurefootError
from surefoot.printing import print_fleet, say

if TYPE_CHECKING:
    from surefoot.runs import RunFolder

POLL_S = 0.2


@dataclass(frozen=True)
class FleetStatusCommand:
    """Say whether a fleet trains a run: its actors with rate, lag and last sign of life, and its books. Reads
    the run folder and asks nobody, so it works from any machine that sees the folder.

    Exit code 0: a fleet trains. 1: none does.

    Example: surefoot fleet status runs/RUN

    Example (all runs): surefoot fleet status runs
    """

    run_folder: Positional[str] = "runs"
    """Run folder, or a folder of them."""
    json: bool = False
    """Print one JSON list, of an object per run."""

    def run(self, console: Console) -> int:
        from surefoot.fleet import fleet_status, fleets_in

        one = (Path(self.run_folder) / "run.json").is_file()
        found = [fleet_status(self.run_folder)] if one else fleets_in(self.run_folder)
        if self.json:
            print(json.dumps([f.as_json() for f in found], indent=2))
        else:
            for f in found:
                print_fleet(console, f)
        return 0 if any(f.trains for f in found) else 1


@dataclass(frozen=True)
class FleetStopCommand:
    """Ask the process that trains a run with a fleet to finish its update and save, as Ctrl-C in its terminal
    does; wait for that, and say how the run can go on. The process has to be this user's, on this machine.
    Asked a second time it does not finish its update.

    Exit code 0: it has ended. 1: it failed while it ended.

    Example: surefoot fleet stop runs/RUN
    """

    run_folder: Positional[str]
    """Run folder, as `surefoot train` printed it."""
    patience_s: float = 600.0
    """Seconds to wait for it to end."""

    def run(self, console: Console) -> int:
        from surefoot.fleet import fleet_status, stop_holder
        from surefoot.runs import RunFolder, is_alive

        if not 0 <= self.patience_s < float("inf"):
            raise SurefootError(f"--patience-s is {self.patience_s:g}; use seconds, 0 or more.")
        holder = stop_holder(fleet_status(self.run_folder))
        os.kill(holder.pid, signal.SIGINT)
        said = f"Process {holder.pid} was asked to finish its update and save"
        until = time.monotonic() + self.patience_s
        with console.status(f"{said}; waiting"):
            while is_alive(self.run_folder):
                if time.monotonic() > until:
                    raise SurefootError(
                        f"{said}, and has not ended in {self.patience_s:g} s; "
                        f"`surefoot fleet status {self.run_folder}` says when it has."
                    )
                time.sleep(POLL_S)
        run = RunFolder.open(self.run_folder)
        say(console, came_of_it(run))
        return 1 if run.record.status == "failed" else 0


def came_of_it(run: RunFolder) -> str:
    """Says how a run ended that was asked to, and how it can go on."""
    from surefoot.runs import read_ledger, resume_hint

    rows = read_ledger(run.ledger.path)[0]
    at, status = f"update {int(rows[-1]['update']) if rows else 0}", run.record.status
    if status == "finished":
        return f"{run.path} had come to its end, after {at}, and is confirmed."
    if status == "failed":
        return f"{run.path} failed after {at}: {run.record.error} {resume_hint(run)}"
    how = "Training has ended, and is not confirmed" if status == "unconfirmed" else "Stopped"
    broke = "" if status != "running" else " It broke off: what came after its last checkpoint is not saved."
    return f"{how}, after {at}.{broke} {resume_hint(run)}"
