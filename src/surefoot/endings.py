"""A run that does not come to its end says so: run.json must not say `running` of what has broken off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from surefoot.contract import SurefootError
from surefoot.evidence import RunFolder
from surefoot.fellows import Lost

Figures = dict[str, float | int | None]


@contextmanager
def noted(run: RunFolder, lead: bool = True, figures: Callable[[], Figures] = dict) -> Iterator[None]:
    """Fellows that are lost and Ctrl-C leave a run interrupted; whatever else goes wrong leaves it failed,
    with why. The lead writes that down, with `figures`, and the reason travels on in every process."""
    try:
        yield
    except (Lost, KeyboardInterrupt) as error:
        _note(error, run, lead, status="interrupted", figures=figures())
        raise
    except (Exception, SystemExit) as error:  # SystemExit: what is refused to a fellow
        failed = _note(error, run, lead, status="failed", error=_why(error), figures=figures())
        if isinstance(error, SurefootError) and failed:
            raise SurefootError(f"{error} {run.path} is marked failed.") from error
        raise


def _note(reason: BaseException, run: RunFolder, lead: bool, **changes: Any) -> bool:
    """Whether it is in run.json now."""
    if not lead:
        return False
    try:
        run.write_record(**changes)
    except SurefootError as unwritten:  # of a full disk, say: the reason for it all is worth more
        reason.add_note(str(unwritten))
        return False
    reason.add_note(f"{run.path} is marked {run.record.status}.")
    return True


def _why(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return "Another process of this run was refused."
    return str(error) if isinstance(error, SurefootError) else f"{type(error).__name__}: {error}"
