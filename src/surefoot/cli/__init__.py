"""The command line: each file parses one verb's options, calls a function of another room, and prints.

On top of all floors. Importing this imports neither torch nor a simulator: a command imports what it needs
when it runs. Main name: `main`.
"""

from __future__ import annotations

from surefoot.cli.main import main

__all__ = [
    "main",
]
