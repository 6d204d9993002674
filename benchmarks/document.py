"""Tables between `<!-- name -->` and `<!-- end -->` in the documents, made from what was measured."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PLACE = re.compile(
    r"^<!-- (?P<name>[^:\n]+?) -->\n(?P<made>(?:(?!^<!-- ).*\n)*?)^<!-- end -->$", re.MULTILINE
)
"""A generated block; a comment with a colon is a marker (markers.py)."""


@dataclass(frozen=True)
class Block:
    """What stands between two marks, and the JSON files that it is made from."""

    make: Callable[[], str]
    sources: tuple[str, ...] = ()


def measured(name: str) -> Any:
    """One of the JSON files beside this."""
    return json.loads((HERE / name).read_text())


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(r) + " |" for r in (head, ["---"] * len(head), *rows))


def filled(document: str, blocks: Mapping[str, str]) -> str:
    """The document with these blocks in their places; every place in it must be known."""

    def made(place: re.Match[str]) -> str:
        name = place["name"]
        if name not in blocks:
            raise SystemExit(f"There is no table '{name}'; there are: {', '.join(sorted(blocks))}.")
        return f"<!-- {name} -->\n{blocks[name]}\n<!-- end -->"

    return PLACE.sub(made, document)


def places(document: str) -> list[str]:
    return [place["name"] for place in PLACE.finditer(document)]
