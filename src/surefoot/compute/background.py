"""Writes a run's files in another thread, in the order in which that was asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Queue
from types import TracebackType
from typing import Any, Self

QUEUE_SIZE = 64
"""How many pieces of work may wait; asking for more blocks, so that memory stays bounded."""


class Writer:
    """Does work in one thread. The first error ends it, and is raised at the next `do` or `wait`."""

    def __init__(self) -> None:
        self._work: Queue[Callable[[], Any] | None] = Queue(QUEUE_SIZE)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def do(self, work: Callable[[], Any]) -> None:
        """Queues `work` behind everything asked for before. What it uses must not change any more."""
        self._check()
        self._work.put(work)

    def wait(self) -> None:
        """Blocks until everything asked for is done."""
        self._work.join()
        self._check()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finishes what was asked for even if the caller has failed; then the caller's error is raised."""
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
            except BaseException as error:  # raised again in the thread that asked for it
                self._error = error
            finally:
                self._work.task_done()
        self._work.task_done()
