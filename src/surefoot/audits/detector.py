"""What a detector is: one question about a run, its threshold with its source, and what an answer means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from surefoot.contract import SurefootError
from surefoot.runs import Kind

if TYPE_CHECKING:
    from surefoot.audits.case import Case

CAUSES = (
    *("batch", "randomisation", "reward", "reset", "termination", "observation", "action", "physics"),
    *("learning", "normaliser", "held-out", "panel-plant", "perturbation", "metric", "statistics"),
    *("bookkeeping", "behaviour"),
)
"""Classes of causes that findings name."""
SCREEN, CONFIRM = 0.01, 1e-4
"""Chances in a clean run below which a statistical probe is repeated with fresh keys, and below which the
repetition makes a finding."""

Needs = Literal["confirmed", "robot", "ppo", "ledger", "episodes", "history"]


@dataclass(frozen=True)
class Found:
    """Something that speaks against a run."""

    statement: str
    p: float | None = None
    """The chance of it in a clean run; None where it is no matter of chance."""
    cause: str = ""
    """Class of cause, where it is another than the detector's own."""


class NotApplicable(SurefootError):
    """Raised by a detector that has nothing to look at in a run: the reason."""


class Misshapen(SurefootError):
    """Raised where something that a run recorded, or that its own code gave back, has another form than its
    contract, recipe and robot make it: a column or a field is missing, a length or a kind of number is
    another. Nobody has to be able to look any further: it is a finding."""

    def __init__(self, statement: str, cause: str = "") -> None:
        super().__init__(statement)
        self.found = Found(statement, cause=cause)


@dataclass(frozen=True)
class Detector:
    """One question. `look` returns what it found, nothing where all is well; statistical ones state their p
    and are asked again, with fresh keys, before it counts."""

    name: str
    kind: Kind
    cause: str
    asks: str
    """The question, in one sentence."""
    statistic: str
    threshold: str
    """With its source: a test with its error rate, or the rounding it allows for."""
    means: str
    """What a finding means."""
    remedy: str
    """What to do about it."""
    look: Callable[[Case], Sequence[Found]]
    needs: tuple[Needs, ...] = ()
    short: bool = False
    """Whether it is part of the short form at the end of training."""
