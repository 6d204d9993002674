"""What a panel of n independent scenarios can show: the smallest true success that earns a word."""

from __future__ import annotations

from surefoot.contract import SurefootError
from surefoot.statistics.rates import check_confidence, clopper_pearson

POWER = 0.8


def successes_needed(n: int, at_least: float, confidence: float = 0.95) -> int | None:
    """Returns the fewest of `n` independent successes whose interval begins at `at_least` or above; None
    where not even all of them do."""
    check_confidence(confidence)
    if n < 1:
        raise SurefootError(f"A panel has one scenario or more, not {n}.")
    low, high = 0, n + 1  # the bound grows with the successes: bisection
    while low < high:
        middle = (low + high) // 2
        enough = middle > n or clopper_pearson(middle / n, n, confidence)[0] >= at_least
        low, high = (low, middle) if enough else (middle + 1, high)
    return low if low <= n else None


def smallest_true_rate(
    n: int, at_least: float, power: float = POWER, confidence: float = 0.95
) -> float | None:
    """Returns the smallest true success with which `n` independent scenarios show at least `at_least` with
    probability `power`, by the binomial distribution; None where no success would."""
    from scipy.special import betaincinv

    needed = successes_needed(n, at_least, confidence)
    if needed is None:
        return None
    # P(X >= k | p) of Binomial(n, p) is the regularised incomplete beta function I_p(k, n - k + 1)
    return float(betaincinv(needed, n - needed + 1, power)) if needed else 0.0
