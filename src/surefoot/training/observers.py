"""Says who follows a run: a person's terminal, or nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

from surefoot.evaluation import Watch, unwatched

if TYPE_CHECKING:
    from surefoot.training.plan import Plan
    from surefoot.training.selection import Limits


class EvaluationObserver(Protocol):
    """Follows evaluations."""

    def note(self, text: str) -> None:
        """Shows a line that a person should know about the run."""

    def evaluating(self, what: str) -> AbstractContextManager[Watch]:
        """Returns a context that lasts as long as the evaluation called `what`, with who is told how far it
        is."""


class Observer(EvaluationObserver, Protocol):
    """Follows a run from update to update."""

    def show(self, row: Mapping[str, Any], successes: Sequence[float]) -> None:
        """Shows an update: its `row` of the ledger, and all `successes` on the selection half so far."""


class SessionObserver(EvaluationObserver, Protocol):
    """Follows a run from its plan to its report."""

    def planned(self, plan: Plan) -> None:
        """Shows the plan, before anything is written."""

    def busy(self, text: str) -> AbstractContextManager[object]:
        """Returns a context that lasts as long as the work called `text`."""

    def training(self, limits: Limits) -> AbstractContextManager[Observer]:
        """Returns a context that lasts as long as training, with the observer of its updates."""


class Silent:
    """Follows a run and shows nothing."""

    def show(self, row: Mapping[str, Any], successes: Sequence[float]) -> None:
        return None

    def planned(self, plan: Plan) -> None:
        return None

    def note(self, text: str) -> None:
        return None

    def busy(self, text: str) -> AbstractContextManager[object]:
        return nullcontext()

    def training(self, limits: Limits) -> AbstractContextManager[Observer]:
        return nullcontext(self)

    def evaluating(self, what: str) -> AbstractContextManager[Watch]:
        return nullcontext(unwatched)


UNOBSERVED = Silent()
