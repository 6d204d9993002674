"""What all commands print with: a line as it is, a table without lines."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table


def say(console: Console, text: str, *, markup: bool = False, style: str | None = None) -> None:
    """Prints `text` as it is: numbers have no colour, lines are not broken, and brackets are brackets unless
    they are `markup`."""
    console.print(text, style=style, highlight=False, markup=markup, soft_wrap=True)


def plain_table(title: str, *columns: str) -> Table:
    """Returns an empty table without lines, its title to the left."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        padding=(0, 2, 0, 0),
        header_style="dim",
    )
    for c in columns:
        table.add_column(c)
    return table
