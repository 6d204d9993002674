"""The books of a fleet: every ticket that was issued ends once, or is open.

A ticket is (actor, incarnation, sequence): the learner's side issues it when it asks an actor for a fragment.
It ends as trained, as dropped (with why) or as lost (its incarnation is gone). So in every row of the ledger

    issued = trained + dropped + lost + open.

Held against that is a count that owes nothing to the books: actors append sequence and digest to a file of
their own before they send a fragment (`Diary`).
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from surefoot.fleet.fragment import Key

FOLDER, USED = "fleet", "trained.jsonl"
"""Folder of a run for what its fleet leaves, and in it the file of the fragments that were learned from."""
TRAINED, LOST = "trained", "lost"
WHY_DROPPED = ("stale", "poisoned", "unneeded")
"""Why a fragment is not learned from: too old, refused, or there when the run ended or stopped waiting."""


@dataclass
class Books:
    """Counts tickets by how they ended."""

    issued: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    """By `trained`, `lost`, or why they were dropped."""
    open: dict[Key, int] = field(default_factory=dict)
    """The version of the policy that each was issued with."""

    def issue(self, key: Key, version: int) -> None:
        """Opens a ticket; each is issued once."""
        if key in self.open:
            raise RuntimeError(f"the ticket of {key} is issued twice")
        self.open[key] = version
        self.issued += 1

    def end(self, key: Key, how: str) -> None:
        """Closes a ticket as trained, lost or dropped; one that is not open cannot end."""
        if how not in (TRAINED, LOST, *WHY_DROPPED):
            raise ValueError(f"a ticket cannot end as {how}")
        if self.open.pop(key, None) is None:
            raise RuntimeError(f"the ticket of {key} ends, and is not open")
        self.ended[how] += 1

    def lose(self, actor: int, incarnation: int, arrived: Collection[Key] = ()) -> list[Key]:
        """Ends all open tickets of an incarnation that is gone; returns them. Those stay open whose fragments
        have `arrived`, and wait to be learned from."""
        of = (actor, incarnation)
        gone = [k for k in self.open if (k.actor, k.incarnation) == of and k not in arrived]
        for key in gone:
            self.end(key, LOST)
        return gone

    @property
    def dropped(self) -> int:
        return sum(self.ended[why] for why in WHY_DROPPED)

    def row(self) -> dict[str, int]:
        """Returns the columns of a ledger's row."""
        out = {
            "fleet.issued": self.issued,
            "fleet.trained": self.ended[TRAINED],
            "fleet.dropped": self.dropped,
            "fleet.lost": self.ended[LOST],
            "fleet.open": len(self.open),
        }
        return out | {f"fleet.dropped.{why}": self.ended[why] for why in WHY_DROPPED}

    def resume(self, row: dict[str, int]) -> None:
        """Goes on from a ledger's row. What was open then is lost: its actors are gone."""
        self.issued = int(row["fleet.issued"])
        self.ended = Counter({why: int(row[f"fleet.dropped.{why}"]) for why in WHY_DROPPED})
        self.ended[TRAINED] = int(row["fleet.trained"])
        self.ended[LOST] = int(row["fleet.lost"]) + int(row["fleet.open"])
        self.open = {}


class Diary:
    """The file of one incarnation of an actor: a line per fragment, written before it is sent."""

    def __init__(self, folder: Path, actor: int, incarnation: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"actor-{actor:04d}-{incarnation:06d}.jsonl"

    def write(self, key: Key, digest: bytes) -> None:
        """Appends a line, and gives it to the system: a process that is killed afterwards has written it."""
        line = json.dumps({"sequence": key.sequence, "digest": digest.hex()}) + "\n"
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)


def read_diaries(folder: Path) -> dict[Key, str]:
    """Returns the digest of every fragment that was about to be sent. A sequence that stands twice in the
    file of one incarnation is refused."""
    out: dict[Key, str] = {}
    for path in sorted(folder.glob("actor-*.jsonl")):
        _, actor, incarnation = path.stem.split("-")
        for line in path.read_text().splitlines():
            said = json.loads(line)
            key = Key(int(actor), int(incarnation), int(said["sequence"]))
            if key in out:
                raise ValueError(f"{key} stands twice in {path.name}")
            out[key] = said["digest"]
    return out


def next_incarnation(folder: Path) -> int:
    """Returns a number that no incarnation in `folder` has had, and none before them."""
    return max((int(p.stem.split("-")[2]) for p in folder.glob("actor-*.jsonl")), default=-1) + 1
