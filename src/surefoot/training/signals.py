"""How Ctrl-C, SIGTERM and SIGHUP (the terminal is gone) stop a run: between two updates, so that nothing is
lost; in its closing evaluation, at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(KeyboardInterrupt):
    """Raised where a signal came; `received` says which."""

    def __init__(self, received: signal.Signals) -> None:
        super().__init__(received.name)
        self.received = received


@contextmanager
def stop_signals(stop: Callable[[signal.Signals], None], abort: bool = True) -> Iterator[None]:
    """Calls `stop` at the first signal within the block, which goes on to the end of its update. A
    second one aborts with KeyboardInterrupt; without `abort` it changes nothing. Python tells
    signals to the main thread alone: in another one the block goes on to its end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received = False

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal received
        if received and abort:
            raise KeyboardInterrupt
        if not received:
            received = True
            stop(signal.Signals(number))

    with _handled(handle):
        yield


@contextmanager
def abort_signals() -> Iterator[None]:
    """Raises `Stopped` at a signal within the block."""

    def handle(number: int, _: FrameType | None) -> None:
        raise Stopped(signal.Signals(number))

    with _handled(handle):
        yield


@contextmanager
def _handled(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handles the signals that end a run. A SIGHUP that is ignored stays so: that is what nohup means."""
    if threading.current_thread() is not threading.main_thread():  # only there can signals be handled
        yield
        return
    kinds = [signal.SIGINT, signal.SIGTERM]
    kinds += [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else []
    before = {s: signal.signal(s, handle) for s in kinds}
    try:
        yield
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
