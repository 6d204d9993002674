"""Who follows a run while it trains: a person's terminal, or nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from surefoot.training.plan import Plan
    from surefoot.training.selection import Limits


class Watcher(Protocol):
    """Follows the training of a run, update by update."""

    def show(self, row: Mapping[str, Any], successes: Sequence[float]) -> None:
        """Receives the ledger's row of an update, and the successes on the selection half so far."""

    def note(self, text: str) -> None:
        """Receives a sentence or two for people."""


class SessionObserver(Protocol):
    """Follows a run from its plan to its report. Whoever prints, draws or logs is one."""

    def planned(self, plan: Plan) -> None:
        """Receives the plan before anything is written."""

    def note(self, text: str) -> None:
        """Receives a sentence or two for people."""

    def busy(self, text: str) -> AbstractContextManager[object]:
        """Returns a context that lasts as long as the work called `text`."""

    def training(self, limits: Limits) -> AbstractContextManager[Watcher]:
        """Returns a context that lasts as long as training, with who follows its updates."""


class Silent:
    """Follows everything and says nothing."""

    def show(self, row: Mapping[str, Any], successes: Sequence[float]) -> None:
        return None

    def planned(self, plan: Plan) -> None:
        return None

    def note(self, text: str) -> None:
        return None

    def busy(self, text: str) -> AbstractContextManager[object]:
        return nullcontext()

    def training(self, limits: Limits) -> AbstractContextManager[Watcher]:
        return nullcontext(self)


UNOBSERVED = Silent()
