"""Reads the ledger: one flat row per update, everything measured per step or episode actually simulated."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from surefoot.artifacts import JsonLines, chain_fault, check_version, is_chained
from surefoot.runs.folder import RunRecord

LEDGER_VERSION = 2
"""1 had `seconds.physics` and `seconds.task` where 2 has their sum, `seconds.environment`."""
LIVE = "live."
"""Stands before the names of live checks in a row: what they found, told in the update where it showed."""


def read_ledger(path: Path) -> tuple[list[dict[str, Any]], bool]:
    """Reads rows of any version under the names of the newest; also says whether a torn last line was left
    out."""
    rows, torn = JsonLines(path).read() if path.exists() else ([], False)  # none: killed in its first update
    return [_newest(path, row) for row in rows], torn


def _newest(path: Path, row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row under the names of the newest version."""
    version = check_version(path, row.get("schema_version"), LEDGER_VERSION)
    if version == 1 and "seconds.physics" in row:
        row = dict(row)
        row["seconds.environment"] = row.pop("seconds.physics") + row.pop("seconds.task")
    return row


def ledger_fault(rows: Sequence[Mapping[str, Any]], updates: int | None = None) -> str:
    """Says in what a ledger is not one row for each update from 1 on, in their order; "" where it is.
    `updates`: how many the run is known to have made, where that is known."""
    there = [int(r["update"]) for r in rows]
    counted = set(there)
    missing = sorted(set(range(1, max([updates or 0, *there]) + 1)) - counted)
    twice = sorted({u for u in counted if there.count(u) > 1}) if len(counted) < len(there) else []
    said = [f"lacks {_named(missing)}"] if missing else []
    said += [f"has {_named(twice)} more than once"] if twice else []
    if not twice and there != sorted(there):
        late = next(b for a, b in itertools.pairwise(there) if b < a)
        said.append(f"is out of order at update {late}")
    if any(u < 1 for u in there):
        said.append("has a row of an update before the first")
    return f"The ledger {' and '.join(said)}." if said else ""


def broken_chain(folder: Path, record: RunRecord) -> str | None:
    """Says where the chain of a run's ledger does not hold: rows were edited, removed or put in another
    order. "" where it holds; None for a run of before there were chains, which came with the two ids."""
    path, promised = folder / "ledger.jsonl", bool(record.measurement_id)
    return chain_fault(path, promised) if promised or is_chained(path) else None


def _named(updates: list[int]) -> str:
    """Names updates in words: 'update 6', 'updates 3 to 5, 9'."""
    spans: list[list[int]] = []
    for u in updates:
        if spans and u == spans[-1][1] + 1:
            spans[-1][1] = u
        else:
            spans.append([u, u])
    text = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in spans[:5])
    more = f" and {len(spans) - 5} more gaps" if len(spans) > 5 else ""
    return f"update{'s' if len(updates) > 1 else ''} {text}{more}"


TIMING = (
    *("seconds.", "startup.", "train_seconds", "wall_seconds", "elapsed_seconds", "steps_per_second"),
    "memory.peak_",
    "chain",
)
"""Fields that differ between two runs that are otherwise the same to the bit; links are over all fields."""


def without_timing(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a row without those fields."""
    return {
        k: v for k, v in row.items() if not k.startswith(TIMING) and not k.startswith("evaluation.seconds")
    }
