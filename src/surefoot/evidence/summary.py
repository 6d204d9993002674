"""Headline figures of a panel pass, each with its interval and its effective number of episodes."""

from __future__ import annotations

from collections import Counter

import numpy as np

from surefoot.contract import TaskContract
from surefoot.contract.model import Frozen
from surefoot.evidence.figures import Figure, headline
from surefoot.evidence.statistics import mean_interval, rate


class PanelSummary(Frozen):
    """What a panel pass says. Errors are means over episodes of time-means over the steps lived after
    settling."""

    schema_version: int = 1
    panel: str
    panel_digest: str
    half: str
    construct_id: str
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
    torque_saturation: float
    safety_held: bool
    end_reasons: dict[str, int]
    success_by_terrain: dict[str, float]
    seconds: float
    steps_per_second: float
    figures: dict[str, Figure] = {}
    """Every headline figure with its interval, n and effective n."""


def summarise(
    rows: dict[str, np.ndarray],
    contract: TaskContract,
    *,
    panel: str,
    panel_digest: str,
    half: str,
    construct_id: str,
    training_id: str,
    checkpoint: str,
    engine: str,
    seconds: float,
    simulated_steps: int,
) -> PanelSummary:
    """The summary of per-episode rows; everything in it can be recomputed from them."""
    family = rows["family"]
    success, fall = rate(rows["success"], family), rate(rows["fall"], family)

    def mean(name: str) -> float | None:
        known = np.isfinite(rows[name])
        return mean_interval(rows[name][known], family[known]).value if known.any() else None

    unsafe = float(np.average(rows[contract.safety.name], weights=rows["steps"]))
    terrain = {
        str(c): float(rows["success"][rows["terrain"] == c].mean()) for c in np.unique(rows["terrain"])
    }
    return PanelSummary(
        panel=panel,
        panel_digest=panel_digest,
        half=half,
        construct_id=construct_id,
        training_id=training_id,
        checkpoint=checkpoint,
        engine=engine,
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
        torque_saturation=float(np.average(rows["torque_saturation"], weights=rows["steps"])),
        safety_held=unsafe <= contract.safety.limit,
        end_reasons=dict(sorted(Counter(rows["reason"].tolist()).items())),
        success_by_terrain=terrain,
        seconds=seconds,
        steps_per_second=simulated_steps / seconds,
        figures=headline(rows),
    )
