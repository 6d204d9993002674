"""Whether a policy works, in one word, by one rule wherever it is said: in the terminal and on the page."""

from __future__ import annotations

from typing import Literal

Grade = Literal["good", "mixed", "bad", "unproven"]

RELIABLE_AT = 0.9
"""The lower end of the success interval of a reliable policy."""
FAILING_BELOW = 0.5
"""The success of a failing one."""
WORDS: dict[Grade, str] = {
    "good": "Reliable",
    "mixed": "Partly working",
    "bad": "Failing",
    "unproven": "Unproven",
}
RULE = (
    f"Reliable: the lower end of the success interval is at least {RELIABLE_AT:.0%}, the safety limit holds "
    f"and every baseline that was measured is beaten. Failing: success below {FAILING_BELOW:.0%}, the safety "
    "limit broken, or a baseline not beaten. In between: partly working. Unproven: the run's files "
    "contradict each other, or an audit found that it is not what it says."
)


def judge(success: float, low: float, safety_held: bool | None, beats_baselines: bool | None) -> Grade:
    """Judges by `RULE`; `beats_baselines` is None where no baseline was measured, `safety_held` where there
    is no limit."""
    if success < FAILING_BELOW or safety_held is False or beats_baselines is False:
        return "bad"
    return "good" if low >= RELIABLE_AT else "mixed"
