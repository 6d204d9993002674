"""What all commands print with: sentences in whole words, commands that can be typed, tables without
lines."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text


def make_console(stderr: bool = False) -> Console:
    """Returns where a command prints. `:name:` is not a picture here: paths and tasks have colons."""
    return Console(stderr=stderr, emoji=False)


def say(console: Console, text: str | Text, *, markup: bool = False, style: str | None = None) -> None:
    """Prints `text`: numbers have no colour, and brackets are brackets unless they are `markup`. A terminal's
    lines are broken between words; elsewhere, for whoever searches them, they are not broken."""
    if isinstance(text, str):
        text = Text.from_markup(text, emoji=False) if markup else Text(text)
    for line in text.split("\n", allow_blank=True):
        for part in line.divide(_breaks(line.plain, console.width)) if console.is_terminal else [line]:
            part.rstrip()
            console.print(part, style=style, highlight=False, soft_wrap=True)


def _breaks(line: str, width: int) -> list[int]:
    """Returns where a line is broken, between words only: one that is longer than the width stays whole,
    which no setting of rich's own wrapping does."""
    breaks, used = [], 0
    for word in re.finditer(r"\s*\S+", line):
        if used and used + cell_len(word[0]) > width:
            breaks.append(word.end() - len(word[0].lstrip()))
            used = cell_len(word[0].lstrip())
        else:
            used += cell_len(word[0])
    return breaks


def say_commands(console: Console, commands: Iterable[tuple[str, str]]) -> None:
    """Prints commands that can be typed as they are, quoted already, each with what it is for."""
    width = console.width if console.is_terminal else None
    for command, why in commands:
        for line in continued(command, why, width):
            text = Text(line)
            if why and line.endswith(f"# {why}"):
                text.stylize("dim", len(line) - len(why) - 2)
            say(console, text)


def continued(command: str, why: str, width: int | None) -> list[str]:
    """Writes a command and what it is for in lines of `width` characters. One that is longer is continued
    behind a backslash, never within a word, so that it can be copied as it stands."""
    remark = f"   # {why}" if why else ""
    line = f"  {command}{remark}"
    if width is None or len(line) <= width:
        return [line]
    words = re.findall(r"(?:[^\s'\"]|'[^']*'|\"[^\"]*\")+", command)
    lines = [f"  {words[0]}"]
    for word in words[1:]:
        if len(lines[-1]) + len(word) + 3 <= width:
            lines[-1] += f" {word}"
        else:
            lines[-1] += " \\"
            lines.append(f"      {word}")
    return [*([f"  # {why}"] if why else []), *lines]


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
