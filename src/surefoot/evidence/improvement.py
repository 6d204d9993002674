"""What improved, stratum by stratum, from a run's first evaluation on the selection half to its last: the
same scenarios under two policies, paired."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surefoot.runs import Result, RunFolder, load_pass
from surefoot.statistics import SPANS, Difference, paired, panel_strata


@dataclass(frozen=True)
class StratumChange:
    """Success in one stratum at the first and the last evaluation."""

    stratum: str
    difference: Difference
    """Last less first, scenario by scenario."""


@dataclass(frozen=True)
class Improvement:
    """What became of every stratum between two evaluations on the same scenarios."""

    first: int
    """Update of the first evaluation."""
    last: int
    strata: tuple[StratumChange, ...]
    """Those that gained least first."""
    files: tuple[str, str]
    """The tables of the two, relative to the run folder."""


def improvement(run: RunFolder) -> Improvement | None:
    """Compares the first and the last evaluation of a run; None where there are not two on the same
    scenarios."""
    root = run.path / "panels" / run.record.panel
    folders = sorted(f for f in root.glob("selection-update-*") if (f / "summary.json").is_file())
    if len(folders) < 2:
        return None
    first, last = (load_pass(run, f) for f in (folders[0], folders[-1]))
    a, b = _places(first), _places(last)
    shared = sorted(a.keys() & b.keys())
    if not shared or first.engine != last.engine:
        return None
    before = {k: v[[a[s] for s in shared]] for k, v in first.rows.items()}
    after = last.rows["success"][[b[s] for s in shared]].astype(np.float64)
    changes = []
    for name, mask in panel_strata(before, run.record.contract).items():
        x, y = before["success"][mask].astype(np.float64), after[mask]
        changes.append(StratumChange(name, paired(x, y, before["family"][mask], SPANS["success"])))
    changes.sort(key=lambda c: (c.difference.value, c.difference.b, c.stratum))
    update = [int(f.name.rsplit("-", 1)[1]) for f in (folders[0], folders[-1])]
    files = [(f / "episodes.parquet").relative_to(run.path).as_posix() for f in (folders[0], folders[-1])]
    return Improvement(update[0], update[1], tuple(changes), (files[0], files[1]))


def _places(result: Result) -> dict[tuple[int, int], int]:
    """Returns (family, member) -> row."""
    rows = result.rows
    return {k: i for i, k in enumerate(zip(rows["family"].tolist(), rows["member"].tolist(), strict=True))}
