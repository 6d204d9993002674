"""Reads the ledger: one flat row per update, everything measured per step or episode actually simulated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surefoot.artifacts import JsonLines, check_version

LEDGER_VERSION = 2
"""1 had `seconds.physics` and `seconds.task` where 2 has their sum, `seconds.environment`."""


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


TIMING = ("seconds.", "startup.", "train_seconds", "wall_seconds", "steps_per_second", "memory.peak_")
"""Fields that differ between two runs that are otherwise the same to the bit."""


def without_timing(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a row without those fields."""
    return {
        k: v for k, v in row.items() if not k.startswith(TIMING) and not k.startswith("evaluation.seconds")
    }
