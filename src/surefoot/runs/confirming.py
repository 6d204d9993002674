"""How a confirmation takes the place of the one before it: whole, or not at all, whatever ends the process.

Checkpoint, policy, rows, summary and record are made in a folder of their own, which is renamed when all is
there. From then on the new set counts: whoever opens the run finishes moving it to its place.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from surefoot.contract import SurefootError
from surefoot.runs.lock import is_alive, locked

STAGED, READY = ".confirming", ".confirmed"
"""A confirmation that is being made, and one that is whole and is being put in its place."""


def put_in_place(path: Path) -> None:
    """Makes the staged confirmation of the run in `path` the one that counts."""
    (path / STAGED).rename(path / READY)
    _install(path)


def _install(path: Path) -> None:
    """Moves a whole confirmation to its place; begun again it goes on where it was. run.json comes last."""
    ready = path / READY
    for panel in sorted((ready / "panels").glob("*/*")):
        place = path / panel.relative_to(ready)
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        panel.rename(place)
    for name in ("checkpoints/confirmed.safetensors", "policy.safetensors", "run.json"):
        if (ready / name).exists():
            os.replace(ready / name, path / name)
    shutil.rmtree(ready)


def finish_confirmation(path: Path) -> None:
    """Finishes what a killed process had begun to put in its place; a living one is waited for."""
    end = time.monotonic() + 10
    while (path / READY).is_dir():
        if not is_alive(path):
            try:
                with locked(path):
                    if (path / READY).is_dir():
                        _install(path)
            except OSError as error:
                raise SurefootError(
                    f"{path} was killed while its confirmation was put in place, and may not be written here "
                    f"({error.strerror}); open it once where it may."
                ) from error
        elif time.monotonic() > end:
            raise SurefootError(f"{path} is being confirmed; try again when that is done.")
        time.sleep(0.01)
