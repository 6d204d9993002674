"""What a person sees while runs train: live panels on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from surefoot.printing.terminal import say

if TYPE_CHECKING:
    from surefoot.evaluation import EvaluationProgress, Watch
    from surefoot.experiments.studies import Design
    from surefoot.training import Limits, Plan

PLAIN_EVERY_S = 10.0
REFRESH_S = 0.1


class ConsoleObserver:
    """Prints what a run does, from its plan to its report; `evaluating` is all that an evaluation needs."""

    def __init__(self, console: Console, with_plan: bool = True) -> None:
        self.console, self.with_plan = console, with_plan

    def planned(self, plan: Plan) -> None:
        from surefoot.printing.plan_text import print_plan_briefly

        if self.with_plan:
            print_plan_briefly(self.console, plan)

    def note(self, text: str) -> None:
        """Prints a line that stays above the panel, broken between words."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=not self.console.is_terminal)

    def evaluating(self, what: str) -> AbstractContextManager[Watch]:
        """Shows how far the evaluation called `what` is: a bar on a terminal, lines elsewhere."""
        return EvaluationDisplay(self.console, what).shown()

    def busy(self, text: str) -> AbstractContextManager[object]:
        return self.console.status(text)

    def training(self, limits: Limits) -> Display:
        return Display(self.console, limits)


class EvaluationDisplay:
    """Shows how far an evaluation is: a bar on a terminal, a line every ten seconds elsewhere."""

    def __init__(self, console: Console, what: str) -> None:
        self.console, self.what = console, what
        self.bar = Progress(
            TextColumn("[bold]{task.fields[what]}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%  {task.fields[says]}"),
            console=console,
            transient=True,
        )
        self._task = self.bar.add_task("evaluate", total=1.0, what=what, says="")
        self._next = 0.0

    @contextmanager
    def shown(self) -> Iterator[Watch]:
        """Shows the bar for as long as the block lasts."""
        self._next = 0.0 if self.console.is_terminal else time.monotonic() + PLAIN_EVERY_S
        if self.console.is_terminal:
            self.bar.start()
        try:
            yield self.show
        finally:
            if self.console.is_terminal:
                self.bar.stop()

    def show(self, p: EvaluationProgress) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        if self.console.is_terminal:
            self._next = now + REFRESH_S
            self.update(p)
        else:
            self._next = now + PLAIN_EVERY_S
            say(self.console, f"{self.what}: {100 * p.done:.0f}%, {evaluation_text(p)}")

    def update(self, p: EvaluationProgress) -> None:
        """Moves the bar, which is shown by whoever has it."""
        self.bar.update(self._task, completed=p.done, says=evaluation_text(p))


def evaluation_text(p: EvaluationProgress) -> str:
    """Says which column is run, how fast, and when all will be done."""
    speed = f"{p.steps / p.seconds:,.0f} steps/s" if p.seconds > 0 else "- steps/s"
    left = "?" if p.left_s is None else _clock(p.left_s)
    return f"column {p.number} of {p.columns} ({p.column})  {speed}  ETA {left}"


def _clock(seconds: float) -> str:
    return f"{int(seconds // 60)}:{int(seconds % 60):02d}"


class Display:
    """Shows ledger rows as they come. `limits` are the run's, for the bar and the ETA."""

    def __init__(self, console: Console, limits: Limits) -> None:
        self.console, self.limits = console, limits
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
        self._shown: Group | None = None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            with suppress(OSError):  # the terminal is gone; the run is not to fail for that
                self._live.stop()

    def note(self, text: str) -> None:
        """Prints a line that stays above the panel, broken between words."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=not self.console.is_terminal)

    @contextmanager
    def evaluating(self, what: str) -> Iterator[Watch]:
        """Shows a second bar below the first, for as long as the block lasts; nothing elsewhere, where the
        row of the update says what came of it."""
        scored, until = EvaluationDisplay(self.console, what), 0.0

        def watch(p: EvaluationProgress) -> None:
            nonlocal until
            if self._live and time.monotonic() > until:
                until = time.monotonic() + REFRESH_S
                scored.update(p)
                self._draw(Group(*(self._shown.renderables if self._shown else ()), scored.bar))

        try:
            yield watch
        finally:
            if self._live and self._shown:
                self._draw(self._shown)

    def _draw(self, group: Group) -> None:
        try:
            if self._live:
                self._live.update(group)
        except OSError:  # the terminal is gone, and SIGHUP has come or will; the run ends as that says
            self._live = None

    def show(self, row: Mapping[str, Any], successes: Sequence[float]) -> None:
        for k, v in row.items():
            if k.startswith("reset."):
                self._resets[k[6:]] = self._resets.get(k[6:], 0) + int(v)
        share, eta = self._remaining(row)
        if self._live:
            self._bar.update(self._task, completed=share, eta=eta)
            self._shown = Group(self._bar, self._table(row, successes))
            self._draw(self._shown)
        elif "evaluation.success" in row or time.monotonic() - self._last > PLAIN_EVERY_S:
            self._last = time.monotonic()
            say(self.console, self._line(row, successes, eta))

    def _remaining(self, row: Mapping[str, Any]) -> tuple[float, str]:
        """Returns the share of the nearest limit that is used up, and the time until it is reached."""
        spent, shares = float(row["train_seconds"]), [0.0]
        if self.limits.updates:
            shares.append(int(row["update"]) / self.limits.updates)
        if self.limits.minutes:
            shares.append(spent / (60 * self.limits.minutes))
        share = min(1.0, max(shares))
        if share <= 0:
            return 0.0, "?"
        left = spent * (1 - share) / share
        early = " or earlier" if self.limits.until else ""
        return share, f"{_clock(left)}{early}"

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
            *([("fleet", fleet_text(row))] if "fleet.issued" in row else []),
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
            + (f"  fleet: {fleet_text(row)}" if "fleet.issued" in row else "")
        )


def fleet_text(row: Mapping[str, Any]) -> str:
    """Says of a row which share of a fleet's actors are at work, for how many parts of the environments where
    there are more of those, how old what they brought was, and whether the learner waits for them."""
    parts = row.get("fleet.parts", row["fleet.actors"])
    having = "" if parts == row["fleet.actors"] else f" for {parts} parts"
    return (
        f"{row['fleet.alive']} of {row['fleet.actors']} actors at work{having}, "
        f"lag {row['fleet.lag.mean']:.1f} (most {row['fleet.lag.max']:.0f}), "
        f"learner at work {row['fleet.learner.utilisation']:.0%} of the time, {bytes_text(row)}"
    )


def bytes_text(row: Mapping[str, Any]) -> str:
    """Says of a row how large a transition of a fleet was on its way."""
    return f"{row['fleet.bytes_per_transition']:,.0f} bytes per transition ({row.get('fleet.codec', 'fp32')})"


class StudyProgress:
    """Shows a study as a bar on a terminal, as lines elsewhere. Runs of one value are taken to last as long
    as each other."""

    def __init__(self, console: Console, design: Design, todo: Sequence[tuple[int, int]]) -> None:
        self.console, self.design, self.todo = console, design, list(todo)
        self._seconds: float | None = None
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

    def note(self, text: str) -> None:
        """Prints a line that stays above the panel."""
        say(self.console, text)

    def evaluating(self, what: str) -> AbstractContextManager[Watch]:
        """Shows nothing more: a study's runs are scored at its budgets alone."""
        from surefoot.evaluation import unwatched

        return nullcontext(unwatched)

    def time_budget(self, seconds: float) -> None:
        self._seconds = seconds

    def begin(self, number: int) -> None:
        self._at, self._begun, self._share = number, time.monotonic(), 0.0
        self._update(f"run {number + 1} of {len(self.todo)}: {self._name()}, preparing")

    def show(self, row: Mapping[str, Any], successes: Sequence[float]) -> None:
        value, _ = self.todo[self._at]
        shares = [int(row["update"]) / self.design.setting(value).updates]
        if self._seconds:
            shares.append(float(row["train_seconds"]) / self._seconds)
        self._share = min(1.0, *shares)  # a run lasts until both budgets are spent
        self._update(
            f"run {self._at + 1} of {len(self.todo)}: {self._name()}, update {row['update']}, "
            f"{row['steps_per_second']:,.0f} steps/s"
        )

    def scored(self, budget: str, update: int, samples: int, seconds: float, success: float) -> None:
        say(
            self.console,
            f"run {self._at + 1}/{len(self.todo)}  {self._name()}  budget {budget}: {update} updates, "
            f"{samples:,} samples in {seconds:.2f} s ({samples / seconds:,.0f} steps/s), "
            f"held-out success {100 * success:.1f}%  ETA {self._eta()}",
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
        return "?" if left is None else _clock(left)

    def remaining(self) -> float | None:
        """Returns the seconds that are left; None until something has been seen of the first run."""
        spent = time.monotonic() - self._begun
        known = [x for v in self._spent.values() for x in v]
        if not known and not self._share:
            return None
        usual = sum(known) / len(known) if known else spent / self._share

        def lasts(value: int) -> float:
            seconds = self._spent.get(value)
            return sum(seconds) / len(seconds) if seconds else usual

        return lasts(self.todo[self._at][0]) * (1 - self._share) + sum(
            lasts(v) for v, _ in self.todo[self._at + 1 :]
        )

    def _update(self, says: str) -> None:
        self._bar.update(self._task, completed=self._at + self._share, eta=self._eta(), says=says)
