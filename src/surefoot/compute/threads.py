"""Shares work that releases the interpreter's lock among threads."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence

SMALLEST = 8
"""The last chunks are as small as a thread's part of all work divided by this."""
SPIN_S = 2e-4
"""How long the first thread to finish polls for the others before it sleeps: waking up takes a third of
this."""

Chunk = Callable[[], object]


def chunk_sizes(count: int, threads: int) -> list[int]:
    """Splits `count` into sizes, large ones first and small ones last, so that threads which began late or
    whose chunk took long still end together (OpenMP calls this a guided schedule)."""
    if threads == 1:
        return [count]
    out: list[int] = []
    least = max(1, count // (SMALLEST * threads))
    while (left := count - sum(out)) > 0:
        out.append(min(left, max(least, round(left / (1.5 * threads)))))
    return out


class ThreadTeam:
    """The calling thread and `threads - 1` workers, which end when the team is closed or collected.

    Any thread may take any chunk, so all must compute alike: whether denormals are flushed is inherited from
    the thread that makes the team, and must not be changed afterwards (`prepare_torch` comes first).
    """

    def __init__(self, threads: int) -> None:
        self._workers = [_Worker() for _ in range(threads - 1)]
        self._stop = weakref.finalize(self, _stop_all, self._workers)

    def __call__(self, chunks: Sequence[Chunk]) -> None:
        """Runs all chunks; a thread that is free takes the next. What a chunk raises is raised here."""
        left = iter(chunks)
        for worker in self._workers:
            worker.begin(left)
        try:
            _run_all(left)
        finally:
            errors = [worker.wait() for worker in self._workers]
        for error in errors:
            if error is not None:
                raise error

    def close(self) -> None:
        """Ends the workers' threads."""
        self._stop()
        for worker in self._workers:
            worker.thread.join()
        self._workers = []


class _Worker:
    """A thread that sleeps until it is given chunks, and says when none are left."""

    def __init__(self) -> None:
        self._wanted, self._done = threading.Lock(), threading.Lock()
        self._chunks: Iterator[Chunk] | None = None
        self._error: BaseException | None = None
        self._wanted.acquire()
        self._done.acquire()
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def begin(self, chunks: Iterator[Chunk]) -> None:
        self._chunks, self._error = chunks, None
        self._wanted.release()

    def wait(self) -> BaseException | None:
        """Waits until no chunk is left; returns what a chunk raised, if one did."""
        end = time.perf_counter() + SPIN_S
        while not self._done.acquire(blocking=False):
            if time.perf_counter() > end:
                self._done.acquire()
                break
            time.sleep(0)
        return self._error

    def stop(self) -> None:
        """Lets its thread end."""
        self._chunks = None
        self._wanted.release()

    def _loop(self) -> None:
        while True:
            self._wanted.acquire()
            if self._chunks is None:
                return
            try:
                _run_all(self._chunks)
            except BaseException as error:  # raised in the thread that called the team
                self._error = error
            self._done.release()


def _stop_all(workers: list[_Worker]) -> None:
    for worker in workers:
        worker.stop()


def _run_all(chunks: Iterator[Chunk]) -> None:
    for chunk in chunks:
        chunk()
