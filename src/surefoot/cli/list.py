"""`surefoot tasks`, `engines` and `panel`: what there is."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from tyro.conf import Positional

from surefoot.contract import SurefootError


@dataclass(frozen=True)
class TasksCommand:
    """List the tasks that can be trained, built in and from installed packages."""

    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self, console: Console) -> int:
        from surefoot.cli.tables import print_tasks

        print_tasks(console, self.json)
        return 0


@dataclass(frozen=True)
class EnginesCommand:
    """List the simulators, what each is for, and what stride can and cannot represent."""

    json: bool = False
    """Print one JSON object instead of tables."""

    def run(self, console: Console) -> int:
        from surefoot.cli.tables import print_engines

        print_engines(console, self.json)
        return 0


@dataclass(frozen=True)
class PanelMakeCommand:
    """Regenerate a shipped panel, bit for bit, into a file."""

    name: Positional[str]
    """Panel name, e.g. walk-flat-v1."""
    out: str | None = None
    """File to write (default: <name>.json here). An existing file is only replaced if it is the same
    panel."""

    def run(self, console: Console) -> int:
        from pathlib import Path

        from surefoot.artifacts import atomic_write
        from surefoot.contract import dump_panel, make_panel

        panel = make_panel(self.name)
        path, text = Path(self.out or f"{self.name}.json"), dump_panel(panel).encode()
        if path.exists() and path.read_bytes() != text:
            raise SurefootError(f"{path} exists and is another file; choose another --out.")
        atomic_write(path, text)
        console.print(
            f"{path}: {len(panel.scenarios)} scenarios, digest {panel.digest[:12]}", highlight=False
        )
        return 0


@dataclass(frozen=True)
class PanelShowCommand:
    """Describe a panel: its scenarios, families, halves and digest."""

    name: Positional[str] = ""
    """Panel name or file; without one, all shipped panels are listed."""
    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self, console: Console) -> int:
        from surefoot.cli.tables import print_panels

        print_panels(console, self.name, self.json)
        return 0
