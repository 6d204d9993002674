"""Did more of it help? A word per step between neighbouring values, and one sentence per budget.

Two things are said of each step and never one: what became of the typical seed, and how many seeds collapsed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from surefoot.contract import Frozen
from surefoot.experiments.studies.design import BUDGETS, Budget, Design, Knob
from surefoot.experiments.studies.figures import JUDGED, Step
from surefoot.statistics import (
    ALPHA,
    Collapses,
    findable,
    holm,
    more_frequent,
    percent,
    seeds_needed,
    shown_above,
    shown_below,
)

Outcome = Literal["helped", "made it worse", "no difference that matters", "undecided"]
RULE = (
    "Said of the typical seed: the median difference of held-out success, paired by training seed, by sign "
    "flips. Helped: it is shown to exceed the margin. Made it worse: shown to lie below minus the margin. No "
    "difference that matters: shown to lie within the margin on both sides, or both values are within it of "
    "100%. Undecided: none of these, or no policy has learned anything yet. All steps of a study share an "
    "error of 5% (Holm). Seeds below half of their value's median have collapsed and are counted beside it; "
    "where collapses are shown to be more frequent (Boschloo's exact test, 5%), nothing is said to help."
)


class StepVerdict(Frozen):
    lower: int
    upper: int
    outcome: Outcome
    p: float
    """The sign-flip p-value of what was or would have been said, as Holm adjusts it over the study."""
    sentence: str


class Verdict(Frozen):
    """Holds what a study says under one budget."""

    budget: Budget
    sentence: str
    steps: tuple[StepVerdict, ...]


def claim(s: Step, margin: float) -> tuple[Outcome, float]:
    """Returns what a step says most of, and its sign-flip p-value. At most one of the three can be small: the
    median difference lies above, below or within."""
    d = s.differences
    claims: list[tuple[Outcome, float]] = [
        ("helped", shown_above(d, margin)),
        ("made it worse", shown_below(d, -margin)),
        ("no difference that matters", max(shown_above(d, -margin), shown_below(d, margin))),
    ]
    return min(claims, key=lambda c: c[1])


def judge(steps: Sequence[Step], margin: float) -> list[tuple[Outcome, float]]:
    """Judges all comparisons of a study together: outcome and adjusted p-value of each."""
    claims = [claim(s, margin) for s in steps]
    adjusted = holm([p for _, p in claims])
    return [(_outcome(s, c, p, margin), p) for s, (c, _), p in zip(steps, claims, adjusted, strict=True)]


def _outcome(s: Step, said: Outcome, p: float, margin: float) -> Outcome:
    if max(s.a, s.b) <= margin:  # neither has learned: equal failure is no evidence about learning
        return "undecided"
    if no_room(s, margin):
        return "no difference that matters"
    if p > ALPHA or (said == "helped" and collapses_more(s)):
        return "undecided"
    return said


def no_room(s: Step, margin: float) -> bool:
    """Returns whether both typical seeds are within the margin of 100%."""
    return min(s.a, s.b) >= 1 - margin


def collapses_more(s: Step) -> bool:
    """Returns whether the larger value is shown to collapse more often. A veto, so on its own at 5%."""
    return more_frequent(*s.collapses) <= ALPHA


def verdicts(steps: Sequence[Step], design: Design, seconds: float | None) -> list[Verdict]:
    """Returns a verdict per budget that has anything to compare."""
    judged = [s for s in steps if s.figure == JUDGED]
    outcomes = judge(judged, design.margin)
    said = [
        (
            s.budget,
            StepVerdict(
                lower=s.lower,
                upper=s.upper,
                outcome=outcome,
                p=p,
                sentence=_sentence(s, outcome, design, len(judged)),
            ),
        )
        for s, (outcome, p) in zip(judged, outcomes, strict=True)
    ]
    out = []
    for budget in BUDGETS:
        mine = tuple(v for b, v in said if b == budget)
        if mine:
            spent = (
                f"{design.samples:,} samples" if budget == "samples" else f"{seconds or 0:.3g} s of training"
            )
            fell = _collapses([s for s in judged if s.budget == budget])
            text = f"With the same {spent}: {headline(mine, design.knob)} {fell}"
            out.append(Verdict(budget=budget, sentence=text, steps=mine))
    return out


def headline(judged: Sequence[StepVerdict], knob: Knob) -> str:
    """Says the steps in one sentence, of the typical seed."""
    outcomes = [s.outcome for s in judged]
    more = knob.more[0].lower() + knob.more[1:]
    first, last = judged[0].lower, judged[-1].upper
    if set(outcomes) == {"undecided"}:
        return f"whether {more} help{'s' if knob.more.startswith('A ') else ''} is undecided here."
    if set(outcomes) == {"helped"}:
        return f"{more} helped the typical seed, from {first:,} up to {last:,}."
    if set(outcomes) == {"no difference that matters"}:
        return f"{more} made no difference that matters to the typical seed."
    parts = ", ".join(f"{s.lower:,} to {s.upper:,} {_short(s.outcome)}" for s in judged)
    return f"{more}, for the typical seed: {parts}."


def _collapses(steps: Sequence[Step]) -> str:
    """Says how many seeds collapsed at each value."""
    by: dict[int, Collapses] = {}
    for s in steps:
        by |= {s.lower: s.collapses[0]} if s.lower not in by else {}
        by |= {s.upper: s.collapses[1]}
    return "Collapsed: " + ", ".join(f"{c.count} of {c.n} seeds at {v:,}" for v, c in by.items()) + "."


def _short(outcome: Outcome) -> str:
    return {"undecided": "is undecided", "no difference that matters": "made no difference that matters"}.get(
        outcome, outcome
    )


def _sentence(s: Step, outcome: Outcome, design: Design, comparisons: int) -> str:
    margin = design.margin
    gap = (
        f"typical success {percent(s.a)} to {percent(s.b)}, {_points(s.difference)} points"
        f" ({_points(s.low)} to {_points(s.high)} at {100 * s.confidence:.3g}%, {s.seeds} seeds)"
    )
    step = f"{s.lower:,} to {s.upper:,} {design.knob.unit} {_short(outcome)}"
    why = _why(s, outcome, margin)
    fell = "; ".join(
        f"{c.count} of {c.n} collapsed at {v:,} (a rate of {percent(c.low)} to {percent(c.high)}; lowest "
        f"{percent(c.lowest)})"
        for v, c in zip((s.lower, s.upper), s.collapses, strict=True)
    )
    return f"{step}: {gap}{f'; {why}' if why else ''}. {fell}. {_power(s, margin, comparisons)}"


def _why(s: Step, outcome: Outcome, margin: float) -> str:
    points = f"{100 * margin:g} points"
    if outcome == "no difference that matters":
        return f"there was no room: both are within {points} of 100%" if no_room(s, margin) else ""
    if outcome != "undecided":
        return ""
    if max(s.a, s.b) <= margin:
        return "neither has learned anything yet, take a larger budget"
    said, alone = claim(s, margin)
    if said == "helped" and collapses_more(s):
        return "collapses are shown to be more frequent, so it is not said to have helped"
    if alone <= ALPHA:
        return f"alone it would have {_alone(said)} (p {alone:.3f}), among the steps of this study not"
    if s.high is not None and s.high < margin and s.confidence >= 1 - ALPHA:
        return f"a gain of {points} or more is excluded by itself, a loss is not"
    return f"neither a difference of more than {points} nor its absence is shown"


def _alone(said: Outcome) -> str:
    return said if said != "no difference that matters" else "made no difference that matters"


def _power(s: Step, margin: float, comparisons: int) -> str:
    reach = findable(s.differences, ALPHA / comparisons) if s.seeds > 1 else math.inf
    if math.isinf(reach):
        need = seeds_needed(ALPHA / comparisons)
        return (
            f"{s.seeds} seeds cannot show anything at 95% among {comparisons} comparison"
            f"{'s' if comparisons > 1 else ''}, however large: {need} can."
        )
    if margin + reach > 1:
        return "No difference would be found with 80% power, however large: take more seeds."
    return f"A true difference of {100 * (margin + reach):.1f} points would be found with 80% power."


def _points(x: float | None) -> str:
    return "unbounded" if x is None else f"{100 * x:+.1f}"
