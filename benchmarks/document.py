"""Tables between `<!-- name -->` and `<!-- end -->` in the documents, made from what was measured."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def measured(name: str) -> dict[str, Any]:
    """One of the JSON files beside this."""
    document: dict[str, Any] = json.loads((HERE / name).read_text())
    return document


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
