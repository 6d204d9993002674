"""How results show themselves: as text in a terminal, as HTML in a notebook, from one printing function."""

from __future__ import annotations

import html
import io
from abc import ABC, abstractmethod
from pathlib import Path
from urllib.parse import quote

from rich.console import Console
from rich.terminal_theme import TerminalTheme

TEXT_WIDTH, HTML_WIDTH = 100, 120
"""Characters that a line of text, and of a notebook's output, may have."""
THEME = TerminalTheme(
    (128, 128, 128), (128, 128, 128), [(128, 128, 128), (214, 64, 64), (34, 153, 84), (201, 135, 16)]
)
"""Colours that can be read on white and on black: a notebook does not say which it is. The first is the
background, with which dim words are mixed: the grey that they are, so that they stay readable."""
BLOCK = (
    '<pre style="font-family:var(--jp-code-font-family,monospace),monospace;line-height:1.35;'
    'white-space:pre;overflow-x:auto;font-size:0.85em;background:none">{code}</pre>'
)
"""Says all that columns need to stand below each other: a notebook gives outputs the font of its text."""


class Shown(ABC):
    """Shows itself by `show`; `print` and a notebook's cell use that."""

    @abstractmethod
    def show(self, console: Console) -> None:
        """Prints this on a rich console."""

    def __str__(self) -> str:
        file = io.StringIO()
        self.show(Console(file=file, width=TEXT_WIDTH, force_jupyter=False, force_terminal=False))
        return "\n".join(line.rstrip() for line in file.getvalue().strip("\n").splitlines())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        console = Console(
            file=io.StringIO(), width=HTML_WIDTH, record=True, force_terminal=True, force_jupyter=False,
            color_system="standard", highlight=False,
        )  # fmt: skip
        self.show(console)
        return console.export_html(theme=THEME, code_format=BLOCK, inline_styles=True)


def escaped(text: object) -> str:
    """Returns text that means itself within HTML, in an attribute too."""
    return html.escape(str(text), quote=True)


def link(path: Path, text: object) -> str:
    """Returns a link to a file. A notebook opens what is below its folder by a relative address; an absolute
    one would be looked for at its server."""
    here, there = Path.cwd(), path.resolve()
    below = there.is_relative_to(here)
    address = quote(there.relative_to(here).as_posix()) if below else there.as_uri()
    return f'<a href="{escaped(address)}" target="_blank">{escaped(text)}</a>'
