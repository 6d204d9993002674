"""Names the detectors there are, in the order in which they are asked."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from surefoot.audits.detector import Detector

MODULES: tuple[str, ...] = ("first_ratio", "reward_terms")
"""Modules of this room that have detectors: `DETECTORS`, a tuple."""


@cache
def detectors() -> dict[str, Detector]:
    """Returns every detector by name."""
    found = [d for m in MODULES for d in import_module(f"surefoot.audits.{m}").DETECTORS]
    named = {d.name: d for d in found}
    assert len(named) == len(found), "two detectors have one name"
    return named
