"""How far an evaluation is: which column is run, how much of it is done, how fast it goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class EvaluationProgress:
    """Says how far an evaluation is."""

    column: str
    """The pass that is run."""
    number: int
    """The number of the pass, from 1 on."""
    columns: int
    share: float
    """How much of this pass is done, 0 to 1."""
    steps: int
    """Control steps simulated so far, of all passes."""
    seconds: float
    """Seconds since the evaluation began."""

    @property
    def done(self) -> float:
        """Returns how much of all passes is done, 0 to 1; they are taken to last as long as each other."""
        return (self.number - 1 + self.share) / self.columns

    @property
    def left_s(self) -> float | None:
        """Returns the seconds that are left; None at the beginning."""
        return self.seconds * (1 - self.done) / self.done if self.done > 0 else None


Watch = Callable[[EvaluationProgress], None]
"""Is told how far an evaluation is, at every control step."""


def unwatched(progress: EvaluationProgress) -> None:
    """Shows nobody how far an evaluation is."""


class PassCounter:
    """Counts the passes of one evaluation and their steps, and tells `watch`."""

    def __init__(self, watch: Watch, columns: int) -> None:
        self._watch, self._columns = watch, columns
        self._column, self._number, self._steps, self._begun = "", 0, 0, time.perf_counter()
        self._before, self._weight = 0.0, 1.0

    def begin(self, column: str) -> None:
        """Says that the next pass begins."""
        self._column, self._number = column, self._number + 1
        self.batch(0, 1)
        self._tell(0.0)

    def batch(self, number: int, count: int) -> None:
        """Says that batch `number` (from 0) of `count` begins, which a pass may consist of."""
        self._before, self._weight = number / count, 1 / count

    def stepped(self, environments: int, share: float) -> None:
        """Says that a control step of the batch is done, and which share of all is."""
        self._steps += environments
        self._tell(self._before + self._weight * share)

    def _tell(self, share: float) -> None:
        spent = time.perf_counter() - self._begun
        self._watch(EvaluationProgress(self._column, self._number, self._columns, share, self._steps, spent))
