"""The bound on Kolmogorov and Smirnov's chance is one, and near where it matters."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from surefoot.audits.chance import kolmogorov_smirnov


@pytest.mark.parametrize("n", [5, 30, 400, 5000])
def test_the_bound_is_above_the_exact_chance_and_not_far(n: int) -> None:
    numbers = np.random.default_rng(n)
    for power in (1.0, 1.1, 1.3, 2.0):
        u = numbers.random(n) ** power
        exact = float(kstest(u, "uniform").pvalue)
        bound = kolmogorov_smirnov(u)
        assert exact * 0.999 <= bound
        assert bound <= max(2.5 * exact, 1.2 * exact + 0.2) or exact < 1e-9
