"""Refuses to write over what Surefoot did not write: files that a user names as an output."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from surefoot.artifacts.files import cannot_read, cannot_write
from surefoot.contract import SurefootError

RUN_FILE = "run.json"
"""The file that makes a folder a run."""


def check_output(
    path: str | Path,
    ours: Callable[[Path], bool] | None = None,
    *,
    home: str | Path | None = None,
    option: str = "--out",
) -> Path:
    """Returns `path` if a file may be written there: a new name, or a plain file that `ours` knows for an
    earlier output of the same kind. Without `ours` nothing is replaced.

    Folders, links, devices and pipes are refused. So is every place in a run's folder, whose files are the
    run's own: but for HTML pages and videos at the top of `home`, the run that this output is about.
    """
    path = Path(path)
    try:
        _check_place(path, home, option)
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return path
    except OSError as error:
        raise cannot_write(path, error) from error
    except ValueError as error:  # a NUL in the name
        raise SurefootError(f"'{path!r}' is no file name ({error}); choose another {option}.") from error
    if stat.S_ISDIR(mode):
        raise SurefootError(f"'{path}' is a folder; give {option} a file name in it.")
    if not stat.S_ISREG(mode):
        raise SurefootError(f"'{path}' is a link or a device and is left alone; choose another {option}.")
    try:
        known = ours is not None and ours(path)
    except OSError as error:
        raise cannot_read(path, error) from error
    if not known:
        raise SurefootError(
            f"'{path}' exists and is not replaced: it is not an earlier output of this command. "
            f"Choose another {option}, or remove it first."
        )
    return path


def _check_place(path: Path, home: str | Path | None, option: str) -> None:
    """Refuses places in the folder of a run."""
    folder = Path(os.path.realpath(path.parent))
    run = next((f for f in (folder, *folder.parents) if (f / RUN_FILE).is_file()), None)
    if run is None:
        return
    own = home is not None and run == Path(os.path.realpath(home)) == folder
    if not own or path.suffix.lower() not in (".html", ".mp4", ".gif", ".webp", ".png"):
        raise SurefootError(
            f"'{path}' is in the folder of a run, '{run}', which is left alone; choose another {option}."
        )
