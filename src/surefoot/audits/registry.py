"""All detectors: every module of this room that has a `DETECTORS` is asked, in the order of their names."""

from __future__ import annotations

import difflib
import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path

from surefoot.audits.detector import Detector
from surefoot.contract import SurefootError


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


def detector(name: str) -> Detector:
    """Returns the detector called `name`; an unknown one is refused with those that are called alike."""
    every = detectors()
    if name in every:
        return every[name]
    near = difflib.get_close_matches(name, every, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}? `surefoot audit --list` has all" if near else (
        "`surefoot audit --list` has all that there are"
    )  # fmt: skip
    raise SurefootError(f"There is no detector '{name}'; {hint}.")
