"""Starts Warp quietly, and counts what it had to compile."""

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
        with tempfile.TemporaryFile() as caught:
            os.dup2(caught.fileno(), 2)
            try:
                wp.init()
            finally:
                os.dup2(kept, 2)
            caught.seek(0)
            other = [line for line in caught if EXPECTED not in line]
        os.write(2, b"".join(other))
    finally:
        os.close(kept)
    _cached()


def kernel_cache() -> Path:
    """Returns the folder that compiled kernels are kept in."""
    start_warp()
    return Path(wp.config.kernel_cache_dir or "")


def compiled() -> int:
    """Returns how many kernel modules had to be compiled since Warp was started here."""
    return len(_binaries() - _cached())


@cache
def _cached() -> frozenset[Path]:
    """Holds what was in the cache when this was first called."""
    return _binaries()


def _binaries() -> frozenset[Path]:
    """Lists the compiled modules in Warp's cache, for CPUs and GPUs."""
    files = Path(wp.config.kernel_cache_dir or "").glob("*/*")
    return frozenset(f for f in files if f.suffix in (".o", ".cubin", ".ptx"))
