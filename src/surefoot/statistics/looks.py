"""Sequential confirmation: a list of scenarios is looked at a few times as it grows, and no further once the
verdict is decided.

Every look has the interval of 1 - 0.05 / looks (Bonferroni), so that all of them together hold with 95%
whenever one stops: repeated confidence intervals (Jennison and Turnbull 1989) in their simplest form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from surefoot.statistics.rates import Rate, rate
from surefoot.statistics.verdict import RELIABLE_AT

LOOKS = (1, 2, 4, 8)
"""Lengths of the looks, in lengths of the panel as it ships, so that each ends at a whole round of strata."""
ERROR = 0.05
"""The chance that any of the looks' intervals misses."""
CONFIDENCE = 1 - ERROR
LOOK_CONFIDENCE = 1 - ERROR / len(LOOKS)
"""The confidence of each look's interval."""


def confidence_of(rows: Mapping[str, np.ndarray]) -> float:
    """Returns the confidence that intervals of these rows have: higher where they were looked at as they
    came."""
    looked = "look" in rows and bool((np.asarray(rows["look"]) > 0).any())
    return LOOK_CONFIDENCE if looked else CONFIDENCE


@dataclass(frozen=True)
class Look:
    """One look: its number from 1, the scenarios so far, their success with its interval, and whether that
    decides between reliable and not."""

    number: int
    success: Rate

    @property
    def decided(self) -> bool:
        return self.success.low >= RELIABLE_AT or self.success.high < RELIABLE_AT

    @property
    def last(self) -> bool:
        return self.decided or self.number == len(LOOKS)


def look_at(success: np.ndarray, number: int) -> Look:
    """Looks at what was played so far, a value for each independent scenario."""
    return Look(number, rate(success, np.arange(len(success)), LOOK_CONFIDENCE))
