"""All detectors: every module of this room that has a `DETECTORS` is asked, in the order of their names."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path

from surefoot.audits.detector import Detector


@cache
def detectors() -> dict[str, Detector]:
    """Returns all detectors by name."""
    out: dict[str, Detector] = {}
    for module in sorted(m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)])):
        for detector in getattr(import_module(f"surefoot.audits.{module}"), "DETECTORS", ()):
            if detector.name in out:
                raise ValueError(f"Two detectors are called {detector.name!r}.")
            out[detector.name] = detector
    return out
