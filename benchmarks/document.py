"""Tables between `<!-- name -->` and `<!-- end -->` in the documents, written by who measures them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

DOCUMENT = Path(__file__).parent.parent / "docs" / "engines.md"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(r) + " |" for r in (head, ["---"] * len(head), *rows))


def filled(document: str, tables: Mapping[str, str]) -> str:
    """The document with these tables in their places; each must be there exactly once."""
    for name, made in tables.items():
        place = f"(?<=<!-- {re.escape(name)} -->\n)(?:(?!<!--).)*(?=<!-- end -->)"
        parts = re.split(place, document, flags=re.DOTALL)
        if len(parts) != 2:
            raise SystemExit(f"There are {len(parts) - 1} places for the table '{name}'; there must be one.")
        document = f"{parts[0]}{made}\n{parts[1]}"
    return document


def fill(name: str, text: str) -> None:
    """Into docs/engines.md."""
    DOCUMENT.write_text(filled(DOCUMENT.read_text(), {name: text}))
