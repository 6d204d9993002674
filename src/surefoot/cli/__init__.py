"""The command line: each file parses one verb's options, calls a function of another room, and prints.

On top of all floors. Importing this imports neither torch nor a simulator: a command imports what it needs
when it runs. Main name: `main`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from surefoot.cli.main import main

if TYPE_CHECKING:
    from surefoot.cli.display import Display
    from surefoot.cli.tables import print_plan, print_summary

__all__ = ["Display", "main", "print_plan", "print_summary"]


def __getattr__(name: str) -> Any:
    """Loads what training prints with on first use: it imports training, and so torch."""
    if name == "Display":
        from surefoot.cli.display import Display

        return Display
    if name in ("print_plan", "print_summary"):
        from surefoot.cli import tables

        return getattr(tables, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
