"""What a person sees while a run trains: a live panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

PLAIN_EVERY_S = 10.0


class Display:
    """Shows ledger rows as they come. `updates` and `minutes` are the run's limits, for the bar and the
    ETA."""

    def __init__(
        self, console: Console, updates: int | None, minutes: float | None, until: float | None
    ) -> None:
        self.console, self.updates, self.minutes, self.until = console, updates, minutes, until
        self._bar = Progress(
            TextColumn("[bold]training"),
            BarColumn(bar_width=40),
            TextColumn("{task.percentage:>3.0f}%  ETA {task.fields[eta]}"),
        )
        self._task = self._bar.add_task("train", total=1.0, eta="?")
        self._live = (
            Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
        )
        self._last = 0.0
        self._resets: dict[str, int] = {}

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def show(self, row: Mapping[str, Any], successes: Sequence[float]) -> None:
        for k, v in row.items():
            if k.startswith("reset."):
                self._resets[k[6:]] = self._resets.get(k[6:], 0) + int(v)
        share, eta = self._remaining(row)
        if self._live:
            self._bar.update(self._task, completed=share, eta=eta)
            self._live.update(Group(self._bar, self._table(row, successes)))
        elif "evaluation.success" in row or time.monotonic() - self._last > PLAIN_EVERY_S:
            self._last = time.monotonic()
            self.console.print(self._line(row, successes, eta), highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """Prints a line that stays above the panel."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _remaining(self, row: Mapping[str, Any]) -> tuple[float, str]:
        """Share of the nearest limit that is used up, and the time until it is reached."""
        spent, shares = float(row["train_seconds"]), [0.0]
        if self.updates:
            shares.append(int(row["update"]) / self.updates)
        if self.minutes:
            shares.append(spent / (60 * self.minutes))
        share = min(1.0, max(shares))
        if share <= 0:
            return 0.0, "?"
        left = spent * (1 - share) / share
        early = " or earlier" if self.until else ""
        return share, f"{int(left // 60)}:{int(left % 60):02d}{early}"

    def _table(self, row: Mapping[str, Any], successes: Sequence[float]) -> Table:
        table = Table(box=None, show_header=False, padding=(0, 2))
        trend = " ".join(f"{100 * s:.0f}%" for s in successes[-8:]) or "not yet"
        resets = "  ".join(f"{k} {v}" for k, v in self._resets.items() if v)
        facts = (
            ("updates", f"{row['update']}"),
            ("samples", f"{row['samples']:,}"),
            ("speed", f"{row['steps_per_second']:,.0f} steps/s"),
            ("reward", f"{row['reward_per_step']:.4f} per step"),
            (
                "return",
                "no episode ended"
                if row["episode.return"] is None
                else f"{row['episode.return']:.2f} per episode",
            ),
            ("held-out success so far", trend),
            ("resets", resets or "none"),
            *([("terrain level", f"{row['terrain.level']:.2f}")] if "terrain.level" in row else []),
        )
        for name, value in facts:
            table.add_row(f"[dim]{name}", value)
        return table

    def _line(self, row: Mapping[str, Any], successes: Sequence[float], eta: str) -> str:
        success = f"{100 * successes[-1]:.1f}%" if successes else "-"
        ended = row["episode.return"]
        resets = " ".join(f"{k}:{v}" for k, v in self._resets.items() if v)
        return (
            f"update {row['update']:>5}  samples {row['samples']:>10,}  "
            f"{row['steps_per_second']:>7,.0f} steps/s  train {row['train_seconds']:>5.0f} s  ETA {eta}  "
            f"return {'-' if ended is None else f'{ended:.2f}'}  "
            f"held-out {success}  resets {resets or '-'}"
            + (f"  level {row['terrain.level']:.2f}" if "terrain.level" in row else "")
        )
