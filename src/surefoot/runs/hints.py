"""Says how a run can go on, as commands that can be typed as they are printed."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from surefoot.compute import world_info
from surefoot.contract import ExternalContract
from surefoot.runs.folder import RunFolder


def resumable(run: RunFolder) -> bool:
    """Returns whether the run can be continued exactly."""
    return run.record.library is None and not isinstance(run.record.contract, ExternalContract)


def resume_hint(run: RunFolder) -> str:
    """Returns the sentence that names the command to go on with."""
    here = world_info()
    go_on = typed_resume(run)
    if run.record.status == "unconfirmed":
        return f"Confirm it with: {go_on}"
    if not resumable(run) and _fleet(run) and isinstance(run.record.contract, ExternalContract):
        return f"Continue, with new episodes, with: {go_on}"
    if not resumable(run):
        return f"Judge what it has learned with: {typed('evaluate', run.path, '--checkpoint', 'latest')}"
    if here.world > 1:
        group = f"torchrun --nproc-per-node={here.local_world} -m surefoot"
        return f"Continue with: {group} train --resume {shlex.quote(str(run.path))}"
    return f"Continue with: {go_on}"


def typed_resume(run: RunFolder, *more: object) -> str:
    """Returns the command that goes on with a run as it was collected, with the options `more`."""
    return typed("train", "--resume", run.path, *_fleet(run), *more)


def _fleet(run: RunFolder) -> list[str]:
    """Returns the options that let a fleet collect as the last one did; none where there was none."""
    said = run.record.versions.get("fleet", "")
    if not said:
        return []
    lag = ["--max-lag", said.split("at most ")[1].split()[0]] if "at most " in said else ["--sync"]
    central = ["--inference", "central"] if said.endswith("central inference") else []
    return ["--actors", run.record.versions["actors"], *lag, *central]


def typed(*words: object) -> str:
    """Returns a command of this program that can be typed as it is: paths with blanks are quoted."""
    return f"{surefoot_command()} {shlex.join(map(str, words))}"


def surefoot_command() -> str:
    """Returns how this program was called, so that printed commands can be typed as they are."""
    called = Path(sys.argv[0])
    if called.name == "surefoot" and called.parent.name == "bin":
        try:
            return str(called.absolute().relative_to(Path.cwd()))
        except ValueError:
            return "surefoot"
    return "surefoot"
