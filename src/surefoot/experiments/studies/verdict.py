"""Did more of it help? A word per step between neighbouring values, and one sentence per budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from surefoot.contract import Frozen
from surefoot.experiments.studies.design import BUDGETS, Budget, Design, Knob
from surefoot.experiments.studies.figures import JUDGED, Step
from surefoot.statistics import percent

Outcome = Literal["helped", "did not help", "made it worse", "undecided"]
RULE = (
    "Differences of held-out success, paired by training seed. Helped: the 95% interval lies above 0. Made "
    "it worse: below 0. Did not help: it ends below the margin, so a gain that large is excluded. Undecided: "
    "none of these, or no policy has learned anything yet. Every step is judged at 95% on its own."
)


class StepVerdict(Frozen):
    lower: int
    upper: int
    outcome: Outcome
    sentence: str


class Verdict(Frozen):
    """Holds what a study says under one budget."""

    budget: Budget
    sentence: str
    steps: tuple[StepVerdict, ...]


def judge(s: Step, margin: float) -> Outcome:
    """Judges a step by the interval alone, except where nothing has been learned or nothing varies."""
    if s.low is None or s.high is None:
        return "undecided"
    if max(s.a, s.b) <= margin:  # neither has learned: equal failure is no evidence about learning
        return "undecided"
    at_ceiling = min(s.a, s.b) >= 1 - margin
    if s.low == s.high:  # the same in every seed: nothing bounds what was not seen
        return "did not help" if at_ceiling else "undecided"
    if s.low > 0:
        return "helped"
    if s.high < 0:
        return "made it worse"
    return "did not help" if s.high < margin or at_ceiling else "undecided"


def verdicts(steps: Sequence[Step], design: Design, seconds: float | None) -> list[Verdict]:
    """Returns a verdict per budget that has anything to compare."""
    out = []
    for budget in BUDGETS:
        judged = [s for s in steps if (s.budget, s.figure) == (budget, JUDGED)]
        if judged:
            out.append(_verdict(judged, design, budget, seconds))
    return out


def _verdict(steps: Sequence[Step], design: Design, budget: Budget, seconds: float | None) -> Verdict:
    judged = tuple(
        StepVerdict(
            lower=s.lower,
            upper=s.upper,
            outcome=judge(s, design.margin),
            sentence=_sentence(s, design.knob, design.margin),
        )
        for s in steps
    )
    spent = f"{design.samples:,} samples" if budget == "samples" else f"{seconds or 0:.3g} s of training"
    return Verdict(
        budget=budget,
        sentence=f"With the same {spent}: {headline(judged, design.knob)}",
        steps=judged,
    )


def headline(judged: Sequence[StepVerdict], knob: Knob) -> str:
    """Says the steps in one sentence."""
    outcomes = [s.outcome for s in judged]
    more = knob.more[0].lower() + knob.more[1:]
    first, last = judged[0].lower, judged[-1].upper
    if set(outcomes) == {"undecided"}:
        return f"whether {more} help{'s' if knob.more.startswith('A ') else ''} is undecided here."
    if set(outcomes) == {"helped"}:
        return f"{more} helped, from {first:,} up to {last:,}."
    if not {"helped", "undecided"} & set(outcomes):
        worse = [s for s in judged if s.outcome == "made it worse"]
        tail = "; " + ", ".join(f"{s.lower:,} to {s.upper:,} made it worse" for s in worse) if worse else ""
        return f"{more} did not help here{tail}."
    return f"{more}: " + ", ".join(f"{s.lower:,} to {s.upper:,} {_short(s.outcome)}" for s in judged) + "."


def _short(outcome: Outcome) -> str:
    return "is undecided" if outcome == "undecided" else outcome


def _sentence(s: Step, knob: Knob, margin: float) -> str:
    outcome = judge(s, margin)
    gap = (
        f"success {percent(s.a)} to {percent(s.b)}, {_points(s.difference)} points"
        f" ({_points(s.low)} to {_points(s.high)}, {s.seeds} seeds)"
    )
    if outcome == "did not help" and min(s.a, s.b) >= 1 - margin:
        why = f"there was no room: both are within {100 * margin:g} points of 100%"
    elif outcome == "did not help":
        why = f"a gain of {100 * margin:g} points or more is excluded"
    elif outcome != "undecided":
        why = ""
    elif max(s.a, s.b) <= margin:
        why = "neither has learned anything yet, take a larger budget"
    elif s.low is not None and s.low == s.high:
        why = "every seed gave the same difference, which bounds nothing"
    else:
        why = f"neither a gain nor the absence of one of {100 * margin:g} points is shown"
    step = f"{s.lower:,} to {s.upper:,} {knob.unit} {_short(outcome)}"
    return f"{step}: {gap}{f'; {why}' if why else ''}. {_power(s)}"


def _power(s: Step) -> str:
    if not s.detectable:
        return "What difference could be found is not known: there is no spread over seeds to tell."
    if s.detectable > 1:
        return "No difference could be found with 80% power, however large: take more seeds."
    return f"A true difference of {100 * s.detectable:.1f} points would be found with 80% power."


def _points(x: float | None) -> str:
    return "unbounded" if x is None else f"{100 * x:+.1f}"
