"""What a run writes down is written by another thread, in the order in which it was asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Queue
from types import TracebackType
from typing import Any, Self

WAITING = 64
"""Pieces of work that may wait; who asks for more waits with them, so that memory stays bounded."""


class Writer:
    """One thread. The first error ends its work and is raised to whoever asks for more, or waits."""

    def __init__(self) -> None:
        self._work: Queue[Callable[[], Any] | None] = Queue(WAITING)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def do(self, work: Callable[[], Any]) -> None:
        """Puts `work` behind all that was asked for before. What it uses must not change any more."""
        self._check()
        self._work.put(work)

    def wait(self) -> None:
        """Until everything asked for is done."""
        self._work.join()
        self._check()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What was asked for is done even if the caller has failed; then its own error is the one raised."""
        self._work.put(None)
        self._thread.join()
        if error is None:
            self._check()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                if self._error is None:
                    work()
            except BaseException as error:  # raised again in the thread that asked
                self._error = error
            finally:
                self._work.task_done()
        self._work.task_done()
