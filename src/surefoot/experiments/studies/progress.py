"""What a person sees while a study runs: which run, how far, and when all of it will be done."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from surefoot.experiments.studies.design import Design


class StudyProgress:
    """A bar on a terminal, lines elsewhere. Runs of one value are taken to last as long as each other."""

    def __init__(self, console: Console, design: Design, todo: Sequence[tuple[int, int]]) -> None:
        self.console, self.design, self.todo = console, design, list(todo)
        self.seconds: float | None = None
        """The time budget, once it is known."""
        self._spent: dict[int, list[float]] = {}
        self._at, self._begun, self._share = 0, time.monotonic(), 0.0
        self._bar = Progress(
            TextColumn("[bold]study"),
            BarColumn(bar_width=32),
            TextColumn("{task.percentage:>3.0f}%  ETA {task.fields[eta]}  {task.fields[says]}"),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("study", total=max(1, len(self.todo)), eta="?", says="")

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.console.is_terminal:
            self._bar.stop()

    def begin(self, number: int) -> None:
        self._at, self._begun, self._share = number, time.monotonic(), 0.0
        self._update(f"run {number + 1} of {len(self.todo)}: {self._name()}, preparing")

    def note(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def show(self, row: Mapping[str, Any], successes: Sequence[float]) -> None:
        value, _ = self.todo[self._at]
        shares = [int(row["update"]) / self.design.setting(value).updates]
        if self.seconds:
            shares.append(float(row["train_seconds"]) / self.seconds)
        self._share = min(1.0, *shares)  # a run lasts until both budgets are spent
        self._update(
            f"run {self._at + 1} of {len(self.todo)}: {self._name()}, update {row['update']}, "
            f"{row['steps_per_second']:,.0f} steps/s"
        )

    def scored(self, budget: str, update: int, samples: int, seconds: float, success: float) -> None:
        self.console.print(
            f"run {self._at + 1}/{len(self.todo)}  {self._name()}  budget {budget}: {update} updates, "
            f"{samples:,} samples in {seconds:.2f} s ({samples / seconds:,.0f} steps/s), "
            f"held-out success {100 * success:.1f}%  ETA {self._eta()}",
            highlight=False,
            soft_wrap=True,
        )

    def end(self) -> None:
        value, _ = self.todo[self._at]
        self._spent.setdefault(value, []).append(time.monotonic() - self._begun)
        self._share = 1.0

    def _name(self) -> str:
        value, seed = self.todo[self._at]
        return f"{value:,} {self.design.knob.unit}, seed {seed}"

    def _eta(self) -> str:
        left = self.remaining()
        return "?" if left is None else f"{int(left // 60)}:{int(left % 60):02d}"

    def remaining(self) -> float | None:
        """Seconds; None until something has been seen of the first run."""
        spent = time.monotonic() - self._begun
        known = [x for v in self._spent.values() for x in v]
        if not known and not self._share:
            return None
        usual = sum(known) / len(known) if known else spent / self._share

        def lasts(value: int) -> float:
            mine = self._spent.get(value)
            return sum(mine) / len(mine) if mine else usual

        return lasts(self.todo[self._at][0]) * (1 - self._share) + sum(
            lasts(v) for v, _ in self.todo[self._at + 1 :]
        )

    def _update(self, says: str) -> None:
        self._bar.update(self._task, completed=self._at + self._share, eta=self._eta(), says=says)
