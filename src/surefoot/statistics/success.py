"""The success of an episode, told again from the figures of its row: the rule that evaluators apply to
states, read backwards."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from surefoot.contract import Contract, ExternalContract, TaskContract


def succeeded(rows: Mapping[str, np.ndarray], contract: Contract) -> np.ndarray:
    """Returns which episodes succeeded by the contract's rule."""
    reason = rows["reason"].astype(str)
    if isinstance(contract, ExternalContract):
        wanted = contract.success.return_at_least
        enough = reason == "timeout" if wanted is None else rows["return"] >= wanted
        return np.asarray(enough & (reason != "nonfinite"))
    assert isinstance(contract, TaskContract)
    rule = contract.success
    good = rows["velocity_error_mps"] < rule.velocity_error_mps
    good &= rows["yaw_error_radps"] < rule.yaw_error_radps
    return np.asarray(good & (reason == "timeout"))
