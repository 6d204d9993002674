"""Who is told what a run does while it trains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Watcher(Protocol):
    """Who is told of every update."""

    def show(self, row: Mapping[str, Any], successes: Sequence[float]) -> None:
        """`row` is the ledger's; `successes` are those of the selection half so far."""
