"""Remarks on what training came to: reward that held-out behaviour does not follow, ends that pay."""

from __future__ import annotations

from typing import Any

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, NotApplicable

LONG = 100
"""Updates before which a run has hardly begun: shorter ones that learned nothing are nothing to remark."""
SCORED = 3
"""Evaluations that each half of what is compared must have."""
ROSE = 0.25
"""Rise of a reward that counts, as a share of its size."""
SURE = 5.0
"""Standard errors by which a figure must have moved."""
ENOUGH = 50
"""Episodes that each third of a run must have."""


def look(case: Case) -> list[Found]:
    """Compares the two halves of the second half of a run: reward, and all that was seen of held-out
    episodes."""
    rows = case.ledger
    if len(rows) < LONG:
        raise NotApplicable(f"it has fewer than {LONG} updates")
    later = rows[len(rows) // 2 :]
    early, late = later[: len(later) // 2], later[len(later) // 2 :]
    scored = [[r for r in part if r.get("evaluation.success") is not None] for part in (early, late)]
    if min(map(len, scored)) < SCORED:
        raise NotApplicable(f"it was scored fewer than {2 * SCORED} times in its second half")
    paid, earned = (np.array([r["reward_per_step"] for r in part]) for part in (early, late))
    if not _rose(paid, earned):
        return []
    if any(_better(scored[0], scored[1], name, more) for name, more in HELD_OUT.items()):
        return []
    first, last = (np.mean([r["evaluation.success"] for r in part]) for part in scored)
    return [
        Found(
            f"Reward per step rose from {paid.mean():.3g} to {earned.mean():.3g} in the run's second half "
            f"while nothing held-out became better (success {100 * first:.0f}% to {100 * last:.0f}%)."
        )
    ]


HELD_OUT = {
    "evaluation.success": True,
    "evaluation.fall_rate": False,
    "evaluation.velocity_error_mps": False,
    "evaluation.yaw_error_radps": False,
}
"""What is looked at of held-out episodes, and whether more of it is better."""


def _rose(before: np.ndarray, after: np.ndarray) -> bool:
    """Says whether a mean rose by more than a quarter, and by more than its noise."""
    gain = after.mean() - before.mean()
    error = np.sqrt(before.var(ddof=1) / len(before) + after.var(ddof=1) / len(after))
    return bool(gain > ROSE * abs(before.mean()) and gain > SURE * error)


def _better(early: list[dict[str, Any]], late: list[dict[str, Any]], name: str, more: bool) -> bool:
    """Says whether a held-out figure is at all better later than before; those that are missing are not."""
    values = [[float(r[name]) for r in part if r.get(name) is not None] for part in (early, late)]
    if not all(values):
        return False
    before, after = (float(np.mean(v)) for v in values)
    return after > before if more else after < before


def look_at_ends(case: Case) -> list[Found]:
    """Compares the first third of a run with its last: do episodes end sooner, and is that paid?"""
    rows, e = case.ledger, case.episodes
    if len(rows) < LONG:
        raise NotApplicable(f"it has fewer than {LONG} updates")
    last = int(rows[-1]["update"])
    begun = e["episode"] > 0  # first ones begin at any age
    parts = [begun & (e["update"] <= last / 3), begun & (e["update"] > 2 * last / 3)]
    if min(int(p.sum()) for p in parts) < ENOUGH:
        raise NotApplicable(f"fewer than {ENOUGH} episodes ended in a third of it")
    length = [float(np.median(e["steps"][p])) for p in parts]
    fell = [float((e["reason"][p] > 1).mean()) for p in parts]
    floored = getattr(case.record.contract, "reward_floor", None) is not None
    if floored:  # returns are of terms before the floor
        third = len(rows) // 3
        paid = [np.array([r["reward_per_step"] for r in part]) for part in (rows[:third], rows[-third:])]
    else:
        paid = [e["return"][p].astype(np.float64) for p in parts]
    if length[1] > length[0] / 2 or fell[1] < fell[0] - 0.05 or fell[1] < 0.5 or not _rose(*paid):
        return []
    what = "reward per step" if floored else "return"
    return [
        Found(
            f"Episodes end sooner (from {length[0]:.0f} to {length[1]:.0f} steps, {100 * fell[1]:.0f}% of "
            f"them early) while their {what} rose from {paid[0].mean():.3g} to {paid[1].mean():.3g}."
        )
    ]


DETECTORS = (
    Detector(
        name="return-up-success-flat",
        kind="behaviour",
        cause="behaviour",
        asks="Did held-out behaviour follow the reward?",
        statistic="the second half of a run of 100 updates and more: reward per step, held-out success, "
        "falls and errors, in its first and in its last part",
        threshold="reward up by a quarter and by 5 standard errors, and none of the four any better; chosen "
        "so that honest runs, of which some figure still moves, are silent",
        means="What is rewarded is not what is asked for.",
        remedy="Read reward terms by their share (`surefoot report`), and watch a failure.",
        look=look,
        needs=("ledger",),
        short=True,
    ),
    Detector(
        name="ending-pays",
        kind="behaviour",
        cause="behaviour",
        asks="Did the policy learn to end its episodes?",
        statistic="length of episodes and what they are paid, in the first and in the last third of a run of "
        "100 updates and more",
        threshold="half as long, most of them early, and paid a quarter more by 5 standard errors; runs that "
        "diverge are paid less, runs that learn live longer",
        means="A fall, or what follows it, is worth more than going on.",
        remedy="Look at terms that are negative while a robot lives, and at what a reset gives it.",
        look=look_at_ends,
        needs=("ledger", "episodes"),
    ),
)
