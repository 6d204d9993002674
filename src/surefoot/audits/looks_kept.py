"""Do looks at the confirmation half stand in looks.jsonl as they were written, this run's own among them?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, NotApplicable

LOOKS = "looks.jsonl"
KINDS = ("estimate", "decision")
OTHERS = 200
"""Runs beside this one that are looked for in it, at most."""

Row = dict[str, Any]


def look(case: Case) -> list[Found]:
    """Follows the chain of hashes from the first line to the last, and reads what each line says."""
    faults = list(chain_faults(lines_beside(case)))
    if not faults:
        return []
    first, why = faults[0]
    more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    text = f"{LOOKS} beside the run was changed after it was written: line {first} {why}{more}"
    return [Found(f"{text}. How often was looked at what is held out is not known.")]


def lines_beside(case: Case) -> list[bytes]:
    """Returns the lines of looks.jsonl in the folder that the run lies in."""
    folder = case.run.path.resolve()
    path = folder.parent / LOOKS
    if folder.name != case.record.id:
        raise NotApplicable(f"it was made as {case.record.id}: it was moved, and brought no looks with it")
    if not path.is_file():
        raise NotApplicable(f"no {LOOKS} lies beside it: it was moved, or nothing was confirmed there")
    return [line for line in path.read_bytes().split(b"\n") if line.strip()]


def chain_faults(lines: list[bytes]) -> Iterator[tuple[int, str]]:
    """Says which lines do not follow from themselves and the line before them."""
    previous = ""
    for number, line in enumerate(lines, 1):
        row = read(line)
        if row is None:
            yield number, "is no JSON object"
            previous = hashlib.sha256(line).hexdigest()
            continue
        said = row.pop("hash", None)
        if said != hash_of(row):
            yield number, "has another content than its hash is of"
        elif row.get("previous") != previous:
            yield number, "does not follow the line before it"
        elif row.get("kind") not in KINDS or not isinstance(row.get("checkpoints"), list):
            yield number, "is neither an estimate nor a decision about policies"
        previous = str(said)


def read(line: bytes) -> Row | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def hash_of(row: Row) -> str:
    """Returns the SHA-256 of a line's content: names in their order, no spaces."""
    text = json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def look_for_runs(case: Case) -> list[Found]:
    """Looks for the run's own confirmation among the looks that were counted, and for those beside it."""
    seen = [row for row in map(read, lines_beside(case)) if row is not None]
    counted = {(row.get("scenarios"), str(c)) for row in seen for c in row.get("checkpoints", ())}
    r = case.record
    own = _asked({"panel": r.panel, "panel_seeds": {"root": r.panel_seeds.root}, "confirmation": {
        "checkpoint": r.confirmation.checkpoint if r.confirmation else ""}})  # fmt: skip
    if own in counted:
        return []
    missing = sum(asked not in counted for asked in _beside(case) if asked[0] == own[0])
    others = f", nor are those of {missing} other runs in its folder" if missing else ""
    text = f"Its confirmation on {own[0]} is not among the {len(seen)} looks that {LOOKS} counts{others}"
    return [Found(f"{text}: the run was moved there, or lines were taken out.")]


def _asked(run: Row) -> tuple[str, str]:
    """Returns which scenarios a run was confirmed on, whatever their number, and its checkpoint."""
    name = str(run["panel"]).partition("+")[0]
    return f"{name}@{run['panel_seeds']['root']}", str(run["confirmation"]["checkpoint"])


def _beside(case: Case) -> Iterator[tuple[str, str]]:
    """Yields what other runs in the folder were confirmed on."""
    folder = case.run.path.resolve()
    records: list[Path] = sorted(folder.parent.glob("*/run.json"))[:OTHERS]
    for path in records:
        run = read(path.read_bytes()) if path.parent != folder else None
        if run is not None and run.get("confirmation"):
            yield _asked(run)


DETECTORS = (
    Detector(
        name="looks",
        kind="proof",
        cause="held-out",
        asks="Do the looks that decisions count stand as they were written?",
        statistic="hashes of all lines of looks.jsonl in the run's folder, and what each says of the line "
        "before it",
        threshold="none: a line has the hash of its content or it has not",
        means="How often was looked at, and chosen by, what is held out is not known: the error of a "
        "decision may be larger than it states.",
        remedy="Bring the file back from a copy; else decide on fresh scenarios: `surefoot promote` draws "
        "them.",
        look=look,
        needs=("confirmed",),
    ),
    Detector(
        name="looks-counted",
        kind="behaviour",
        cause="held-out",
        asks="Is the run's own confirmation among the looks that are counted in its folder?",
        statistic="scenarios and checkpoint of the confirmation, and those of other runs beside it, among "
        "the lines of looks.jsonl",
        threshold="none; a remark, because a run that was moved brings no lines with it",
        means="Decisions in this folder count fewer looks than there were.",
        remedy="Where nothing was moved, compare the file with a copy; decide on fresh scenarios.",
        look=look_for_runs,
        needs=("confirmed",),
    ),
)
