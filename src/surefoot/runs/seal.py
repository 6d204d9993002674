"""The seal of a run: seal.json has the SHA-256 of every file, in entries of which each holds the digest of
the one before it.

An entry is written when a run is confirmed, over all of its files; what is added later (an evaluation, a
page) appends an entry over what was added, and nothing else: a file that was changed by other means stays
unsealed. Without a key a seal shows accidents, not forgers: who changes a file can seal it again
(docs/guides/verifying.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from surefoot.artifacts import read_json, write_json
from surefoot.contract import Frozen, digest

SEAL = "seal.json"
LIVE = ("run.lock", ".reserve", ".confirming", ".confirmed", SEAL)
"""What belongs to a process that is at work, and the seal itself."""
COPIES = ("tensorboard", "wandb", "mlflow", "library")
"""Folders that trackers and libraries write of their own accord, also after a run has ended; all that a
tracker has is in the ledger."""


class Signature(Frozen):
    """An ed25519 signature of an entry, and so of all before it."""

    key: str
    """The public key, 64 hex digits."""
    value: str
    """128 hex digits."""


class SealEntry(Frozen):
    """What was sealed at one time."""

    sealed: str
    """When, in UTC, by the clock of the machine."""
    reason: str
    files: dict[str, str]
    """Path relative to the run folder -> SHA-256."""
    whole: bool = False
    """Whether these are all files that the run had; else what was added to them."""
    previous: str = ""
    """Digest of the entry before this one; empty for the first."""
    signature: Signature | None = None

    @property
    def content(self) -> str:
        """Digest of all but the signature: what is signed, and what the next entry holds."""
        return digest(self.model_dump(mode="json", exclude={"signature"}))


class Seal(Frozen):
    """Holds seal.json."""

    schema_version: int = 1
    entries: tuple[SealEntry, ...] = ()

    def files(self, until: int | None = None) -> dict[str, str]:
        """Returns what every file should be by the last entry that speaks of all files and what was added
        after it; `until` leaves later entries out. What that entry does not name was removed before it."""
        entries = self.entries[:until]
        whole = max((k for k, e in enumerate(entries) if e.whole), default=0)
        return {name: sha for e in entries[whole:] for name, sha in e.files.items()}


@dataclass(frozen=True)
class SealState:
    """Says how the files of a run compare with its seal."""

    entries: int
    changed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unsealed: tuple[str, ...] = ()
    """Files that no entry speaks of."""
    broken: str = ""
    """Why the chain of entries does not hold; "" where it does."""

    @property
    def holds(self) -> bool:
        return not (self.changed or self.missing or self.broken)


def seal_files(folder: Path, reason: str, when: str, names: Iterable[str] | None = None) -> SealEntry | None:
    """Appends an entry over the files called `names` (default: all that the run has); None where each of them
    is sealed as it is. A run that was never sealed is not sealed by an addition."""
    path = folder / SEAL
    seal = read_json(path, Seal) if path.is_file() else Seal()
    if names is not None and not seal.entries:
        return None
    known = seal.files()
    now = {name: sha256(folder / name) for name in (sealable(folder) if names is None else sorted(names))}
    fresh = now if names is None else {name: sha for name, sha in now.items() if known.get(name) != sha}
    if not fresh:
        return None
    previous = seal.entries[-1].content if seal.entries else ""
    entry = SealEntry(sealed=when, reason=reason, files=fresh, whole=names is None, previous=previous)
    write_json(path, Seal(entries=(*seal.entries, entry)))
    return entry


def read_seal(folder: Path) -> Seal | None:
    """Reads the seal of a run; None where it was never sealed."""
    path = folder / SEAL
    return read_json(path, Seal) if path.is_file() else None


def compare_seal(folder: Path, seal: Seal, until: int | None = None) -> SealState:
    """Compares the files of a run with its seal, or with its first `until` entries."""
    there = sealable(folder)
    known = seal.files(until)
    changed = [n for n in there if n in known and sha256(folder / n) != known[n]]
    missing = [n for n in known if n not in set(there)]
    unsealed = [n for n in there if n not in known]
    return SealState(
        len(seal.entries), tuple(changed), tuple(sorted(missing)), tuple(unsealed), _chain_fault(seal)
    )


def _chain_fault(seal: Seal) -> str:
    previous = ""
    for number, entry in enumerate(seal.entries, 1):
        if entry.previous != previous:
            return f"Entry {number} of {SEAL} does not follow from the one before it."
        previous = entry.content
    return "" if seal.entries else f"{SEAL} has no entry."


def sealable(folder: Path) -> list[str]:
    """Names the files of a run that a seal covers, in order."""
    out = []
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if parts[0] in LIVE or parts[0] in COPIES or any(p.startswith(".tmp-") for p in parts):
            continue
        if path.is_file():
            out.append("/".join(parts))
    return out


def sealed_names(folder: Path, added: Path) -> list[str]:
    """Names the files that were added to the run in `folder`: the file `added`, or all in that folder; none
    where it lies elsewhere."""
    home, place = folder.resolve(), added.resolve()
    if not place.is_relative_to(home):
        return []
    name = place.relative_to(home).as_posix()
    return [n for n in sealable(folder) if n == name or n.startswith(f"{name}/")]


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
