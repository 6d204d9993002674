"""Experiments: many runs of one design, judged side by side."""

from __future__ import annotations

from surefoot.experiments.learners import compare_all

__all__ = [
    "compare_all",
]
