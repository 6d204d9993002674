"""Looks at a confirmation half, counted: looks.jsonl beside the runs, a line per look, each with the hash of
the one before it.

A half that decisions were made on is no longer held out. Looking is free as long as nothing is decided; each
decision spends some of the error that all of them share (`surefoot.statistics.decision_alpha`). Looks on
other machines, or in folders elsewhere, cannot be known here.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from surefoot.artifacts import parse
from surefoot.contract import SeedPlan, digest
from surefoot.runs.folder import timestamp
from surefoot.runs.lock import appending

LOOKS = "looks.jsonl"
Kind = Literal["estimate", "decision"]


@dataclass(frozen=True)
class Look:
    """One look at the confirmation half of a panel."""

    scenarios: str
    """The scenarios that were looked at, whatever their number: lists of one name and root seed extend each
    other."""
    panel_digest: str
    by: str
    """The verb that looked."""
    checkpoints: tuple[str, ...]
    """Digests of the policies that were looked at."""
    kind: Kind = "estimate"
    number: int = 0
    """The number of this look at these scenarios, from 1; 0 where nothing was counted. The same question
    asked again is written down again and keeps its number: rows and answer are the same."""
    decision: int = 0
    """The number among decisions; 0 for an estimate."""
    fault: str = ""
    """Why looks.jsonl cannot be counted on: it was edited. "" where nothing is known against it."""
    unwritten: str = ""
    """Why this look was not written down; "" where it was."""

    @property
    def said(self) -> str:
        """Says it in a sentence."""
        what = f"decision {self.decision}, look {self.number}" if self.decision else f"look {self.number}"
        name, _, root = self.scenarios.partition("@")
        text = f"{what} at the confirmation half of {name} (root seed {root}) in this folder"
        text = f"{text[0].upper()}{text[1:]}; looks on other machines cannot be known."
        if self.unwritten:
            text += f" It was not written down: {self.unwritten}."
        return text + (f" {self.fault}" if self.fault else "")


def scenarios_of(panel: str, seeds: SeedPlan) -> str:
    """Names the scenarios of a panel, however many of the list are used: a cut or extended panel is another
    look at the same ones."""
    return f"{panel.partition('+')[0]}@{seeds.root}"


def note_look(folders: Sequence[Path], look: Look) -> Look:
    """Writes a look down in looks.jsonl of every folder in `folders` (those that runs lie in), and returns it
    with its number. A folder that may not be written to is read, and the look says so."""
    counted = [_note(f, look) for f in dict.fromkeys(Path(f).resolve() for f in folders)]
    return replace(
        look,
        number=max(c.number for c in counted),
        decision=max(c.decision for c in counted),
        fault=" ".join(c.fault for c in counted if c.fault),
        unwritten="; ".join(c.unwritten for c in counted if c.unwritten),
    )


def _note(folder: Path, look: Look) -> Look:
    path = folder / LOOKS
    try:
        with appending(path) as descriptor:
            counted = _counted(look, path)
            _append(descriptor, _line(look, _last(path)))
            return counted
    except OSError as error:
        unwritten = f"{path} cannot be written to ({error.strerror})"
        return replace(_counted(look, path), unwritten=unwritten)


def _append(descriptor: int, line: bytes) -> None:
    """Writes a whole line, or nothing: a full disk takes what fits."""
    end = os.fstat(descriptor).st_size
    if end and os.pread(descriptor, 1, end - 1) != b"\n":
        line = b"\n" + line
    if os.write(descriptor, line) < len(line):
        os.ftruncate(descriptor, end)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(descriptor)


def _counted(look: Look, path: Path) -> Look:
    """Returns the look with its number among those in the file."""
    rows, fault = _read(path)
    mine = [r for r in rows if r.get("scenarios") == look.scenarios]
    decided = [r for r in mine if r.get("kind") == "decision"]
    decision = _place(look, decided) if look.kind == "decision" else 0
    return replace(look, number=_place(look, mine), decision=decision, fault=fault)


def _place(look: Look, rows: list[dict[str, Any]]) -> int:
    """Returns the number of a look among different ones."""
    asked = list(dict.fromkeys(_question(r) for r in rows))
    question = _question(_row(look))
    return 1 + (asked.index(question) if question in asked else len(asked))


def _question(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(json.dumps(row.get(n)) for n in ("kind", "by", "panel_digest", "checkpoints"))


def _row(look: Look) -> dict[str, Any]:
    return {
        "kind": look.kind,
        "by": look.by,
        "scenarios": look.scenarios,
        "panel_digest": look.panel_digest,
        "half": "confirmation",
        "checkpoints": list(look.checkpoints),
    }


def _line(look: Look, previous: str) -> bytes:
    row = {"time": timestamp(), **_row(look), "previous": previous}
    return json.dumps({**row, "hash": digest(row)}, separators=(",", ":")).encode() + b"\n"


def _last(path: Path) -> str:
    """Returns the hash that the next line follows: that of the last line, as it stands."""
    lines = [line for line in path.read_bytes().split(b"\n") if line]
    return _hash(lines[-1]) if lines else ""


def _hash(line: bytes) -> str:
    try:
        row = parse(line)
        return str(row["hash"])
    except (ValueError, KeyError, TypeError):
        return digest(line.decode(errors="replace"))


def _read(path: Path) -> tuple[list[dict[str, Any]], str]:
    """Returns the looks that were written down, and what is wrong with the file; "" where nothing is seen."""
    try:
        lines = [line for line in path.read_bytes().split(b"\n") if line]
    except OSError:
        return [], ""
    rows: list[dict[str, Any]] = []
    previous, faults = "", []
    for number, line in enumerate(lines, 1):
        try:
            row = parse(line)
            body = {k: v for k, v in row.items() if k != "hash"}
            if digest(body) != row.get("hash") or row.get("previous") != previous:
                faults.append(number)
            rows.append(row)
        except (ValueError, AttributeError):
            faults.append(number)
        previous = _hash(line)
    if not faults:
        return rows, ""
    return (
        rows,
        f"{path} was changed after it was written (line {faults[0]}): how often was looked is unknown.",
    )
