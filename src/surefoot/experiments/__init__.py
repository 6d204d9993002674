"""Experiments: many runs of one design, judged side by side."""

from __future__ import annotations

from surefoot.experiments.learners import LearnersOptions, compare_all
from surefoot.experiments.promotion import promote_fresh

__all__ = [
    "LearnersOptions",
    "compare_all",
    "promote_fresh",
]
