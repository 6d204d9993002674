"""Keeps an append-only record as JSON Lines, which loses at most the row being written when its writer is
killed."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from surefoot.artifacts.chain import head, linked
from surefoot.artifacts.documents import parse, plain
from surefoot.artifacts.files import atomic_write, cannot_read, cannot_write, sync_folder, write_all
from surefoot.contract import SurefootError


class JsonLines:
    """Holds one JSON object per line. Many may read while one writes; two writers are not guarded against.

    `sync_every`: fsync after this many rows (0: only in `sync` and `close`). A kill of the process never
    loses a row that was appended; unsynced rows are lost only if the machine itself goes down. `chained`:
    every row that is appended ends in a link to the one before it (`chain_fault`).
    """

    def __init__(self, path: str | Path, sync_every: int = 1, chained: bool = False) -> None:
        self.path = Path(path)
        self.sync_every = sync_every
        self.chained = chained
        self._head = ""
        self._descriptor: int | None = None
        self._unsynced = 0

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds one row with one write; NaN and infinities become null. The first append mends a torn tail."""
        if not isinstance(row, Mapping):
            raise TypeError(f"a row is a mapping, not {type(row).__name__}")
        line = json.dumps(plain(row), allow_nan=False, separators=(",", ":")).encode()
        descriptor = self._open()
        line = (linked(line, self._head) if self.chained else line) + b"\n"
        try:
            written = os.write(descriptor, line)
            if written < len(line):  # a full disk takes what fits; a later row must not continue that half
                os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise cannot_write(self.path, error) from error
        self._head = head([line[:-1]]) if self.chained else ""
        self._unsynced += 1
        if self.sync_every and self._unsynced >= self.sync_every:
            self.sync()

    def rows(self) -> list[dict[str, Any]]:
        """Returns all whole rows; see `read` to learn whether a torn one was left out."""
        return self.read()[0]

    def read(self) -> tuple[list[dict[str, Any]], bool]:
        """Returns all whole rows, and whether a torn last line was left out. Changes nothing on disk."""
        _, rows, torn = self._scan()
        return rows, torn

    def keep(self, predicate: Callable[[dict[str, Any]], bool]) -> int:
        """Rewrites the file atomically with only the rows for which `predicate` holds; returns how many went.

        The kept lines keep their bytes; a torn tail goes too (not counted). A file not yet there stays so.
        """
        self.close()  # the rewrite is a new file; the old descriptor would go on appending to the removed one
        if not self.path.exists():
            return 0
        lines, rows, torn = self._scan()
        kept = [line for line, row in zip(lines, rows, strict=True) if predicate(row)]
        if torn or len(kept) < len(lines):
            atomic_write(self.path, b"".join(line + b"\n" for line in kept))
        return len(lines) - len(kept)

    def sync(self) -> None:
        """Forces the appended rows to the disk."""
        if self._descriptor is not None:
            try:
                os.fsync(self._descriptor)
            except OSError as error:
                raise cannot_write(self.path, error) from error
        self._unsynced = 0

    def close(self) -> None:
        """Syncs and closes; a later append opens again."""
        if self._descriptor is not None:
            descriptor = self._descriptor
            try:
                self.sync()
            finally:
                self._descriptor = None
                os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> int:
        """The append descriptor. Opening reads the file once, so that nothing is appended to a broken one."""
        if self._descriptor is not None:
            return self._descriptor
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            fresh = not self.path.exists()
            lines, _, torn = ([], [], False) if fresh else self._scan()
            descriptor = os.open(self.path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o666)
            try:
                whole = sum(len(line) + 1 for line in lines)
                if torn:
                    os.ftruncate(descriptor, whole)
                elif os.fstat(descriptor).st_size < whole:  # a whole last row whose newline was not written
                    write_all(descriptor, b"\n")
                if fresh:
                    sync_folder(self.path.parent)
            except BaseException:
                os.close(descriptor)
                raise
        except OSError as error:
            raise cannot_write(self.path, error) from error
        self._descriptor = descriptor
        self._head = head(lines) if self.chained else ""
        return descriptor

    def _scan(self) -> tuple[list[bytes], list[dict[str, Any]], bool]:
        """Returns line bytes, parsed rows, torn. A broken line that no killed write can have left is an
        error."""
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise cannot_read(self.path, error) from error
        pieces = data.split(b"\n")
        ended = pieces[-1] == b""
        if ended:
            pieces.pop()
        rows: list[dict[str, Any]] = []
        for number, piece in enumerate(pieces, 1):
            try:
                row = parse(piece)
                if not isinstance(row, dict):
                    raise ValueError("a row must be a JSON object")
            except ValueError as error:
                if number == len(pieces) and _looks_torn(piece, ended):
                    return pieces[:-1], rows, True
                raise SurefootError(
                    f"'{self.path}': line {number} is not a row ({error}); "
                    "restore the file or remove that line."
                ) from error
            rows.append(row)
        return pieces, rows, False


def _looks_torn(piece: bytes, ended: bool) -> bool:
    """Returns whether a broken last line can come from an interrupted append, and not from a file that is
    something else.

    A killed write leaves the beginning of an object without a newline; a power cut can leave NUL bytes, which
    JSON never holds. Anything else is refused rather than cut off: it may be a file the user needs.
    """
    return piece[:1] in (b"{", b"\0") and (not ended or b"\0" in piece)
