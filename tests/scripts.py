"""Scripts of the checkout, run as `python SCRIPT ...` runs them, in this process: what they import is there
already, which is most of what their quick forms would take."""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
from pathlib import Path


def run_script(path: Path, *arguments: str | Path) -> str:
    """Runs a script to its end; returns what it printed. It fails as the script does."""
    before, printed = (sys.argv, list(sys.path)), io.StringIO()
    sys.argv, sys.path[:0] = [str(path), *map(str, arguments)], [str(path.parent)]
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise AssertionError(f"{path.name} ended with {end.code}: {printed.getvalue()}") from end
    finally:
        sys.argv, sys.path[:] = before
    return printed.getvalue()
