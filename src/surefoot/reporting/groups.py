"""Held-out episodes by what they were about: factor by factor, cell by cell, command by command, label by
label."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.contract import TaskContract
from surefoot.reporting.figures import PanelFigures, Rows
from surefoot.reporting.web.words import CAUSES
from surefoot.statistics import Estimate, rate_estimate, strata_by_factor

FEWEST = 6
"""Fewer episodes show nothing: even if all succeed, the exact 95% interval of 5 of 5 begins at 47.8%."""
FEW = 7
"""Up to so many distinct commands are shown one by one, more are put into bins."""


@dataclass(frozen=True)
class Group:
    """Episodes that have something in common."""

    factor: str
    label: str
    success: Estimate
    fall: Estimate

    @property
    def shown(self) -> bool:
        """Whether there are enough episodes to show anything."""
        return self.success.n >= FEWEST


def by_factor(rows: Rows, contract: TaskContract) -> list[Group]:
    """Returns a group per bin of each factor that differs between episodes, worst first; those of too few
    episodes last."""
    return _worst_first(
        [
            _group(rows, factor, name, mask)
            for factor, bins in _differing(rows, contract).items()
            for name, mask in bins.items()
        ]
    )


def by_cell(rows: Rows, contract: TaskContract) -> list[Group]:
    """Returns a group per cell of the factors that resets are balanced over, worst first."""
    factors = _differing(rows, contract)
    names = [n for n in contract.stratify if n in factors]
    if len(names) < 2:
        return []
    groups = []
    for bins in itertools.product(*(factors[n].items() for n in names)):
        mask = np.logical_and.reduce([m for _, m in bins])
        if mask.any():
            label = " · ".join(f"{n} {name}" for n, (name, _) in zip(names, bins, strict=True))
            groups.append(_group(rows, "cell", label, mask))
    return _worst_first(groups)


def _differing(rows: Rows, contract: TaskContract) -> dict[str, dict[str, np.ndarray]]:
    """Leaves out factors in which all episodes are alike: there is nothing to compare."""
    return {factor: bins for factor, bins in strata_by_factor(rows, contract).items() if len(bins) > 1}


def _group(rows: Rows, factor: str, label: str, mask: np.ndarray) -> Group:
    family = rows["family"][mask]
    success, fall = (rate_estimate(rows[name][mask], family) for name in ("success", "fall"))
    return Group(factor, label, success, fall)


def _worst_first(groups: list[Group]) -> list[Group]:
    return sorted(
        groups, key=lambda g: (not g.shown, g.success.value, g.success.low or 0.0, g.factor, g.label)
    )


# ---- command tracking


@dataclass(frozen=True)
class Cell:
    """Episodes commanded about the same forward speed and turning rate."""

    vx: str
    wz: str
    n: int
    velocity_error: float | None
    yaw_error: float | None
    success: float | None


@dataclass(frozen=True)
class Heatmap:
    vx: tuple[str, ...]
    wz: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]


def heatmap(rows: Rows) -> Heatmap | None:
    """Errors over the plane of commanded forward speed and turning rate; None without commands."""
    if not {"command_vx", "command_wz"} <= rows.keys():
        return None
    vx, vx_names = _axis(rows["command_vx"].astype(float))
    wz, wz_names = _axis(rows["command_wz"].astype(float))
    cells = {}
    for i, j in itertools.product(range(len(vx_names)), range(len(wz_names))):
        mask = (vx == i) & (wz == j)
        cells[vx_names[i], wz_names[j]] = Cell(
            vx_names[i],
            wz_names[j],
            int(mask.sum()),
            _mean(rows["velocity_error_mps"][mask]),
            _mean(rows["yaw_error_radps"][mask]) if "yaw_error_radps" in rows else None,
            _mean(rows["success"][mask].astype(float)),
        )
    return Heatmap(tuple(vx_names), tuple(wz_names), cells)


def _axis(values: np.ndarray) -> tuple[np.ndarray, list[str]]:
    distinct = np.unique(values)
    if len(distinct) <= FEW:
        return np.searchsorted(distinct, values), [f"{v:g}".replace("-", "−") for v in distinct]
    edges = np.linspace(values.min(), values.max(), 6)
    at = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, 4)
    return at, [f"{a:.2g} to {b:.2g}".replace("-", "−") for a, b in itertools.pairwise(edges)]


def _mean(values: np.ndarray) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


# ---- failures


@dataclass(frozen=True)
class LabelCount:
    label: str
    cause: str
    """What to look into first, in words; "" where nothing points to anything."""
    count: int
    share: Estimate
    """Share of the nominal column's episodes."""


def label_counts(panel: PanelFigures) -> list[LabelCount] | None:
    """Counts failure labels of the nominal column, most frequent first; None when failures were not
    labelled."""
    rows = panel.nominal_rows
    if "label" not in rows:
        return None
    labels = np.array([str(x or "") for x in rows["label"]])
    causes = np.array([str(x or "") for x in rows.get("cause", np.full(len(labels), ""))])
    out = []
    for label in dict.fromkeys(labels[labels != ""].tolist()):
        mask = labels == label
        out.append(
            LabelCount(
                label, _suspect(_most(causes[mask])), int(mask.sum()), rate_estimate(mask, rows["family"])
            )
        )
    return sorted(out, key=lambda c: (-c.count, c.label))


def reason_counts(panel: PanelFigures) -> list[LabelCount]:
    """Counts how the failed episodes of the nominal column ended, for runs without labels."""
    rows = panel.nominal_rows
    failed = ~rows["success"].astype(bool)
    reasons = np.array(
        ["off course until the end" if r == "timeout" else str(r).replace("_", " ") for r in rows["reason"]]
    )
    out = []
    for reason in dict.fromkeys(reasons[failed].tolist()):
        mask = failed & (reasons == reason)
        out.append(LabelCount(reason, "", int(mask.sum()), rate_estimate(mask, rows["family"])))
    return sorted(out, key=lambda c: (-c.count, c.label))


def _suspect(cause: str) -> str:
    if cause in ("", "unknown"):
        return CAUSES.get(cause, "")
    return f"first suspect: {CAUSES.get(cause, cause)}"


def _most(values: Sequence[str] | np.ndarray) -> str:
    listed = list(values)
    return max(dict.fromkeys(listed), key=listed.count) if listed else ""
