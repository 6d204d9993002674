"""Headline figures of a panel pass, each with its interval and its effective number of episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from surefoot.contract import NOMINAL, REFERENCE, TRAINED, Contract, Frozen, TaskContract
from surefoot.statistics.columns import (
    Agreement,
    ColumnSummary,
    agreement,
    beats_baselines,
    column_summary,
    split_columns,
    transfer,
)
from surefoot.statistics.estimates import Estimate, headline, rate_estimate
from surefoot.statistics.looks import confidence_of
from surefoot.statistics.rates import rate


class PanelSummary(Frozen):
    """What a panel pass says. Errors are means over episodes of time-means over the steps taken after
    settling."""

    schema_version: int = 3
    """Raised whenever the same rows give other figures: those of an older one are not compared with today's.
    3: intervals of means over scenarios that repeat commands have two clusters."""
    panel: str
    panel_digest: str
    half: str
    construct_id: str
    """The measurement id; before there was one, the construct id."""
    training_id: str
    checkpoint: str
    """Digest of the evaluated checkpoint."""
    engine: str
    episodes: int
    effective_episodes: float
    """The independent episodes that the interval of `success` is worth."""
    families: int
    success: float
    success_low: float
    success_high: float
    fall_rate: float
    fall_low: float
    fall_high: float
    velocity_error_mps: float | None
    yaw_error_radps: float | None
    cost_of_transport: float | None
    torque_saturation: float | None
    safety_held: bool | None
    """None: an outside simulator does not tell torques, and its contract has no safety constraint."""
    end_reasons: dict[str, int]
    success_by_terrain: dict[str, float]
    terrain: dict[str, Estimate] = {}
    """Success by terrain class of the nominal column, with intervals."""
    seconds: float
    steps_per_second: float
    figures: dict[str, Estimate] = {}
    """Every headline figure with its interval, n and effective n."""
    normaliser: str = ""
    """Digest of the policy's normaliser; empty for baselines and in tables of before version 2."""
    labels: dict[str, int] = {}
    causes: dict[str, int] = {}
    columns: tuple[ColumnSummary, ...] = ()
    transfer: tuple[str, ...] = ()
    """Columns and terrain classes on which the policy is shown to hold: success interval from 80% up. The
    intervals stand in `columns` and in `terrain`."""
    agreement: tuple[Agreement, ...] = ()
    beats_baselines: bool | None = None
    look: int = 0
    """The look at which a sequential confirmation stopped; 0: all scenarios were played at once."""
    confidence: float = 0.95
    """The confidence of every interval of the headline column; higher where it was looked at as it came."""
    total_seconds: float | None = None
    """Wall-clock of all columns."""
    total_steps_per_second: float | None = None
    measurement_id: str = ""
    """Digest of `measurement`. Empty in files of before there was one, as the three fields after it."""
    interface_id: str = ""
    measurement: dict[str, Any] = {}
    """How it was measured, by name: what must match before it may be compared."""
    engines: dict[str, str] = {}
    """What tells versions apart of the engines that its columns were run on."""

    @property
    def on_terrain(self) -> bool:
        """Returns whether a panel has other ground than a plane, so that it matters whose contact it is."""
        return bool(self.terrain.keys() - {"flat"})


@dataclass(frozen=True)
class PassInfo:
    """Says what the rows of a pass do not: what was measured, and how long it took."""

    panel: str
    panel_digest: str
    half: str
    construct_id: str
    training_id: str
    checkpoint: str
    engine: str
    """Engine of the headline column."""
    seconds: float
    """Wall-clock of the headline column."""
    steps: int
    """Environment steps that were simulated for it."""
    normaliser: str = ""
    total_seconds: float | None = None
    total_steps: int = 0
    interface_id: str = ""
    measurement: Mapping[str, Any] = field(default_factory=dict)
    engines: Mapping[str, str] = field(default_factory=dict)
    shifts: Mapping[str, str] = field(default_factory=dict)
    """Column -> digest of what its perturbation makes of the panel."""


def summarise(rows: dict[str, np.ndarray], contract: Contract, info: PassInfo) -> PanelSummary:
    """Summarises per-episode rows; everything in it but the clock can be recomputed from them.

    The headline is the nominal column on `info.engine`; the others stand in `columns`.
    """
    parts = list(split_columns(rows)) if "column" in rows else []
    nominal = {e: r for c, e, r in parts if r["policy"][0] == TRAINED and c == NOMINAL}
    rows = nominal.get(info.engine, rows)
    if parts and info.engine not in nominal:  # a baseline evaluated as if it were a policy
        rows = parts[0][2]
    reference = nominal.get(REFERENCE)
    others = [r for e, r in nominal.items() if e != REFERENCE]
    agreements = [agreement(reference, r) for r in others] if reference else []
    columns = [column_summary(r, contract) for _, _, r in parts]
    columns = [c.model_copy(update={"shift": info.shifts.get(c.column, "")}) for c in columns]
    family = rows["family"]
    confidence = confidence_of(rows)
    success, fall = (rate(rows[k], family, confidence) for k in ("success", "fall"))

    def mean(name: str) -> float | None:
        known = np.isfinite(rows[name])
        return float(rows[name][known].mean()) if known.any() else None

    def share(name: str) -> float | None:
        """Averages over the steps before the ends of episodes."""
        known = np.isfinite(rows[name])
        return float(np.average(rows[name][known], weights=rows["steps"][known])) if known.any() else None

    safety = contract.safety if isinstance(contract, TaskContract) else None
    unsafe = share(safety.name) if safety else None
    terrain: dict[str, Estimate] = {}
    for c in np.unique(rows["terrain"][rows["terrain"] != ""]):
        at = rows["terrain"] == c
        terrain[str(c)] = rate_estimate(rows["success"][at], family[at], confidence)
    return PanelSummary(
        panel=info.panel,
        panel_digest=info.panel_digest,
        half=info.half,
        construct_id=info.construct_id,
        training_id=info.training_id,
        checkpoint=info.checkpoint,
        engine=info.engine,
        episodes=len(family),
        effective_episodes=round(success.n_eff, 2),
        families=len(np.unique(family)),
        success=success.value,
        success_low=success.low,
        success_high=success.high,
        fall_rate=fall.value,
        fall_low=fall.low,
        fall_high=fall.high,
        velocity_error_mps=mean("velocity_error_mps"),
        yaw_error_radps=mean("yaw_error_radps"),
        cost_of_transport=mean("cost_of_transport"),
        torque_saturation=share("torque_saturation"),
        safety_held=unsafe <= safety.limit if safety and unsafe is not None else None,
        end_reasons=dict(sorted(Counter(rows["reason"].tolist()).items())),
        success_by_terrain={c: f.value for c, f in terrain.items()},
        terrain=terrain,
        seconds=info.seconds,
        steps_per_second=info.steps / info.seconds,
        figures=headline(rows),
        normaliser=info.normaliser,
        labels=_counts(rows, "label"),
        causes=_counts(rows, "cause"),
        columns=tuple(columns),
        transfer=transfer(columns, terrain) if columns else (),
        agreement=tuple(a for a in agreements if a is not None),
        beats_baselines=beats_baselines(columns),
        look=int(rows["look"].max()) if "look" in rows else 0,
        confidence=confidence,
        total_seconds=info.total_seconds,
        total_steps_per_second=info.total_steps / info.total_seconds if info.total_seconds else None,
        measurement_id=info.construct_id if info.measurement else "",
        interface_id=info.interface_id,
        measurement=dict(info.measurement),
        engines=dict(info.engines),
    )


def _counts(rows: dict[str, np.ndarray], name: str) -> dict[str, int]:
    return dict(sorted(Counter(x for x in rows.get(name, np.zeros(0)).tolist() if x).items()))
