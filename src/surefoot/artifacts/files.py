"""Writes files that appear whole or not at all, and proves folders writable before an hour is spent.

POSIX only (file locks, folder fsync); that is where training runs.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
from pathlib import Path

from surefoot.contract import SurefootError

TEMPORARY_PREFIX = ".tmp-"
# The full pattern, so that cleaning never touches a user's own file that merely starts the same way.
_TEMPORARY = re.compile(re.escape(TEMPORARY_PREFIX) + r"[0-9a-f]{16}")
_HINTS = {
    errno.ENOSPC: "free some space or choose another folder",
    errno.EDQUOT: "free some of your quota or choose another folder",
    errno.EFBIG: "the file is larger than this file system or your limits allow; choose another folder",
    errno.EACCES: "choose a folder you may write to",
    errno.EPERM: "choose a folder you may write to",
    errno.EROFS: "this disk is read-only, choose a folder on another",
    errno.ENOTDIR: "a part of this path is a file, choose another path",
    errno.EEXIST: "a part of this path is a file, choose another path",
    errno.EISDIR: "this path is a folder, choose another name",
    errno.ENAMETOOLONG: "choose a shorter name",
}


def cannot_write(path: Path, error: OSError) -> SurefootError:
    """Returns the sentence for a failed write, with what to do about this kind of failure."""
    hint = _HINTS.get(error.errno or 0, "check the disk or choose another folder")
    return SurefootError(f"Cannot write '{path}' ({error.strerror or error}): {hint}.")


def cannot_read(path: Path, error: OSError) -> SurefootError:
    """Returns the sentence for a file that is missing or may not be read."""
    if isinstance(error, FileNotFoundError):
        return SurefootError(f"'{path}' does not exist; check the path.")
    return SurefootError(f"Cannot read '{path}' ({error.strerror or error}); check the path and permissions.")


def cannot_use(error: OSError) -> SurefootError | None:
    """The sentence for a path that the system refuses, wherever that came up; None where the path is not to
    blame."""
    if error.filename is None or error.errno not in _HINTS:
        return None
    denied = error.errno in (errno.EACCES, errno.EPERM)
    hint = "check its permissions or choose another path" if denied else _HINTS[error.errno]
    return SurefootError(f"Cannot use '{error.filename}' ({error.strerror}): {hint}.")


def atomic_write(path: str | Path, data: bytes) -> None:
    """Writes `data` so that after a kill or a power cut `path` holds the old bytes or the new ones, never a
    mixture.

    Missing parent folders are created. A symbolic link at `path` is replaced, not followed.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = _locked_temporary(path.parent)
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)  # before the rename: the name must never point at bytes that are not on disk
            os.replace(temporary, path)
        except BaseException:  # Ctrl-C too: the half-written file goes, the reason travels on
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        finally:
            os.close(descriptor)
        sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error


def write_all(descriptor: int, data: bytes) -> None:
    """Calls os.write until everything is written; one call stops at 2 GiB on Linux."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_folder(folder: Path) -> None:
    """Makes a rename or a new name in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot sync a folder
            raise
    finally:
        os.close(descriptor)


def _locked_temporary(folder: Path) -> tuple[int, Path]:
    """A new temporary file, locked for as long as its writer lives: that is how leftovers are told from live
    ones.

    The lock goes with the process, whatever kills it; a process id in the name could be reused (and in a
    container it nearly always is).
    """
    while True:
        temporary = folder / f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        with contextlib.suppress(OSError):  # no locks on this file system: clean_temporaries spares its files
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink > 0:
            return descriptor, temporary
        os.close(descriptor)  # removed by a cleaner between open and lock; take another


def clean_temporaries(folder: str | Path) -> list[Path]:
    """Removes what killed writers left in `folder` and below; returns the removed paths.

    A temporary of a writer that is still alive is left alone, so this is safe beside a running process.
    """
    removed = []
    for path in sorted(Path(folder).rglob(f"{TEMPORARY_PREFIX}*")):
        if not _TEMPORARY.fullmatch(path.name) or path.is_symlink() or not path.is_file():
            continue
        try:
            descriptor = os.open(path, os.O_RDWR)
        except OSError:  # renamed or removed meanwhile, or another user's
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
            removed.append(path)
        except OSError:  # locked: its writer lives; or no locks here, and then nobody can tell
            continue
        finally:
            os.close(descriptor)
    return removed


def check_folder(folder: str | Path, need_bytes: int) -> None:
    """Creates `folder` and proves that it can hold a run: a probe is written and synced, free space is
    compared.

    Free space is what the disk reports; a quota below it shows only when it is reached.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise SurefootError(f"'{folder}' is a file; choose another path for the folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, probe = _locked_temporary(folder)
        try:
            write_all(descriptor, bytes(4096))
            os.fsync(descriptor)
        finally:
            probe.unlink(missing_ok=True)
            os.close(descriptor)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise cannot_write(folder, error) from error
    if free < need_bytes:
        raise SurefootError(
            f"'{folder}' has {_size(free)} free and {_size(need_bytes)} are needed; "
            "free some space or choose another folder."
        )


def new_folder(path: str | Path) -> Path:
    """Creates `path`, which must not exist (not even empty: another process may just have claimed it)."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error
    try:
        path.mkdir()
        sync_folder(path.parent)
    except FileExistsError as error:
        raise SurefootError(
            f"'{path}' already exists; choose another --out or resume it with --resume {path}."
        ) from error
    except OSError as error:
        raise cannot_write(path, error) from error
    return path


def _size(count: int) -> str:
    """Formats bytes for people, in decimal units as disks are sold."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes"
