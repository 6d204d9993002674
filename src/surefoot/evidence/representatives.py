"""Representative failures: two episodes that a person should look at first."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from surefoot.contract import Frozen
from surefoot.statistics import severity

NOT_MEASURED = "not measured"


class Case(Frozen):
    """A failed episode, named so that it can be found and replayed."""

    file: str
    row: int
    """Number of its row in the file, from 0."""
    column: str
    """Pass over the panel: nominal or a perturbation."""
    family: int
    member: int
    label: str
    cause: str
    trace: str
    """File stem of its states, '' where none was kept."""
    reason: str
    lived_s: float
    why: str
    """What it represents."""


def representative_failures(
    rows: Mapping[str, np.ndarray], file: str, index: np.ndarray | None = None
) -> tuple[tuple[Case, ...], str]:
    """Returns the median episode of the most common failure, and that of the second kind (or the
    shortest-lived).

    Failures are sorted by their label; rows of older runs have none and are sorted by end reason. `index` are
    the numbers of the rows in the file, where they are not all of it.
    """
    failed = np.flatnonzero(~rows["success"].astype(bool))
    if not failed.size:
        return (), f"No episode of {len(rows['success'])} failed, so there is no case to show."
    by = "label" if "label" in rows else "reason"
    kinds, counts = np.unique(rows[by][failed].astype(str), return_counts=True)
    order = np.lexsort((kinds, -counts))
    chosen: list[tuple[int, str]] = []
    bad = severity(rows)
    for k in order[:2]:
        alike = failed[rows[by][failed].astype(str) == kinds[k]]
        # By the same measure as traces are kept, so that the median has one.
        middle = alike[np.argsort(bad[alike], kind="stable")[(len(alike) - 1) // 2]]
        chosen.append((int(middle), f"median of {counts[k]} failures with {by} '{kinds[k]}'"))
    if len(chosen) == 1 and failed.size > 1:
        rest = failed[failed != chosen[0][0]]
        shortest = int(rest[np.argmin(rows["lived_s"][rest])])
        chosen.append((shortest, f"shortest-lived other failure with {by} '{kinds[order[0]]}'"))
    numbers = np.arange(len(rows["success"])) if index is None else index
    cases = tuple(_case(rows, i, int(numbers[i]), why, file) for i, why in chosen)
    return cases, "" if len(cases) == 2 else "Only one episode failed."


def _case(rows: Mapping[str, np.ndarray], i: int, row: int, why: str, file: str) -> Case:
    def text(name: str, missing: str) -> str:
        return str(rows[name][i]) if name in rows else missing

    return Case(
        file=file,
        row=row,
        column=str(rows["column"][i]),
        family=int(rows["family"][i]),
        member=int(rows["member"][i]),
        label=text("label", NOT_MEASURED),
        cause=text("cause", NOT_MEASURED),
        trace=text("trace", ""),
        reason=str(rows["reason"][i]),
        lived_s=float(rows["lived_s"][i]),
        why=why,
    )
