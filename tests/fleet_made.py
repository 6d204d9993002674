"""A run with a fleet's columns and files added by a fixed rule: valid artifacts whose figures mean nothing,
to test how they are read and shown. The books in it are real ones, and so are the actors' files."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

from surefoot.artifacts import JsonLines
from surefoot.fleet.books import LOST, TRAINED, Books, Diary
from surefoot.fleet.fragment import Key
from surefoot.runs import RunFolder


def made_fleet(run: Path, folder: Path, actors: int = 2, lag: int = 1) -> Path:
    """Copies `run` to `folder`, as if `actors` had collected for it. Actor 1 is replaced in update 3, and
    every other update drops a fragment of actor 0."""
    shutil.copytree(run, folder)
    (folder / "fleet").mkdir()
    there = JsonLines(folder / "ledger.jsonl").rows()
    (folder / "ledger.jsonl").unlink()
    ledger = JsonLines(folder / "ledger.jsonl", chained=True)
    used = JsonLines(folder / "fleet" / "trained.jsonl")
    books, incarnation, sequence = Books(), dict.fromkeys(range(actors), 0), 0
    for number, row in enumerate(there, 1):
        del row["chain"]
        old = min(lag, number - 1)
        if number == 3:
            books.issue(Key(1, 0, 99), number)
            books.end(Key(1, 0, 99), LOST)
            incarnation[1] = actors
        for actor in range(actors):
            kept = ("stale", TRAINED) if actor == 0 and number % 2 else (TRAINED,)
            for how in kept:
                key, sequence = Key(actor, incarnation[actor], sequence), sequence + 1
                digest = hashlib.sha256(repr(key).encode()).digest()
                books.issue(key, number - 1 - old)
                Diary(folder / "fleet", key.actor, key.incarnation).write(key, digest)
                books.end(key, how)
                said = {"update": number, **key._asdict(), "digest": digest.hex()}
                if how == TRAINED:
                    used.append({**said, "version": number - 1 - old})
        ledger.append(row | _columns(row, number, actors, old, books))
    ledger.close()
    used.close()
    opened = RunFolder.open(folder)
    said = {"actors": str(actors), "fleet": f"asynchronous, at most {lag} versions old, local inference"}
    opened.write_record(
        collection=f"asynchronous, at most {lag} versions old", versions=opened.record.versions | said
    )
    return folder


def with_columns(run: Path, *columns: dict[str, Any]) -> Path:
    """Gives the last rows of a run other columns, one dict for each; returns the run."""
    rows = JsonLines(run / "ledger.jsonl").rows()
    (run / "ledger.jsonl").unlink()
    ledger = JsonLines(run / "ledger.jsonl", chained=True)
    more = [{}] * (len(rows) - len(columns)) + list(columns)
    for row, other in zip(rows, more, strict=True):
        del row["chain"]
        ledger.append(row | other)
    ledger.close()
    return run


def _columns(row: dict[str, Any], number: int, actors: int, old: int, books: Books) -> dict[str, Any]:
    families = len(row["family.samples"])
    return {
        "fleet.actors": actors,
        "fleet.alive": actors - (number == 3),
        "fleet.replaced": int(number >= 3),
        **books.row(),
        **{f"fleet.lag.{k}": float(old) for k in ("min", "mean", "p95", "max")},
        "fleet.age_s": 0.125 * number,
        "fleet.corrected_share": 0.75 if old else 0.0,
        "fleet.rate.by_actor": [None if number == 1 and k else 100.0 * (k + 1) for k in range(actors)],
        "fleet.samples.by_actor": [256 // actors] * actors,
        "fleet.codec": "fp32",
        "fleet.bytes_per_transition": 570.0,
        "fleet.learner.busy_s": 0.25,
        "fleet.learner.waiting_s": 0.75,
        "fleet.learner.utilisation": 0.25,
        "family.samples": [64 + 32 * (k == 0) - 32 * (k == families - 1) for k in range(families)],
    }
