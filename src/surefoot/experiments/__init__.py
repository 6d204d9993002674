"""Experiments: many runs of one design, judged side by side."""

from __future__ import annotations

from surefoot.experiments.learners import LearnersOptions, compare_all

__all__ = [
    "LearnersOptions",
    "compare_all",
]
