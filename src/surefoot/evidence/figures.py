"""Figures: an estimate that never travels without its interval, its n and its effective n."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from surefoot.contract.model import Frozen
from surefoot.evidence.statistics import Mean, Rate, iqm_interval, mean_interval, rate

Kind = Literal["rate", "mean", "iqm"]
HEADLINE: dict[str, tuple[str, Kind]] = {
    "success": ("success", "rate"),
    "fall": ("fall", "rate"),
    "velocity_error_mps": ("velocity_error_mps", "mean"),
    "yaw_error_radps": ("yaw_error_radps", "mean"),
    "cost_of_transport": ("cost_of_transport", "mean"),
    "return_iqm": ("return", "iqm"),
}
"""Figure -> column of the rows, and how it is summarised."""
_STATISTICS: dict[Kind, Callable[[np.ndarray, np.ndarray], Rate | Mean]] = {
    "rate": rate,
    "mean": mean_interval,
    "iqm": iqm_interval,
}


class Figure(Frozen):
    """A headline figure over the episodes where it was measured."""

    value: float
    low: float | None
    """None: unbounded (a single family bounds nothing)."""
    high: float | None
    n: int
    n_eff: float
    families: int
    few: bool = False
    """Too few families for the interval of a mean to be trusted if values are skewed (docs/evidence.md)."""


def figure(values: np.ndarray, family: np.ndarray, kind: Kind) -> Figure | None:
    """The figure of a column, over its finite values; None where there are none."""
    known = np.isfinite(values) if values.dtype.kind == "f" else np.ones(len(values), bool)
    if not known.any():
        return None
    found = _STATISTICS[kind](values[known], family[known])
    return Figure(
        value=found.value,
        low=_bounded(found.low),
        high=_bounded(found.high),
        n=found.n,
        n_eff=found.n_eff,
        families=len(np.unique(family[known])),
        few=isinstance(found, Mean) and found.few,
    )


def headline(rows: Mapping[str, np.ndarray]) -> dict[str, Figure]:
    """Every headline figure that the rows can give."""
    found = {
        name: figure(rows[column], rows["family"], kind)
        for name, (column, kind) in HEADLINE.items()
        if column in rows
    }
    return {name: f for name, f in found.items() if f is not None}


def _bounded(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None
