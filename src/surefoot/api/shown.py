"""How results show themselves: as text in a terminal, as HTML in a notebook, from one printing function."""

from __future__ import annotations

import html
import io
from abc import ABC, abstractmethod

from rich.console import Console
from rich.terminal_theme import TerminalTheme

TEXT_WIDTH, HTML_WIDTH = 100, 120
"""Characters that a line of text, and of a notebook's output, may have."""
THEME = TerminalTheme(
    (255, 255, 255), (128, 128, 128), [(128, 128, 128), (214, 64, 64), (34, 153, 84), (201, 135, 16)]
)
"""Colours that can be read on white and on black: a notebook does not say which it is."""
BLOCK = '<pre style="line-height:1.35;overflow-x:auto;font-size:0.85em;background:none">{code}</pre>'


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
            color_system="standard",
        )  # fmt: skip
        self.show(console)
        return console.export_html(theme=THEME, code_format=BLOCK, inline_styles=True)


def escaped(text: object) -> str:
    """Returns text that means itself within HTML, in an attribute too."""
    return html.escape(str(text), quote=True)
