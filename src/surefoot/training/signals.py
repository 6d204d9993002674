"""How Ctrl-C and SIGTERM stop a run: between two updates, so that nothing is lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_signals(stop: Callable[[signal.Signals], None], abort: bool = True) -> Iterator[None]:
    """Calls `stop` at the first Ctrl-C or SIGTERM within the block, which goes on to the end of its update. A
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

    before = {s: signal.signal(s, handle) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
