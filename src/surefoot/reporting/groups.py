"""Held-out episodes by what they were about: factor by factor, cell by cell, command by command, label by
label."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.contract import TaskContract
from surefoot.reporting.figures import PanelFigures, Rows
from surefoot.statistics import Estimate, rate_estimate

FEW = 7
"""Up to so many distinct values are shown one by one, more are put into bins."""


@dataclass(frozen=True)
class Group:
    """Episodes that have something in common."""

    factor: str
    label: str
    success: Estimate
    fall: Estimate


def by_factor(rows: Rows, contract: TaskContract) -> list[Group]:
    """One group per value or bin of each factor that differs between episodes, worst first."""
    groups = []
    for factor, labels in _factors(rows, contract).items():
        groups += _groups(rows, factor, labels)
    return _worst_first(groups)


def by_cell(rows: Rows, contract: TaskContract) -> list[Group]:
    """One group per cell of the factors that resets are balanced over, worst first."""
    factors = _factors(rows, contract)
    names = [n for n in contract.stratify if n in factors]
    if len(names) < 2:
        return []
    labels = np.array([" · ".join(f"{n} {factors[n][i]}" for n in names) for i in range(len(rows["family"]))])
    return _worst_first(_groups(rows, "cell", labels))


def _groups(rows: Rows, factor: str, labels: np.ndarray) -> list[Group]:
    out = []
    for label in dict.fromkeys(labels.tolist()):
        mask = labels == label
        family = rows["family"][mask]
        out.append(
            Group(
                factor,
                str(label),
                rate_estimate(rows["success"][mask], family),
                rate_estimate(rows["fall"][mask], family),
            )
        )
    return out


def _worst_first(groups: list[Group]) -> list[Group]:
    return sorted(groups, key=lambda g: (g.success.value, g.success.low or 0.0, g.factor, g.label))


def _factors(rows: Rows, contract: TaskContract) -> dict[str, np.ndarray]:
    """A label per episode for every factor whose labels differ."""
    out: dict[str, np.ndarray] = {}
    units = {"friction": "", "payload": " kg"}
    for name, column in (("friction", "friction"), ("payload", "payload_kg")):
        if column in rows:
            out[name] = _binned(rows[column], name, units[name], contract)
    if {"command_vx", "command_vy", "command_wz"} <= rows.keys():
        out["command"] = _command_kind(rows, contract.command.dead_zone)
    if "terrain" in rows:
        out["terrain"] = np.array([str(t).replace("_", " ") for t in rows["terrain"]])
    if "level" in rows:
        out["level"] = np.array([str(int(v)) for v in rows["level"]])
    return {k: v for k, v in out.items() if len(set(v.tolist())) > 1}


def _binned(values: np.ndarray, name: str, unit: str, contract: TaskContract) -> np.ndarray:
    if len(np.unique(values)) <= FEW:
        return np.array([f"{v:g}{unit}".replace("-", "−") for v in values])
    factor = next((f for f in contract.factors if f.name == name), None)
    if factor is None or factor.bins < 2:
        edges = np.quantile(values, [1 / 3, 2 / 3])
        return np.array(["low", "middle", "high"])[np.searchsorted(edges, values)]
    return np.array([factor.label(int(b)) + unit for b in factor.bin_of(values)])


def _command_kind(rows: Rows, dead_zone: float) -> np.ndarray:
    vx, vy, wz = (rows[f"command_{k}"].astype(float) for k in ("vx", "vy", "wz"))
    still = np.maximum(np.maximum(abs(vx), abs(vy)), abs(wz)) <= dead_zone
    kind = np.where(vx > dead_zone, "forward", np.where(vx < -dead_zone, "backward", "no forward speed"))
    return np.where(still, "stand", kind)


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
    count: int
    share: Estimate
    """Of the nominal column's episodes."""


def label_counts(panel: PanelFigures) -> list[LabelCount] | None:
    """Failure labels of the nominal column, most frequent first; None when failures were not labelled."""
    rows = panel.nominal_rows
    if "label" not in rows:
        return None
    labels = np.array([str(x or "") for x in rows["label"]])
    causes = np.array([str(x or "") for x in rows.get("cause", np.full(len(labels), ""))])
    out = []
    for label in dict.fromkeys(labels[labels != ""].tolist()):
        mask = labels == label
        out.append(
            LabelCount(label, _most(causes[mask]), int(mask.sum()), rate_estimate(mask, rows["family"]))
        )
    return sorted(out, key=lambda c: (-c.count, c.label))


def reason_counts(panel: PanelFigures) -> list[LabelCount]:
    """How the failed episodes of the nominal column ended, for runs without labels."""
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


def _most(values: Sequence[str] | np.ndarray) -> str:
    found = list(values)
    return max(dict.fromkeys(found), key=found.count) if found else ""
