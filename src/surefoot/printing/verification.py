"""What a verification says, for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from surefoot.printing.terminal import plain_table, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surefoot.evidence import Check
    from surefoot.replays import Sample

MARKS = {"holds": "[green]holds[/]", "fails": "[bold red]FAILS[/]", "unseen": "[yellow]not seen[/]"}


def said_chance(chance: float) -> str:
    """Says a chance with two digits, and never that something is certain that is only all but so."""
    return f"{chance:.2g}" if chance <= 0.99 or chance == 1 else "over 0.99"


def print_verification(
    console: Console, path: Path, checks: Sequence[Check], sample: Sample | None, signed: bool = False
) -> None:
    """Prints every check with its sentence, and the columns that were played again."""
    table = plain_table(f"Verification of {escape(str(path))}", "", "", "")
    for c in checks:
        table.add_row(c.name, MARKS[c.outcome], escape(c.says))
    console.print(table, highlight=False)
    if sample is not None and sample.columns:
        rows = plain_table(
            "Played again", "half", "column", "engine", "rows", "differ", "disagree", "5% missed"
        )
        for s in sample.columns:
            counts = f"{s.rows} of {s.of}", str(s.differing), str(s.disagreeing), said_chance(s.missed)
            rows.add_row(s.half, s.column.removeprefix("baseline:"), s.engine, *counts)
        console.print(rows, highlight=False)
    if signed:
        say(console, "Signed: seal.json has an entry over all files as they are now.")
    if any(c.outcome == "fails" for c in checks):
        say(console, "[bold red]This run is not what it says.[/]", markup=True)
    elif not any(c.name == "signature" for c in checks):
        say(
            console,
            "Without a key a seal shows accidents, not forgers; a replay shows both, in what it plays.",
        )
