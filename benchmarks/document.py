"""Tables between `<!-- name -->` and `<!-- end -->` in docs/engines.md, written by who measures them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

DOCUMENT = Path(__file__).parent.parent / "docs" / "engines.md"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(r) + " |" for r in (head, ["---"] * len(head), *rows))


def fill(name: str, text: str) -> None:
    """Replaces the table of that name; it must be there exactly once."""
    pattern = re.compile(f"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    filled, count = pattern.subn(lambda m: m[1] + text + "\n" + m[2], DOCUMENT.read_text())
    if count != 1:
        raise SystemExit(f"{DOCUMENT} has {count} tables named '{name}'; it must have one.")
    DOCUMENT.write_text(filled)
