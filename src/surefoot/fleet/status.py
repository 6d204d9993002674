"""What a fleet does now, read from its run folder: nobody is asked, and nothing is changed.

What the ledger says is of the last update; what actors wrote themselves tells which of them still live.
"""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from surefoot.artifacts import JsonLines
from surefoot.contract import SurefootError
from surefoot.fleet.books import FOLDER, USED
from surefoot.runs import Holder, RunFolder, lock_holder, read_ledger, resume_hint

DIARY = re.compile(r"actor-(\d+)-(\d+)\.jsonl")


@dataclass(frozen=True)
class PartStatus:
    """A part of the environments, with the actor that has it. None: not known."""

    number: int
    actor: int | None
    """The actor's number: where actors may join and leave one has several parts; else that of the part."""
    incarnation: int | None
    fragments: int
    """That this incarnation was about to send."""
    rate: float | None
    """Transitions per second, from ticket to arrival, at the last update."""
    lag: int | None
    """Versions that its last fragment was old by when it was learned from."""
    silent_s: float | None
    """Seconds since its actor last wrote down a fragment, by the clock of the machine that has the folder."""


@dataclass(frozen=True)
class FleetStatus:
    """A run that a fleet collected for, as its folder has it."""

    folder: Path
    status: str
    """What run.json says."""
    how: str
    """How it collects."""
    holder: Holder | None
    """The process that trains it; None: there is none."""
    update: int
    fleet_last: bool
    """Whether a fleet collected for the last update; before the first one, whether one has begun."""
    row: dict[str, Any]
    """The last row that a fleet collected for; empty before the first."""
    parts: tuple[PartStatus, ...]

    @property
    def actors(self) -> int:
        """How many actors have parts, at the last update."""
        return len({p.actor for p in self.parts if p.actor is not None})

    @property
    def trains(self) -> bool:
        """Whether a fleet trains the run now."""
        return self.holder is not None and self.fleet_last

    @property
    def says(self) -> str:
        """What becomes of the run, in a sentence."""
        h, at = self.holder, f"update {self.update}"
        if h is not None and self.fleet_last:
            who = f"process {h.pid} on {h.host} since {h.since}"
            parts = "" if self.actors == len(self.parts) else f", with {len(self.parts)} parts,"
            return f"{self.actors} actors{parts} collect for {who} ({self.how}); {at}."
        if h is not None:
            return f"Process {h.pid} on {h.host} works on it since {h.since}, without a fleet; {at}."
        ended = {"running": "broke off", "interrupted": "was interrupted", "failed": "failed"}
        ended |= {"unconfirmed": "is trained, and not confirmed", "finished": "is finished"}
        return f"Nobody trains it: it {ended[self.status]}, after {at}."

    def as_json(self) -> dict[str, Any]:
        """Returns all of it in plain values."""
        books = {k: v for k, v in self.row.items() if k.startswith("fleet.")}
        return {
            "run": str(self.folder),
            "trains": self.trains,
            "status": self.status,
            "how": self.how,
            "process": None if self.holder is None else asdict(self.holder),
            "update": self.update,
            "actors": self.actors,
            "parts": [asdict(p) for p in self.parts],
            "ledger": books,
        }


def fleet_status(folder: str | Path) -> FleetStatus:
    """Reads what the fleet of a run does; refused where no fleet ever collected for it."""
    run = RunFolder.open(folder)
    if not (run.path / FOLDER).is_dir():
        raise SurefootError(f"No fleet has collected for {run.path}; `surefoot train --actors M` begins one.")
    rows = read_ledger(run.ledger.path)[0]
    with_fleet = [r for r in rows if "fleet.issued" in r]
    last = with_fleet[-1] if with_fleet else {}
    return FleetStatus(
        run.path,
        run.record.status,
        run.record.versions.get("fleet", ""),
        lock_holder(run.path),
        int(rows[-1]["update"]) if rows else 0,
        not rows or rows[-1] is last,
        last,
        _parts(run.path / FOLDER, last, run.record.versions.get("actors", "")),
    )


def fleets_in(folder: str | Path) -> list[FleetStatus]:
    """Reads the fleets of all runs directly under `folder`; refused where there is none."""
    root = Path(folder)
    if not root.is_dir():
        raise SurefootError(f"There is no folder {root}; give a run folder, or the folder of your runs.")
    runs = sorted(p.parent for p in root.glob("*/run.json") if (p.parent / FOLDER).is_dir())
    if not runs:
        raise SurefootError(
            f"No fleet has collected for a run in {root}; give a run folder, or the folder of your runs."
        )
    return [fleet_status(r) for r in runs]


def stop_holder(status: FleetStatus) -> Holder:
    """Returns the process that has to be told to stop; refused where no fleet trains, and where the process
    cannot be told from here."""
    h, folder = status.holder, status.folder
    if h is None:
        hint = "" if status.status == "finished" else f" {resume_hint(RunFolder.open(folder))}"
        raise SurefootError(f"There is nothing to stop in {folder}. {status.says}{hint}")
    if not status.fleet_last:
        raise SurefootError(f"{folder} is trained without a fleet; stop process {h.pid} with Ctrl-C.")
    if not h.here:
        raise SurefootError(f"{folder} is trained by process {h.pid} on {h.host}; stop it on that machine.")
    if not h.has_open(folder):
        raise SurefootError(
            f"{folder} is in use, and this user cannot see that process {h.pid} is who uses it; stop it with "
            "Ctrl-C where it was started."
        )
    return h


def _parts(folder: Path, row: dict[str, Any], asked: str) -> tuple[PartStatus, ...]:
    """Reads who is in a fleet: its newest incarnations' own files, what was learned from them, and rates."""
    newest: dict[int, tuple[int, Path | None]] = {}
    for diary in folder.glob("actor-*.jsonl"):
        found = DIARY.fullmatch(diary.name)
        if found:
            number, incarnation = int(found[1]), int(found[2])
            if incarnation > newest.get(number, (-1, None))[0]:
                newest[number] = incarnation, diary
    used = folder / USED
    learned = {u["actor"]: u for u in (JsonLines(used).rows() if used.exists() else [])}
    count = int(asked) if asked.isdecimal() else len(newest)
    count = int(row.get("fleet.parts", row.get("fleet.actors", count)))
    rates, having = row.get("fleet.rate.by_actor") or [], row.get("fleet.actor.by_part") or range(count)
    now, out = time.time(), []
    for k in range(count):
        incarnation, path = newest.get(k, (-1, None))
        mine = learned.get(k)
        out.append(
            PartStatus(
                k,
                having[k],
                None if path is None else incarnation,
                0 if path is None else path.read_bytes().count(b"\n"),
                rates[k] if k < len(rates) else None,
                None if mine is None else int(mine["update"]) - 1 - int(mine["version"]),
                None if path is None else max(0.0, now - path.stat().st_mtime),
            )
        )
    return tuple(out)
