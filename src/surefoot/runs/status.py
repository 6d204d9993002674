"""Records how a run ended: run.json must not say `running` of one that has broken off."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from surefoot.compute import PeerLost
from surefoot.contract import SurefootError
from surefoot.runs.folder import RunFolder

Figures = dict[str, float | int | None]


@contextmanager
def record_outcome(
    run: RunFolder,
    writes: bool = True,
    figures: Callable[[], Figures] | None = None,
    confirming: bool = False,
) -> Iterator[None]:
    """Records how a run ended. A lost peer and Ctrl-C leave it interrupted, whatever else goes wrong leaves
    it failed, with why; while `confirming`, either leaves it unconfirmed. The process that `writes` puts that
    down, with `figures`; all raise the reason."""
    stopped, broken = ("unconfirmed", "unconfirmed") if confirming else ("interrupted", "failed")

    def measured() -> dict[str, Figures]:
        return {"figures": figures()} if figures else {}

    try:
        yield
    except (PeerLost, KeyboardInterrupt) as error:
        if writes:
            _note(error, run, status=stopped, error=None, **measured())
        raise
    except (Exception, SystemExit) as error:  # SystemExit: another process was refused something
        marked = writes and _note(error, run, status=broken, error=_why(error), **measured())
        refusal = error if isinstance(error, SurefootError) else _memory(error)
        if refusal is None:
            raise
        raise SurefootError(
            f"{refusal} {run.path} is marked {broken}." if marked else str(refusal)
        ) from error


def _note(reason: BaseException, run: RunFolder, **changes: Any) -> bool:
    """Writes `changes` to run.json; returns whether that worked."""
    try:
        run.write_record(**changes)
    except SurefootError as unwritten:  # of a full disk, say: the reason for it all is worth more
        reason.add_note(str(unwritten))
        return False
    reason.add_note(f"{run.path} is marked {run.record.status}.")
    return True


def _memory(error: BaseException) -> SurefootError | None:
    """Returns the sentence for memory that was refused; torch has no type for that on the CPU."""
    torch = sys.modules.get("torch")  # where it was never imported, nothing of it can have been raised
    refused = isinstance(error, MemoryError) or (torch and isinstance(error, torch.OutOfMemoryError))
    if not refused and "can't allocate memory" not in str(error):
        return None
    return SurefootError(
        "There is not enough memory for this run; free some, or train with fewer --envs, a shorter --horizon "
        "or narrower --hidden."
    )


def _why(error: BaseException) -> str:
    """Returns the reason as run.json states it."""
    if isinstance(error, SystemExit):
        return "Another process of this run was refused."
    return str(error) if isinstance(error, SurefootError) else f"{type(error).__name__}: {error}"
