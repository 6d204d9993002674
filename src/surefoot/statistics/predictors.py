"""Columns of a panel ranked by how well they tell, over runs, how policies fare on the second simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.contract import NOMINAL, TRAINED, second_simulator
from surefoot.statistics.columns import Rows, rank_correlation, split_columns

Key = tuple[str, str]
"""(column, engine)."""


@dataclass(frozen=True)
class Predictor:
    """One column, and how its success ranks runs as the second simulator's nominal column does."""

    column: str
    engine: str
    second: str
    """The simulator that is predicted."""
    rank_correlation: float | None
    """Spearman's, over runs, of success on the scenarios that the second simulator has; None below three runs
    or where all have one value."""
    without_one: tuple[float, float] | None
    """The lowest and the highest with one run left out: how much hangs on a single run."""
    runs: int


def predictors(tables: Sequence[Rows], trained_on: Sequence[str]) -> tuple[Predictor, ...]:
    """Ranks the columns that all runs have, best first. `tables` are their rows, on one panel; `trained_on`
    their engines."""
    parts = [{(c, e): r for c, e, r in split_columns(t) if r["policy"][0] == TRAINED} for t in tables]
    shared = set.intersection(*({*p} for p in parts)) if parts else set()
    on_terrain = any((t["terrain"] != "flat").any() for t in tables)
    second = second_simulator([e for c, e in shared if c == NOMINAL], trained_on, on_terrain)
    if second is None:
        return ()
    target = np.array([p[NOMINAL, second]["success"].mean() for p in parts])
    found = []
    for key in sorted(shared - {(NOMINAL, second)}):
        success = np.array([_success(p, key, (NOMINAL, second)) for p in parts])
        left_out = [rank_correlation(np.delete(success, k), np.delete(target, k)) for k in range(len(parts))]
        known = [r for r in left_out if r is not None]
        span = (min(known), max(known)) if len(known) == len(parts) else None
        found.append(Predictor(*key, second, rank_correlation(success, target), span, len(parts)))
    return tuple(sorted(found, key=lambda p: np.inf if p.rank_correlation is None else -p.rank_correlation))


def _success(parts: Mapping[Key, Rows], key: Key, second: Key) -> float:
    """Returns a column's success on the scenarios that the second simulator has too."""
    rows = parts[key]
    return float(rows["success"][np.isin(rows["scenario"], parts[second]["scenario"])].mean())
