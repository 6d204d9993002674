"""A summary counted again from its rows, and in what a stated one differs from that.

summary.json is a cache: what it says of episodes is never shown, only compared with what the rows say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from surefoot.contract import PERTURBATIONS, Contract
from surefoot.statistics.columns import ColumnSummary
from surefoot.statistics.summary import PanelSummary, PassInfo, summarise

CLOCK = frozenset({"seconds", "steps_per_second", "total_seconds", "total_steps_per_second"})
"""What no row knows: how long the pass took."""
OF_THE_STATISTICS = frozenset(
    {"low", "high", "n_eff", "few", "unit", "effective_episodes", "holds", "transfer", "beats_baselines"}
)
"""What also depends on how intervals were computed, which is another way in summaries of older schemas."""


def recount(rows: Mapping[str, np.ndarray], contract: Contract, stated: PanelSummary) -> PanelSummary:
    """Returns the summary that follows from `rows`. From `stated` come only the names of what was measured
    (panel, checkpoint, ids), the clock, and what a perturbation of another package says of itself."""
    info = PassInfo(
        panel=stated.panel,
        panel_digest=stated.panel_digest,
        half=stated.half,
        construct_id=stated.construct_id,
        training_id=stated.training_id,
        checkpoint=stated.checkpoint,
        engine=stated.engine,
        seconds=1.0,
        steps=0,
        normaliser=stated.normaliser,
        interface_id=stated.interface_id,
        measurement=stated.measurement,
        engines=stated.engines,
    )
    counted = summarise(dict(rows), contract, info)
    said = {(c.column, c.engine, c.policy): c for c in stated.columns}
    columns = tuple(_named(c, said.get((c.column, c.engine, c.policy))) for c in counted.columns)
    clock = {name: getattr(stated, name) for name in CLOCK}
    return counted.model_copy(update=clock | {"columns": columns})


def _named(column: ColumnSummary, said: ColumnSummary | None) -> ColumnSummary:
    """Keeps what was written down of what a perturbation does, and all that another package's says of itself:
    the one installed now may be another."""
    if said is None:
        return column
    own = not column.perturbation or column.perturbation in {p.name for p in PERTURBATIONS}
    kept = ("shift",) if own else ("shift", "unit", "trained", "source")
    return column.model_copy(update={k: getattr(said, k) for k in kept})


def disagreements(stated: PanelSummary, counted: PanelSummary, file: str) -> tuple[str, ...]:
    """Says, figure by figure, where `stated` of `file` is not what the rows say; what an older file had no
    word for is not compared, nor its intervals where they were computed otherwise."""
    newest = PanelSummary.model_fields["schema_version"].default
    skip = CLOCK | {"schema_version"} | (OF_THE_STATISTICS if stated.schema_version < newest else set())
    said = stated.model_dump(mode="json", include=stated.model_fields_set)
    known = counted.model_dump(mode="json", include=stated.model_fields_set)
    return tuple(
        f"{name}: {file} says {_short(a)}, the rows say {_short(b)}"
        for name, a, b in _differences(said, known, "", skip)
    )


def _differences(a: Any, b: Any, name: str, skip: frozenset[str] | set[str]) -> list[tuple[str, Any, Any]]:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        out: list[tuple[str, Any, Any]] = []
        for key in [*a, *(k for k in b if k not in a)]:
            if key in skip or key.rsplit("_", 1)[-1] in skip:  # success_low is the low of success
                continue
            out += _differences(a.get(key), b.get(key), f"{name}.{key}" if name else key, skip)
        return out
    if isinstance(a, list) and isinstance(b, list):
        x, y = _by_name(a), _by_name(b)
        if x is not None and y is not None:
            return _differences(x, y, name, skip)
        if len(a) == len(b):
            return [d for i, (p, q) in enumerate(zip(a, b, strict=True))
                    for d in _differences(p, q, f"{name}.{i}", skip)]  # fmt: skip
        return [(name, a, b)]
    return [] if _same(a, b) else [(name, a, b)]


def _by_name(items: list[Any]) -> dict[str, Any] | None:
    """Names the columns of a summary, and its agreements; None for other lists."""
    if not all(isinstance(x, Mapping) and "engine" in x for x in items):
        return None
    named = [(" on ".join(str(x[k]) for k in ("column", "engine") if k in x), x) for x in items]
    return dict(named) if len(dict(named)) == len(items) else None


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool) or not isinstance(a, int | float) or b is None:
        return bool(a == b)
    return isinstance(b, int | float) and math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)


def _short(value: Any) -> str:
    text = "nothing" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
