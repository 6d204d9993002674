"""Threads that share out work which releases the interpreter's lock."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence

TAIL = 8
"""The last shares are as small as a thread's part of all work over this."""
PATIENCE_S = 2e-4
"""How long who is done first looks for the others before it sleeps: being woken takes a third of this."""

Piece = Callable[[], object]


def chunk_sizes(count: int, threads: int) -> list[int]:
    """Sizes that add up to `count`: large ones first, small ones last, so that threads which began late or
    whose share took long still end together."""
    if threads == 1:
        return [count]
    out: list[int] = []
    least = max(1, count // (TAIL * threads))
    while (left := count - sum(out)) > 0:
        out.append(min(left, max(least, round(left / (1.5 * threads)))))
    return out


class ThreadTeam:
    """The calling thread and `threads - 1` others, who leave when the crew is closed or forgotten.

    Nobody knows who takes which piece, so all must compute alike: whether denormals are flushed is inherited
    from the thread that makes the crew, and must not be changed afterwards (`prepare_torch` comes first).
    """

    def __init__(self, threads: int) -> None:
        self._others = [_Worker() for _ in range(threads - 1)]
        self._dismissal = weakref.finalize(self, _dismiss, self._others)

    def __call__(self, pieces: Sequence[Piece]) -> None:
        """Who is free takes the next piece; returns when all are done. What a piece raises is raised here."""
        left = iter(pieces)
        for hand in self._others:
            hand.begin(left)
        try:
            _work(left)
        finally:
            troubles = [hand.wait() for hand in self._others]
        for trouble in troubles:
            if trouble is not None:
                raise trouble

    def close(self) -> None:
        self._dismissal()
        for hand in self._others:
            hand.thread.join()
        self._others = []


class _Worker:
    """One of the others: sleeps until it is given pieces, and says when it has run out of them."""

    def __init__(self) -> None:
        self._wanted, self._done = threading.Lock(), threading.Lock()
        self._pieces: Iterator[Piece] | None = None
        self._trouble: BaseException | None = None
        self._wanted.acquire()
        self._done.acquire()
        self.thread = threading.Thread(target=self._live, daemon=True)
        self.thread.start()

    def begin(self, pieces: Iterator[Piece]) -> None:
        self._pieces, self._trouble = pieces, None
        self._wanted.release()

    def wait(self) -> BaseException | None:
        """What went wrong, if anything did."""
        end = time.perf_counter() + PATIENCE_S
        while not self._done.acquire(blocking=False):
            if time.perf_counter() > end:
                self._done.acquire()
                break
            time.sleep(0)
        return self._trouble

    def leave(self) -> None:
        """Its thread ends."""
        self._pieces = None
        self._wanted.release()

    def _live(self) -> None:
        while True:
            self._wanted.acquire()
            if self._pieces is None:
                return
            try:
                _work(self._pieces)
            except BaseException as trouble:  # raised where the work was asked for
                self._trouble = trouble
            self._done.release()


def _dismiss(hands: list[_Worker]) -> None:
    for hand in hands:
        hand.leave()


def _work(pieces: Iterator[Piece]) -> None:
    for piece in pieces:
        piece()
