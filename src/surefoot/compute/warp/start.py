"""Starting Warp quietly, and what it had to compile."""

from __future__ import annotations

import os
import sys
import tempfile
from functools import cache
from pathlib import Path

import warp as wp

EXPECTED = b"Could not find or load the NVIDIA CUDA driver"


@cache
def start_warp() -> None:
    """Initialises Warp without its banner, and without its remark that a machine without a GPU has none: the
    native library writes it to stderr whatever the log level. Anything else it says is passed on."""
    wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with tempfile.TemporaryFile() as said:
            os.dup2(said.fileno(), 2)
            try:
                wp.init()
            finally:
                os.dup2(kept, 2)
            said.seek(0)
            other = [line for line in said if EXPECTED not in line]
        os.write(2, b"".join(other))
    finally:
        os.close(kept)
    _found()


def compiled() -> int:
    """Kernel modules that had to be compiled since Warp was started here."""
    return len(_binaries() - _found())


@cache
def _found() -> frozenset[Path]:
    return _binaries()


def _binaries() -> frozenset[Path]:
    """In Warp's cache, for CPUs and GPUs."""
    files = Path(wp.config.kernel_cache_dir or "").glob("*/*")
    return frozenset(f for f in files if f.suffix in (".o", ".cubin", ".ptx"))
