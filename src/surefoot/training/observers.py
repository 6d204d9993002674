"""Who follows a run while it trains: a person's terminal, or nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Observer(Protocol):
    """Follows a run from update to update."""

    def show(self, row: Mapping[str, Any], successes: Sequence[float]) -> None:
        """Shows an update: its `row` of the ledger, and all `successes` on the selection half so far."""

    def note(self, text: str) -> None:
        """Shows a line that a person should know about the run."""
