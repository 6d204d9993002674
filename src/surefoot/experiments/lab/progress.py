"""What a person sees between the runs of a lab: which piece of work begins, and when all will be done."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console

SHARES = {"training": 1.0, "panel": 0.15, "record": 0.15}
"""What a piece of work is taken to last, of a training, until one of its kind has been seen."""

LEAST_S = 0.5
"""What takes less was there already, and says nothing about what is not."""


class Stages:
    """Pieces of work of one kind are taken to last as long as each other."""

    def __init__(self, console: Console, kinds: Sequence[str]) -> None:
        self.console, self.kinds = console, list(kinds)
        self._spent: dict[str, list[float]] = defaultdict(list)
        self._begun, self._at = time.monotonic(), 0

    @contextmanager
    def stage(self, says: str) -> Iterator[None]:
        kind, begun = self.kinds[self._at], time.monotonic()
        left = self.remaining()
        clock = f"  {_clock(begun - self._begun)} so far, ETA {'?' if left is None else _clock(left)}"
        self._at += 1
        self.console.print(
            f"[bold]{self._at} of {len(self.kinds)}[/bold]  {says}[dim]{clock}[/dim]",
            highlight=False,
            soft_wrap=True,
        )
        yield
        spent = time.monotonic() - begun
        if spent > LEAST_S:
            self._spent[kind].append(spent)

    def remaining(self) -> float | None:
        """Seconds; None before anything was done."""
        usual = {k: sum(v) / len(v) for k, v in self._spent.items() if v}
        if not usual:
            return None
        training = max(seconds / SHARES[k] for k, seconds in usual.items())
        return sum(usual.get(k, SHARES[k] * training) for k in self.kinds[self._at :])


def _clock(seconds: float) -> str:
    return f"{int(seconds // 60)}:{int(seconds % 60):02d}"
