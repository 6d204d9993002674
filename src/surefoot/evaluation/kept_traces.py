"""Chooses the episodes of a column that keep their trace: of every label the worst, the median and any one,
some successes, and those that are always kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from surefoot.contract import text_digest
from surefoot.statistics import severity

SUCCESSES = 2


def traces_to_keep(rows: Mapping[str, np.ndarray], salt: str, always: Iterable[int] = ()) -> list[int]:
    """Returns the rows to keep, in their order, `always` among them. Random ones are drawn by a digest: the
    same every time."""
    bad, label = severity(rows), np.asarray(rows["label"])
    kept = set(always)
    for name in np.unique(label):
        ranked = np.flatnonzero(label == name)
        ranked = ranked[np.argsort(bad[ranked], kind="stable")]
        if not name:
            kept |= {int(ranked[k]) for k in np.linspace(0, len(ranked) - 1, SUCCESSES).astype(int)}
            continue
        key = f"{salt} {rows['column'][0]} {rows['engine'][0]} {name}"
        any_one = int(text_digest(key)[:12], 16) % len(ranked)
        kept |= {int(ranked[k]) for k in (-1, (len(ranked) - 1) // 2, any_one)}
    return sorted(kept)
