"""The command line: each file parses one verb's options, calls a function of another room, and prints."""

from __future__ import annotations

from surefoot.cli.main import main

__all__ = [
    "main",
]
