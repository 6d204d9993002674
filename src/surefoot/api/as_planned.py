"""Follows a run that was planned before: it is the same plan, or nothing is written."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surefoot.api.settings import PlanFile
    from surefoot.evaluation import Watch
    from surefoot.training import Limits, Observer, Plan, SessionObserver


class AsPlanned:
    """Passes on what it is told, once the plan is the one that was saved; another is refused before anything
    is written."""

    def __init__(self, file: PlanFile, observer: SessionObserver) -> None:
        self.file, self.observer = file, observer

    def planned(self, plan: Plan) -> None:
        self.file.check(plan)
        self.observer.planned(plan)

    def note(self, text: str) -> None:
        self.observer.note(text)

    def busy(self, text: str) -> AbstractContextManager[object]:
        return self.observer.busy(text)

    def training(self, limits: Limits) -> AbstractContextManager[Observer]:
        return self.observer.training(limits)

    def evaluating(self, what: str) -> AbstractContextManager[Watch]:
        return self.observer.evaluating(what)
