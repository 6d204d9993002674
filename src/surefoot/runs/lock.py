"""The lock of a run folder: one process trains a run, and anybody can ask whether it still lives.

The lock is the kernel's (flock) and goes with its process, whatever ends that: none is ever stale. What the
file says, who holds it and since when, is for the message alone.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.artifacts import cannot_write
from surefoot.contract import SurefootError

LOCK = "run.lock"
PATIENCE_S = 0.5
"""How long a held lock is tried: `is_alive` of another process holds it for an instant."""


@dataclass(frozen=True)
class Holder:
    """The process that holds a run folder, as its lock's file names it."""

    pid: int
    host: str
    since: str
    """ISO date and time."""

    @property
    def here(self) -> bool:
        """Whether it runs on this machine."""
        return self.host == socket.gethostname()

    def has_open(self, folder: str | Path) -> bool:
        """Returns whether the process of this number is the one that holds `folder`, and no other that has
        its number by now. Of another user's process nobody can tell, and where there is no /proc."""
        lock = (Path(folder) / LOCK).resolve()
        try:
            return any(Path(f.path).resolve() == lock for f in os.scandir(f"/proc/{self.pid}/fd"))
        except OSError:
            return False


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the lock of `folder` within the block; refused where another process has it."""
    descriptor = _acquire(folder)
    try:
        yield
    finally:  # removed while it is held: whoever opened it meanwhile sees that it has no name any more
        with suppress(FileNotFoundError):
            (folder / LOCK).unlink()
        os.close(descriptor)


@contextmanager
def appending(path: Path) -> Iterator[int]:
    """Yields a descriptor of the file `path`, to append to it while nobody else does; others wait."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o666)
    try:
        with suppress(OSError):  # where the file system has no locks, what is appended is still written
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _acquire(folder: Path) -> int:
    path, end = folder / LOCK, time.monotonic() + PATIENCE_S
    try:
        while True:
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
            taken = _try(descriptor, fcntl.LOCK_EX)
            if taken is False and time.monotonic() > end:
                os.close(descriptor)
                raise _refusal(folder)
            if taken is not False and os.fstat(descriptor).st_nlink:
                break
            os.close(descriptor)
            time.sleep(0.01)
        now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": now}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)
    except OSError as error:
        raise cannot_write(path, error) from error
    return descriptor


def _try(descriptor: int, kind: int) -> bool | None:
    """Returns whether the lock was to be had; None where the file system has no locks."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def is_alive(folder: str | Path) -> bool:
    """Returns whether a living process trains or confirms the run in `folder`. A run whose status is
    `running` and that nobody holds has broken off."""
    try:
        descriptor = os.open(Path(folder) / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        taken = _try(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)
    return _lives(_holder(Path(folder))) if taken is None else not taken


def lock_holder(folder: str | Path) -> Holder | None:
    """Returns who trains or confirms the run in `folder`; None where nobody does."""
    if not is_alive(folder):
        return None
    said = _holder(Path(folder))
    return Holder(int(said.get("pid", 0)), str(said.get("host", "")), str(said.get("since", "")))


def _lives(holder: dict[str, Any]) -> bool:
    """Asks for the process where the file system has no locks; one of another machine is taken to live."""
    if holder.get("host") != socket.gethostname():
        return bool(holder)
    return Path(f"/proc/{holder.get('pid')}").exists()


def _holder(folder: Path) -> dict[str, Any]:
    try:
        holder = json.loads((folder / LOCK).read_text())
    except (OSError, ValueError):
        return {}
    return holder if isinstance(holder, dict) else {}


def _refusal(folder: Path) -> SurefootError:
    h = _holder(folder)
    who = f"process {h.get('pid')} on {h.get('host')}, since {h.get('since')}" if h else "another process"
    return SurefootError(
        f"{folder} is in use by {who}: one process at a time trains a run; wait for it to end, or stop it."
    )
