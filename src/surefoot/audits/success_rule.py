"""Is the rule of success the contract's, to its limits? Made-up episodes lie just on either side of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.forms import hold_size
from surefoot.audits.measured import rules_of
from surefoot.audits.slow_metrics import Rules, succeeded
from surefoot.contract import BESIDE, SurefootError
from surefoot.statistics import succeeded as judged

BESIDES = (0.5, 0.97, 1.03, 2.0)
"""Where a figure lies, as a share of its limit."""
Row = Mapping[str, float | str | bool]


def limits_of(rules: Rules) -> dict[str, float]:
    """Returns the figures that the contract holds below a limit, by name."""
    s = rules.success
    out = {"velocity_error_mps": s.velocity_error_mps, "yaw_error_radps": s.yaw_error_radps}
    if s.windows is not None:
        still = s.windows.standing
        out |= {"stand_drift_m": still.drift_m, "stand_turn_rad": still.turn_rad}
    return out


def rows_at_limits(rules: Rules) -> Iterator[Row]:
    """Yields episodes of which one figure is moved across its limit, or is not known; all others are good."""
    limits, s = limits_of(rules), rules.success
    good: dict[str, float | str | bool] = {name: 0.5 * limit for name, limit in limits.items()}
    good |= {"windows_as_told": 1.0, "reason": "timeout", "fall": False}
    good |= dict.fromkeys(BESIDE, np.nan)
    for bound in s.limits:
        ends = [x for x in (bound.low, bound.high) if np.isfinite(x)]
        good[bound.metric] = sum(ends) / len(ends) if ends else 0.0
    yield good
    for name, limit in limits.items():
        yield from (good | {name: x} for x in (*(k * limit for k in BESIDES), np.nan))
    if s.windows is not None:
        share = s.windows.share
        yield from (good | {"windows_as_told": x} for x in (0.0, 0.97 * share, share, min(1.0, 1.03 * share)))
        yield good | {"windows_as_told": np.nan}
    for bound in s.limits:
        for x in (bound.low, bound.high):
            if np.isfinite(x):
                step = 0.03 * (abs(x) or 1.0)
                yield from (good | {bound.metric: y} for y in (x - step, x + step))
    for reason in ("nonfinite", *(t.name for t in rules.contract.terminations)):
        yield good | {"reason": reason, "fall": True}


def look(case: Case) -> list[Found]:
    """Asks the run's own rule about episodes at the limits."""
    rules = rules_of(case)
    rows = [r for r in rows_at_limits(rules) if succeeded(r, rules) is not None]
    table = {name: np.array([r[name] for r in rows]) for name in rows[0]}
    try:
        there = np.asarray(judged(table, rules.contract))
    except SurefootError as error:
        return [Found(f"The rule of success does not take figures at its limits: {error}")]
    hold_size("Successes", there, (len(rows),), "metric")
    right = [bool(succeeded(r, rules)) for r in rows]
    wrong = [k for k, (a, b) in enumerate(zip(there.tolist(), right, strict=True)) if bool(a) != b]
    if not wrong:
        return []
    moved = rows[wrong[0]]
    name = next((k for k in moved if str(moved[k]) != str(rows[0][k])), "every figure good")
    return [
        Found(
            f"Of {len(rows)} made-up episodes with a figure beside its limit {len(wrong)} are judged "
            f"otherwise than the contract says: one with {name} = {moved.get(name, '')} "
            f"{'is a failure' if right[wrong[0]] is False else 'is a success'} by it."
        )
    ]


DETECTORS = (
    Detector(
        name="success-rule",
        kind="proof",
        cause="metric",
        asks="Is the rule of success the contract's, to its limits?",
        statistic="made-up episodes in which one figure lies 3% below or above its limit, is far from it or "
        "is not known, and one for each way to end, by the run's own rule and by another's code",
        threshold="none: outcomes are exact; figures on a limit are not asked",
        means="Episodes succeed that the contract calls failures, or the reverse, however few there were.",
        remedy="Look at statistics/success.py, at the limit that is named.",
        look=look,
        needs=("robot",),
        short=True,
    ),
)
