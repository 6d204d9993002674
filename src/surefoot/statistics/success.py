"""The rule of a contract applied to rows: says which episodes succeeded."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from surefoot.contract import Contract, ExternalContract, Success, TaskContract


def succeeds(rows: Mapping[str, np.ndarray], rule: Success) -> np.ndarray:
    """Returns [N] whether each row is a success. What was not measured (NaN) is none, but for limits that a
    task declares."""
    good = ~np.asarray(rows["fall"], bool)
    good &= rows["velocity_error_mps"] < rule.velocity_error_mps
    good &= rows["yaw_error_radps"] < rule.yaw_error_radps
    if w := rule.windows:
        good &= rows["windows_as_told"] >= w.share
        good &= ~(rows["stand_drift_m"] > w.standing.drift_m)  # NaN where it was told to move
        good &= ~(rows["stand_turn_rad"] > w.standing.turn_rad)
    for limit in rule.limits:
        good &= ~(rows[limit.metric] < limit.low) & ~(rows[limit.metric] > limit.high)
    return np.asarray(good)


def succeeded(rows: Mapping[str, np.ndarray], contract: Contract) -> np.ndarray:
    """Returns [N] whether each row is a success by its own end and figures, under any contract."""
    reason = rows["reason"].astype(str)
    if isinstance(contract, ExternalContract):
        wanted = contract.success.return_at_least
        enough = reason == "timeout" if wanted is None else rows["return"] >= wanted
        return np.asarray(enough & (reason != "nonfinite"))
    assert isinstance(contract, TaskContract)
    return succeeds({**rows, "fall": reason != "timeout"}, contract.success)
