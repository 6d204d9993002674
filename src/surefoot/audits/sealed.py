"""Do chain and seal show what they are there for? They are made again, and copies of files are changed."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from surefoot.artifacts import chain_fault
from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.runs import compare_seal, read_seal

LEDGER, SEAL = "ledger.jsonl", "seal.json"
ROWS = 12
"""Rows of the ledger that are changed, dropped and exchanged, in a copy."""
NEEDED = ("checkpoints/confirmed.safetensors", "policy.safetensors", "run.json", LEDGER)
"""Files that every confirmed run has, and its seal too."""


def look(case: Case) -> list[Found]:
    """Recomputes the chain of the ledger and the digests of the seal; then changes copies of both."""
    found = [*_chain(case.run.path / LEDGER), *_sealed(case)]
    if found:
        return found
    with tempfile.TemporaryDirectory() as folder:
        found += _tampered_rows(case.run.path / LEDGER, Path(folder))
        found += _tampered_files(case.run.path, Path(folder) / "run")
    return found


def _chain(path: Path) -> Iterator[Found]:
    """Every row ends in the digest of the link before it and of the row itself without its link."""
    previous = ""
    for number, line in enumerate(_lines(path), 1):
        bare, said = _parts(line)
        if said is None:
            if previous:
                yield Found(f"Row {number} of the ledger has no link to the row before it.")
                return
            continue  # of before there were links
        if not previous and number > 1:
            previous = hashlib.sha256(b"\n".join(_lines(path)[: number - 1])).hexdigest()
        right = hashlib.sha256(previous.encode() + bare).hexdigest()
        if said != right:
            yield Found(
                f"The link of row {number} of the ledger is not the digest of the link before it and of "
                "that row: rows could be dropped, or changed, and nobody would be told."
            )
            return
        previous = said


def _lines(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().splitlines() if line.endswith(b"}")]


def _parts(line: bytes) -> tuple[bytes, str | None]:
    """Returns a row without its link, which is the last of its fields, and the link."""
    bare, mark, end = line.rpartition(b',"chain":"')
    return (bare + b"}", end[:-2].decode()) if mark else (line, None)


def _sealed(case: Case) -> Iterator[Found]:
    """What a result rests on is in the seal by its digest."""
    home = case.run.path
    if case.record.confirmation is None or not (home / SEAL).is_file():
        return
    entries = json.loads((home / SEAL).read_bytes())["entries"]
    said: dict[str, set[str]] = {}
    for entry in entries:
        for name, sha in entry["files"].items():
            said.setdefault(name, set()).add(sha)
    folder = case.result.folder
    needed = [*NEEDED, *(p.relative_to(home).as_posix() for p in sorted(folder.rglob("*")) if p.is_file())]
    there = [name for name in needed if (home / name).is_file()]
    missing = [name for name in there if name not in said]
    if missing:
        yield Found(f"The seal leaves out {missing[0]}{_more(missing)}, which the result rests on.")
    known = [name for name in there if name in said and not name.endswith((LEDGER, "run.json"))]
    other = [n for n in known if _sha256(home / n) not in said[n]]
    if other:
        yield Found(f"The seal has another digest of {other[0]}{_more(other)} than the file's content.")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _more(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


def _tampered_rows(path: Path, folder: Path) -> Iterator[Found]:
    """A ledger in which a row is changed, dropped, doubled or exchanged with the next is noticed."""
    rows = _lines(path)[:ROWS]
    copy = folder / LEDGER

    def noticed(lines: list[bytes]) -> bool:
        copy.write_bytes(b"\n".join(lines) + b"\n")
        return bool(chain_fault(copy, True))

    if len(rows) < 4 or _parts(rows[0])[1] is None:
        return
    if noticed(rows):
        yield Found("A ledger whose links are right counts as broken.")
        return
    at = len(rows) // 2
    changed = rows[at].replace(b'"samples":', b'"samples":1', 1)
    ways = {
        "is changed": [*rows[:at], changed, *rows[at + 1 :]],
        "is dropped": [*rows[:at], *rows[at + 1 :]],
        "is there twice": [*rows[: at + 1], *rows[at:]],
        "comes after the next": [*rows[:at], rows[at + 1], rows[at], *rows[at + 2 :]],
    }
    for what, lines in ways.items():
        if lines != rows and not noticed(lines):
            yield Found(f"A ledger in which a row {what} still counts as whole.")


def _tampered_files(home: Path, copy: Path) -> Iterator[Found]:
    """A file that is changed or removed after it was sealed is noticed."""
    seal = read_seal(home)
    if seal is None:
        return
    names = [n for n in NEEDED if n in seal.files() and (home / n).is_file()]
    names += sorted(n for n in seal.files() if n.endswith("episodes.parquet") and (home / n).is_file())[:1]
    for name in names:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(home / name, copy / name)
    before = compare_seal(copy, seal)
    for name in names:
        if name in before.changed:  # since it was sealed, or it only counts as changed
            if _sha256(copy / name) == seal.files()[name]:
                yield Found(f"{name} is as it was when it was sealed, and counts as changed.")
                return
            continue
        data = bytearray((copy / name).read_bytes())
        data[len(data) // 2] ^= 1
        (copy / name).write_bytes(data)
        if name not in compare_seal(copy, seal).changed:
            yield Found(f"{name} can be changed after it was sealed, and the seal still holds.")
            return
        (copy / name).unlink()
        if name not in compare_seal(copy, seal).missing:
            yield Found(f"{name} can be removed after it was sealed, and the seal still holds.")
            return
    if len(seal.entries) > 1:
        parted = seal.model_copy(update={"entries": (*seal.entries[:-2], seal.entries[-1])})
        if not compare_seal(copy, parted).broken:
            yield Found("An entry can be taken out of the seal, and the seal still holds.")


DETECTORS = (
    Detector(
        name="sealed",
        kind="proof",
        cause="bookkeeping",
        asks="Would chain and seal show that a row or a file of the run was changed, dropped or removed?",
        statistic="the links of all rows of the ledger and the sealed digests of what the result rests on, "
        "by plain SHA-256; copies in which rows and files are changed one by one",
        threshold="none: digests are exact, and every change is to be noticed",
        means="Whoever holds the run cannot tell whether it is as it was when it was confirmed.",
        remedy="Look at artifacts/chain.py and runs/seal.py; `surefoot verify RUN` compares both.",
        look=look,
        needs=("ledger",),
    ),
)
