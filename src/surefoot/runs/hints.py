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
    here, folder = world_info(), shlex.quote(str(run.path))
    if run.record.status == "unconfirmed":
        return f"Confirm it with: {surefoot_command()} train --resume {folder}"
    if not resumable(run):
        return f"Judge what it has learned with: {surefoot_command()} evaluate {folder} --checkpoint latest"
    command = f"torchrun --nproc-per-node={here.local_world} -m surefoot" if here.world > 1 else ""
    return f"Continue with: {command or surefoot_command()} train --resume {folder}"


def surefoot_command() -> str:
    """Returns how this program was called, so that printed commands can be typed as they are."""
    called = Path(sys.argv[0])
    if called.name == "surefoot" and called.parent.name == "bin":
        try:
            return str(called.absolute().relative_to(Path.cwd()))
        except ValueError:
            return "surefoot"
    return "surefoot"
