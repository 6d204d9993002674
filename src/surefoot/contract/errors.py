"""The one error a user can cause: its message says what is wrong and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SurefootError(Exception):
    """Bad input or a broken artifact. The CLI prints the sentence without a traceback and exits with 2."""


def unknown(kind: str, name: str, known: Iterable[str], also: Iterable[str] = ()) -> SurefootError:
    """Returns an error for a name that is not registered, with those that are, and the nearest one where it
    is near. `also` are names too many to be listed."""
    names = sorted(known)
    near = difflib.get_close_matches(name, [*names, *also], n=1)
    hint = f"did you mean '{near[0]}'? There are" if near else "choose one of"
    return SurefootError(f"There is no {kind} '{name}'; {hint}: {', '.join(names)}.")
