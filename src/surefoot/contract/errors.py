"""The one error a user can cause: its message says what is wrong and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SurefootError(Exception):
    """Bad input or a broken artifact. The CLI prints the sentence without a traceback and exits with 2."""


def unknown(kind: str, name: str, known: Iterable[str]) -> SurefootError:
    """Returns an error for a name that is not registered, with the nearest known name suggested."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f"did you mean '{near[0]}'?" if near else "choose one of: " + ", ".join(names) + "."
    return SurefootError(f"There is no {kind} '{name}'; {hint}")
