"""What a person sees while `train` works: a bar in a terminal or a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from surefoot.printing import say

if TYPE_CHECKING:
    from surefoot.api.settings import PlanFile
    from surefoot.training import Limits, Observer, Plan, SessionObserver


class Bars:
    """Follows a run from its plan to its report, with a bar while it trains."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def planned(self, plan: Plan) -> None:
        a = plan.accounting
        self.note(f"{plan.task_name}: {a.rollout_shape[1]} environments on {plan.engine}, {plan.device}")

    def note(self, text: str) -> None:
        say(self.console, text)

    def busy(self, text: str) -> AbstractContextManager[object]:
        return self.console.status(text)

    @contextmanager
    def evaluating(self, what: str) -> Iterator[Callable[[Any], None]]:
        """Shows how far an evaluation is, as it tells."""
        with Progress(TextColumn(what), BarColumn(), TimeElapsedColumn(), console=self.console) as bar:
            task = bar.add_task("", total=1.0)
            yield lambda progress: bar.update(task, completed=progress.done)

    def training(self, limits: Limits) -> AbstractContextManager[Observer]:
        return Bar(self.console, limits)


class Bar:
    """Shows the share of the nearest limit that is used up, and what the last update said."""

    def __init__(self, console: Console, limits: Limits) -> None:
        self.limits = limits
        columns = (TextColumn("training"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        self._bar = Progress(*columns, console=console)
        self._task = self._bar.add_task("", total=1.0)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def note(self, text: str) -> None:
        say(self._bar.console, text)

    def evaluating(self, what: str) -> AbstractContextManager[Callable[[Any], None]]:
        """Shows nothing more: the next update says what came of it."""
        return nullcontext(lambda progress: None)

    def show(self, row: Mapping[str, Any], successes: Sequence[float]) -> None:
        shares = [0.0]
        if self.limits.updates:
            shares.append(int(row["update"]) / self.limits.updates)
        if self.limits.minutes:
            shares.append(float(row["train_seconds"]) / (60 * self.limits.minutes))
        held_out = f"held-out success {successes[-1]:.1%}" if successes else "not yet evaluated"
        says = f"update {row['update']:,}, {row['steps_per_second']:,.0f} steps/s, {held_out}"
        self._bar.update(self._task, completed=min(1.0, max(shares)), description=says)


class AsPlanned:
    """Passes on all that it is told, once the plan is the one that was saved; another is refused before
    anything is written."""

    def __init__(self, file: PlanFile, observer: SessionObserver) -> None:
        self._file, self._observer = file, observer

    def planned(self, plan: Plan) -> None:
        self._file.check(plan)
        self._observer.planned(plan)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._observer, name)
