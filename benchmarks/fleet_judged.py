"""What held-out episodes show, said as the fleet's benchmarks say it."""

from __future__ import annotations

import numpy as np

from surefoot.contract import Success
from surefoot.statistics import rate


def spoken(values: np.ndarray, family: np.ndarray) -> dict[str, float]:
    """Returns the share of episodes that are true, with its interval."""
    found = rate(values, family)
    return {"success": found.value, "low": found.low, "high": found.high, "n": found.n, "n_eff": found.n_eff}


def by_mean_errors(rows: dict[str, np.ndarray], limits: Success) -> np.ndarray:
    """Judges episodes by falls and mean errors alone, as the rule's version 1 did."""
    good = (rows["velocity_error_mps"] < limits.velocity_error_mps) & ~rows["fall"].astype(bool)
    return np.asarray(good & (rows["yaw_error_radps"] < limits.yaw_error_radps))
