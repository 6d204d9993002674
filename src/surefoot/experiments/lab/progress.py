"""What can be followed of a lab: which piece of work begins, when all will be done, what came of a run."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from surefoot.experiments.lab.design import LabDesign
from surefoot.sessions import TrainedRun
from surefoot.training import RobotPlan, SessionObserver

SHARES = {"training": 1.0, "panel": 0.15, "record": 0.15}
"""What a piece of work is taken to last, of a training, until one of its kind has been seen."""

LEAST_S = 0.5
"""What takes less was there already, and says nothing about what is not."""


@dataclass(frozen=True)
class Stage:
    """Names a piece of work that begins."""

    number: int
    count: int
    """How many there are in all."""
    says: str
    spent_s: float
    """Seconds since the lab began."""
    left_s: float | None
    """Seconds until all is done; None before anything was."""


class LabObserver(SessionObserver, Protocol):
    """Follows a lab."""

    def lab_begins(self, path: Path, design: LabDesign, plan: RobotPlan, runs: int) -> None:
        """Shows the folder and the design, the plan of the first of `runs` runs, before any begins."""

    def stage_begins(self, stage: Stage) -> None:
        """Shows the piece of work that begins."""

    def run_ended(self, trained: TrainedRun) -> None:
        """Shows what came of a run."""


class Stages:
    """Announces pieces of work. Those of one kind are taken to last as long as each other."""

    def __init__(self, announce: Callable[[Stage], None], kinds: Sequence[str]) -> None:
        self.announce, self.kinds = announce, list(kinds)
        self._spent: dict[str, list[float]] = defaultdict(list)
        self._begun, self._at = time.monotonic(), 0

    @contextmanager
    def stage(self, says: str) -> Iterator[None]:
        """Lasts as long as the next piece of work."""
        kind, begun = self.kinds[self._at], time.monotonic()
        left = self.remaining()
        self._at += 1
        self.announce(Stage(self._at, len(self.kinds), says, begun - self._begun, left))
        yield
        spent = time.monotonic() - begun
        if spent > LEAST_S:
            self._spent[kind].append(spent)

    def remaining(self) -> float | None:
        """Returns the seconds until all is done; None before anything was."""
        usual = {k: sum(v) / len(v) for k, v in self._spent.items() if v}
        if not usual:
            return None
        training = max(seconds / SHARES[k] for k, seconds in usual.items())
        return sum(usual.get(k, SHARES[k] * training) for k in self.kinds[self._at :])
