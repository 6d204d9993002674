"""Are differences between policies, and what is decided by them, what their rules say? Asked about episodes
that nobody played."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from surefoot.audits import slow_paired
from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.statistics import ALPHA, LOOKS, decision_alpha, holm, look_at, median_interval, paired

CLOSE = 1e-6
"""Relative: sums in another order, and quantiles of other libraries."""
FIGURES = ("value", "low", "high", "p", "detectable", "n_eff")
OFTEN = (10, 100, 800)
"""Scenarios of looks."""


@dataclass(frozen=True)
class Pairs:
    """How many families of how many scenarios two policies share, how often they differ, and in what."""

    families: int
    members: int
    differ: float
    kind: str
    """`rate`: success or not; `share`: a success that was averaged; `error`: a positive figure."""
    uneven: bool = False


DESIGNS = (
    Pairs(1, 6, 0.5, "rate"),
    Pairs(2, 3, 0.5, "error"),
    Pairs(5, 6, 0.0, "rate"),
    Pairs(8, 4, 0.1, "rate"),
    Pairs(11, 5, 0.9, "rate", uneven=True),
    Pairs(13, 2, 1.0, "error"),
    Pairs(14, 3, 1.0, "error", uneven=True),
    Pairs(20, 4, 0.02, "share"),
    Pairs(30, 4, 0.5, "share", uneven=True),
    Pairs(40, 1, 0.3, "rate"),
    Pairs(64, 2, 0.6, "error", uneven=True),
    Pairs(120, 1, 0.03, "rate"),
)
"""From a family that bounds nothing to a whole panel; with and without anything that differs."""
SPANS = {"rate": (0.0, 1.0), "share": (0.0, 1.0), "error": (0.0, 2.0)}


def look(case: Case) -> list[Found]:
    """Compares differences, adjusted p-values, medians over seeds, and shares of error, with other code's."""
    numbers = case.numbers("decisions")
    found = [*_differences(numbers), *_several(numbers), *_seeds(numbers), *_looks(numbers), *_decisions()]
    return [Found(text) for text in found]


def made(design: Pairs, numbers: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns what A and B got in each scenario, and its family."""
    sizes = np.full(design.families, design.members)
    if design.uneven:
        sizes = numbers.integers(1, 2 * design.members, design.families)
    family = np.repeat(np.arange(design.families) * 7 + 2, sizes)
    n = len(family)
    own = numbers.random(design.families)[(family - 2) // 7]
    differs = numbers.random(n) < design.differ
    if design.kind == "rate":
        a = (numbers.random(n) < 0.3 + 0.6 * own).astype(float)
        b = np.where(differs, (numbers.random(n) < 0.9).astype(float), a)
    elif design.kind == "share":
        a = numbers.integers(0, 9, n) / 8
        b = np.where(differs, numbers.integers(0, 9, n) / 8, a)
    else:
        a = np.exp(numbers.normal(-2 + own, 0.5))
        b = np.where(differs, a * np.exp(numbers.normal(0.1, 0.3, n)), a)
    order = numbers.permutation(n)
    return a[order], b[order], family[order]


def _differences(numbers: np.random.Generator) -> Iterator[str]:
    for d in DESIGNS:
        a, b, family = made(d, numbers)
        said = paired(a, b, family, SPANS[d.kind])
        right = slow_paired.paired(a, b, family.tolist(), SPANS[d.kind])
        for name in FIGURES:
            loose = {"p": right.luck, "value": 0.0, "detectable": 11 * right.slack}.get(name, right.slack)
            x, y = float(getattr(said, name)), float(getattr(right, name))
            if not same(x, y, loose):
                text = f"Of differences of {d.families} families of {d.members} ({d.kind}s) '{name}' is"
                yield f"{text} {x:.6g} where its rule gives {y:.6g}."
                return


def _several(numbers: np.random.Generator) -> Iterator[str]:
    for count in (0, 1, 2, 5, 12):
        p = numbers.choice([0.0, 1e-4, 0.01, 0.02, 0.04, 0.3, 1.0], count).tolist()
        said, right = holm(p), slow_paired.adjusted(p)
        if len(said) != len(right) or not all(same(x, y) for x, y in zip(said, right, strict=True)):
            yield f"Holm's adjusted p-values of {p} are {said} where his rule gives {right}."
            return


def _seeds(numbers: np.random.Generator) -> Iterator[str]:
    for count in (1, 2, 3, 5, 6, 9, 17, 25):
        values = numbers.choice(np.round(numbers.normal(0, 1, count), 1), count).tolist()
        low, high, _ = median_interval(values)
        right = slow_paired.median_ends(values)
        if (low, high) != right:
            text = f"The typical of {count} training seeds lies between {low:.3g} and {high:.3g}, and those"
            yield f"{text} that flipping signs does not reject between {right[0]:.3g} and {right[1]:.3g}."
            return


def _looks(numbers: np.random.Generator) -> Iterator[str]:
    for count in OFTEN:
        for rate in (0.5, 0.85, 0.9, 0.95, 1.0):
            success = numbers.random(count) < rate
            number = int(numbers.integers(1, len(LOOKS) + 1))
            seen = look_at(success, number)
            low, high = slow_paired.look_ends(success, len(LOOKS))
            if not (same(seen.success.low, low) and same(seen.success.high, high)):
                text = f"The interval of a look at {count} scenarios is {seen.success.low:.5g} to "
                yield f"{text}{seen.success.high:.5g}, and its part of 5% gives {low:.5g} to {high:.5g}."
                return
            over = low >= 0.9 or high < 0.9
            if (seen.decided, seen.last) != (over, over or number == len(LOOKS)):
                yield f"Look {number} of {len(LOOKS)} is taken for the last one otherwise than by its rule."
                return


def _decisions() -> Iterator[str]:
    for number in (1, 2, 3, 10, 1000):
        said, right = decision_alpha(number), slow_paired.share_of_decision(number)
        if not same(said, right):
            yield f"Decision {number} may err by {said:.4g} where the series gives it {right:.4g}."
            return
    if not same(ALPHA, slow_paired.TOGETHER):
        yield f"All decisions together may err by {ALPHA:g} and not by {slow_paired.TOGETHER:g}."


def same(x: float, y: float, loose: float = 0.0) -> bool:
    """Returns whether two figures are the same but for rounding."""
    return x == y or (math.isnan(x) and math.isnan(y)) or abs(x - y) <= CLOSE * (0.01 + abs(y)) + loose


DETECTORS = (
    Detector(
        name="decisions",
        kind="proof",
        cause="statistics",
        asks="Are differences between policies, and the error that looks and decisions may make, what their "
        "rules say?",
        statistic="paired differences with interval, p by sign flips and detectable size, of 1 to 120 "
        "families; Holm's p-values; medians over seeds; intervals of looks; the error of the k-th decision: "
        "on made-up values, by other code",
        threshold="rounding (1e-6 of a figure); six standard errors where signs are drawn; where ties leave "
        "the order of resampling open, a tenth of an interval's width",
        means="A comparison, a study or a promotion is decided by another rule than is stated.",
        remedy="Run tests/statistics; compare with docs/reference/statistics.md.",
        look=look,
    ),
)
