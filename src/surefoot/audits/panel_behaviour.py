"""Remarks on how held-out episodes were lived: standing where a walk was asked, along the edge of a fall."""

from __future__ import annotations

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.kept_traces import traces
from surefoot.audits.training_behaviour import LONG
from surefoot.contract import NOMINAL, TRAINED

ASKED_MPS = 0.3
"""Commands from here on ask for a walk."""
STANDS, ALL_STAND = 0.1, 0.8
"""Share of the commanded way below which a robot stands, and of episodes in which it does."""
EDGE = 0.1
"""How much nearer a threshold is brought."""
SKIMMED = 0.2
"""Share of successes that such a threshold would take; clean runs: none."""
NEAR, MUCH = 0.05, 0.25
"""Nearness to a threshold as a share of it, and the share of an episode's time there that is much."""
FEW = 8
Rows = dict[str, np.ndarray]


def _nominal(case: Case) -> Rows:
    t = case.result.table
    own = (t["column"].astype(str) == NOMINAL) & (t["policy"].astype(str) == TRAINED)
    return {k: v[own] for k, v in t.items()}


def look_at_standing(case: Case) -> list[Found]:
    """Looks at episodes that ask for a walk, of runs whose reward has risen and that had time to learn."""
    if len(case.ledger) < LONG:
        raise NotApplicable(f"it has fewer than {LONG} updates")
    rows = _nominal(case)
    speed = np.hypot(rows["command_vx"], rows["command_vy"])
    asked = speed >= ASKED_MPS
    if asked.sum() < FEW:
        raise NotApplicable(f"fewer than {FEW} held-out episodes ask for a walk")
    late = rows["reason"].astype(str) == "timeout"
    stands = asked & late & (np.abs(rows["distance_m"] / (speed * rows["lived_s"] + 1e-9)) < STANDS)
    share = float(stands.sum() / asked.sum())
    third = len(case.ledger) // 3
    parts = (case.ledger[:third], case.ledger[-third:])
    paid, earned = (float(np.mean([r["reward_per_step"] for r in part])) for part in parts)
    if share < ALL_STAND or earned <= paid:
        return []
    return [
        Found(
            f"It stands still in {100 * share:.0f}% of the {int(asked.sum())} held-out episodes that ask for "
            f"a walk, while its reward per step rose from {paid:.3g} to {earned:.3g}."
        )
    ]


def look_at_edges(case: Case) -> list[Found]:
    """Moves each threshold by a tenth: how many successes are left, and how much time is spent beside it?"""
    contract, rows = case.robot.task.contract, _nominal(case)
    params = {t.name: t.params for t in contract.terminations}
    found, success = [], rows["success"].astype(bool)
    if (gz := params.get("tilted", {}).get("gravity_z")) is not None and success.sum() >= FEW:
        edge = float(np.arccos(np.clip(-gz * (1 + EDGE), -1, 1)))
        lost = float((rows["peak_tilt_rad"][success] > edge).mean())
        if lost > SKIMMED:
            text = (
                f"With 'tilted' a tenth tighter {100 * lost:.0f}% of {int(success.sum())} successes are lost."
            )
            found.append(Found(text))
    kept = [t for t in traces(case) if str(t.about["policy"]) == TRAINED and t.column == NOMINAL]
    for name in ("tilted", "sunk"):
        limit = params.get(name, {}).get("gravity_z" if name == "tilted" else "height_m")
        if limit is None:
            continue
        times = [
            float(
                (t.gravity_z > limit * (1 + NEAR)).mean()
                if name == "tilted"
                else (t.above < limit * (1 + NEAR)).mean()
            )
            for t in kept
            if t.reason == "timeout"
        ]
        much = sum(x > MUCH for x in times)
        if len(times) >= 4 and much > len(times) / 2:
            text = f"In {much} of {len(times)} kept episodes a robot is within 5% of '{name}'"
            found.append(Found(f"{text} for a quarter of its time."))
    return found


DETECTORS = (
    Detector(
        name="stands-still",
        kind="behaviour",
        cause="behaviour",
        asks="Does the robot walk where a walk is asked?",
        statistic="distance as a share of what was commanded, in held-out episodes above 0.3 m/s; reward per "
        "step in the first and in the last third of a run of 100 updates and more",
        threshold="below a tenth in four of five episodes that were lived to their end, with a risen reward",
        means="Standing pays better than what the task asks for.",
        remedy="Compare the return of the hold-pose baseline with the policy's, term by term.",
        look=look_at_standing,
        needs=("confirmed", "robot", "ledger"),
    ),
    Detector(
        name="skims-terminations",
        kind="behaviour",
        cause="behaviour",
        asks="Do held-out successes depend on where exactly a fall begins?",
        statistic="successes lost with 'tilted' a tenth tighter; time within 5% of 'tilted' and 'sunk' in "
        "kept nominal episodes",
        threshold="a fifth of successes (clean runs: none), or a quarter of the time in most episodes",
        means="The policy lives at the edge of what the contract calls a fall.",
        remedy="Tighten the termination, or add a term that keeps away from it.",
        look=look_at_edges,
        needs=("confirmed", "robot"),
    ),
)
