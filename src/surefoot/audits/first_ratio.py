"""Were the samples collected by the policy that learned from them?"""

from __future__ import annotations

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found

LIMITS = {"bf16": 0.2, "tf32": 0.02, "fp32": 1e-3}
"""Largest |ratio - 1| put down to rounding, by the precision of the hidden layers' products. In fp32 clean
runs stay below 1e-5; the coarser ones are allowances for roundings of 2^-11 and 2^-8."""


def look(case: Case) -> list[Found]:
    """Reads the first ratio of every update from the ledger."""
    limit = LIMITS.get(getattr(case.record.recipe, "precision", "fp32"), LIMITS["bf16"])
    seen = [(r["update"], r.get("first_ratio_error")) for r in case.ledger]
    worst = max(((e, u) for u, e in seen if e is not None), default=None)
    if worst is None or worst[0] <= limit:
        return []
    count = sum(e is not None and e > limit for _, e in seen)
    return [
        Found(
            f"The first ratio of update {worst[1]} is off 1 by {worst[0]:.2g} (rounding: {limit:g}), in "
            f"{count} of {len(seen)} updates: samples are not of the policy that learned from them."
        )
    ]


DETECTORS = (
    Detector(
        name="first-ratio",
        kind="proof",
        cause="learning",
        asks="Were samples collected by the policy, observations and normaliser that it then learned from?",
        statistic="the largest |probability ratio - 1| before an update's first step, over all updates",
        threshold="1e-3 in fp32 (clean runs: below 1e-5), 0.02 in tf32, 0.2 in bf16: rounding",
        means="Behaviour and learning disagree about what was seen, done, or how likely it was.",
        remedy="Compare what the actor is given with what the block holds: delays, a normaliser that moves "
        "in the rollout, log-probabilities of another action.",
        look=look,
        needs=("ppo", "ledger"),
        short=True,
    ),
)
