"""Figures: an estimate that never travels without its interval, its n and its effective n."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from surefoot.contract import BESIDE, Frozen
from surefoot.statistics.looks import CONFIDENCE, confidence_of
from surefoot.statistics.means import Mean, iqm_interval, mean_interval
from surefoot.statistics.rates import Rate, rate

Kind = Literal["rate", "mean", "iqm"]
HEADLINE: dict[str, tuple[str, Kind]] = {
    "success": ("success", "rate"),
    "fall": ("fall", "rate"),
    "velocity_error_mps": ("velocity_error_mps", "mean"),
    "yaw_error_radps": ("yaw_error_radps", "mean"),
    **{name: (name, "mean") for name in BESIDE},
    "return_iqm": ("return", "iqm"),
}
"""Estimate -> column of the rows, and how it is summarised."""
SPANS: dict[str, tuple[float, float]] = {
    "success": (0, 1),
    "fall": (0, 1),
    "velocity_error_mps": (0, 2),
    "yaw_error_radps": (0, 6),
    "cost_of_transport": (0, 20),
    "window_velocity_error_mps": (0, 2),
    "window_yaw_error_radps": (0, 6),
    "foot_slip_per_m": (0, 20),
    "foot_clearance_m": (0, 1),
    "vibration_radps": (0, 20),
    "return": (-math.inf, math.inf),
}
"""Column -> the range that an episode's value can have, for intervals of fewer than 28 families. Rates by
definition; the others rounded up from the largest of any policy, random actions and every perturbation among
them (2.0 m/s, 5.3 rad/s, 20.0; 14.7 m of slip a metre, 0.28 m, 8.0 rad/s), and larger where larger was seen.
That of a return is not known."""


def percent(share: float) -> str:
    """Writes a share as sentences and terminals show it: 0.5 is '50.0%'."""
    return f"{100 * share:.1f}%"


class Estimate(Frozen):
    """A headline figure over the episodes where it was measured."""

    value: float
    low: float | None
    """None: unbounded (a single cluster bounds nothing)."""
    high: float | None
    n: int
    n_eff: float
    families: int
    unit: str = "family"
    """What is taken to be independent: `scenario`, `family`, or `family and command`, the wider of two."""
    confidence: float = 0.95
    few: bool = False
    """Whether families are so few that the interval allows for events that none may have shown, or has no
    ends (in older files: that it should have; docs/reference/statistics.md)."""


def estimate(rows: Mapping[str, np.ndarray], column: str, kind: Kind) -> Estimate | None:
    """Estimates a column over its finite values; None where there are none."""
    values, family = rows[column], rows["family"]
    known = np.isfinite(values) if values.dtype.kind == "f" else np.ones(len(values), bool)
    if not known.any():
        return None
    confidence, units = confidence_of(rows), clusterings(rows)
    if kind == "rate":  # whose allowance for what families may share covers what commands share
        units = dict([next(iter(units.items()))])
    found = [_statistic(values[known], by[known], kind, column, confidence) for by in units.values()]
    widest = found[0] if len(found) == 1 else _widest([f for f in found if isinstance(f, Mean)])
    return _estimate(widest, family[known], " and ".join(units), confidence)


def clusterings(rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns what a table's rows may share, by name: the scenario alone in panels whose families have one
    member; else the family, and the command, which lists of version 1 repeat from family to family."""
    family = rows["family"]
    if "member" not in rows or not (np.asarray(rows["member"]) > 0).any():
        return {"scenario": family}
    if "command_vx" not in rows:
        return {"family": family}
    command = np.stack([rows[f"command_{k}"] for k in ("vx", "vy", "wz")], 1)
    return {"family": family, "command": np.unique(command, axis=0, return_inverse=True)[1].reshape(-1)}


def rate_estimate(values: np.ndarray, family: np.ndarray, confidence: float = CONFIDENCE) -> Estimate:
    """Estimates the share of true episodes, one value per episode; there must be one at least."""
    unit = "scenario" if len(np.unique(family)) == len(family) else "family"
    return _estimate(rate(values, family, confidence), family, unit, confidence)


def headline(rows: Mapping[str, np.ndarray]) -> dict[str, Estimate]:
    """Returns every headline figure that the rows can give."""
    figures = {
        name: estimate(rows, column, kind) for name, (column, kind) in HEADLINE.items() if column in rows
    }
    return {name: f for name, f in figures.items() if f is not None}


def _widest(found: Sequence[Mean]) -> Mean:
    """Returns the interval that holds however the rows are clustered: the widest, on either side."""
    return Mean(
        found[0].value,
        min(m.low for m in found),
        max(m.high for m in found),
        found[0].n,
        min(m.n_eff for m in found),
        any(m.few for m in found),
    )


def _estimate(statistic: Rate | Mean, family: np.ndarray, unit: str, confidence: float) -> Estimate:
    return Estimate(
        value=statistic.value,
        low=_bounded(statistic.low),
        high=_bounded(statistic.high),
        n=statistic.n,
        n_eff=statistic.n_eff,
        families=len(np.unique(family)),
        unit=unit,
        confidence=confidence,
        few=isinstance(statistic, Mean) and statistic.few,
    )


def _statistic(
    values: np.ndarray, family: np.ndarray, kind: Kind, column: str, confidence: float
) -> Rate | Mean:
    if kind == "rate":
        return rate(values, family, confidence)
    if kind == "iqm":
        return iqm_interval(values, family, confidence)
    return mean_interval(values, family, SPANS[column], confidence)


def _bounded(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None
