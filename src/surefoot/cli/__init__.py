"""The command line: each file parses one verb's options, calls a function of another room, and prints."""

from __future__ import annotations

from surefoot.cli.display import Display
from surefoot.cli.main import main
from surefoot.cli.tables import print_plan, print_summary

__all__ = [
    "Display",
    "main",
    "print_plan",
    "print_summary",
]
