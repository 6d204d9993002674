"""What can be followed of a study: its design, every run, every score."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from surefoot.experiments.studies.design import Design
from surefoot.experiments.studies.record import StudyRecord
from surefoot.training import Observer, RobotPlan


class RunsObserver(Observer, Protocol):
    """Follows the runs that are left to do."""

    def begin(self, number: int) -> None:
        """Shows which of them begins, from 0 on."""

    def time_budget(self, seconds: float) -> None:
        """Shows the time budget, which the first run sets where nobody did."""

    def scored(self, budget: str, update: int, samples: int, seconds: float, success: float) -> None:
        """Shows the success of the run that has spent a budget, and what it took."""

    def end(self) -> None:
        """Shows that the run is done."""


class StudyObserver(Protocol):
    """Follows a study from its design to its last run."""

    def designed(self, record: StudyRecord, plan: RobotPlan) -> None:
        """Shows the study and the plan of its first run, before anything is written."""

    def note(self, text: str) -> None:
        """Shows a line that a person should know."""

    def busy(self, text: str) -> AbstractContextManager[object]:
        """Returns a context that lasts as long as the work called `text`."""

    def runs(self, design: Design, todo: Sequence[tuple[int, int]]) -> AbstractContextManager[RunsObserver]:
        """Returns a context that lasts as long as the runs `todo`, (value, seed), with who follows them."""
