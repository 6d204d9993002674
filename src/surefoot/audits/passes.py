"""Choosing which evaluations of a long training are looked at row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from surefoot.audits.case import Case

T = TypeVar("T")
MOST = 10
"""A training of minutes has a hundred evaluations, and each takes 60 ms to be counted again. What is wrong in
one of twenty is among ten that nobody knew beforehand with 40%, in one of five with 89%; what is wrong in all
of them, with certainty. Which one was chosen is counted over all."""


def sampled(case: Case, of: Sequence[T], always: Sequence[T] = ()) -> list[T]:
    """Returns the first, the last, those of `always` and others by the audit's seed, in order; all where
    there are few."""
    if len(of) <= MOST:
        return list(of)
    kept = {0, len(of) - 1, *(of.index(x) for x in always if x in of)}
    for k in case.numbers("passes").permutation(len(of)):
        if len(kept) >= MOST:
            break
        kept.add(int(k))
    return [of[k] for k in sorted(kept)]
