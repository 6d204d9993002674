"""Are rows those of their scenarios? Some of a few columns are played again by the project's evaluator."""

from __future__ import annotations

import math

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.contract import NOMINAL
from surefoot.evidence import passes_of
from surefoot.replays import NATURAL_RATE, ColumnSample, replay_sample
from surefoot.runs import read_rows, read_summary

ROWS, OTHERS = 8, 2
"""Rows of a column, and columns beside the nominal one on one engine, all by the audit's seed."""


def look(case: Case) -> list[Found]:
    """Plays rows of the nominal columns and of some others again."""
    folders = passes_of(case.run)
    if not folders:
        raise NotApplicable("nothing was evaluated on a panel")
    rows = [read_rows(f, read_summary(f)) for f in folders]
    if any("states_digest" not in r for r in rows):
        raise NotApplicable("its rows are of before episodes could be replayed")
    there = sorted({(str(c), str(e)) for r in rows for c, e in zip(r["column"], r["engine"], strict=True)})
    numbers = case.numbers("replays")
    shuffled = [there[i] for i in numbers.permutation(len(there))]
    nominal = [pair for pair in shuffled if pair[0] == NOMINAL]
    others = [pair for pair in shuffled if pair[0] != NOMINAL]
    played = {*nominal[:1], *others[:OTHERS]}
    seed = int(numbers.integers(2**31))
    sample = replay_sample(case.run, folders, ROWS, seed, lambda column, engine: (column, engine) in played)
    if not sample.columns:
        raise NotApplicable(f"no column could be played here: {'; '.join(sample.unseen[:2])}")
    return [found for c in sample.columns for found in _said(c)]


def _said(c: ColumnSample) -> list[Found]:
    of = f"{c.column} on {c.engine} ({c.half} half)"
    cause = "panel-plant" if c.column == NOMINAL else "perturbation"
    if c.natural is None:
        if not c.differing:
            return []
        text = f"{c.differing} of {c.rows} rows of {of} are not what playing them again gives: {c.says}."
        return [Found(text, cause=cause)]
    p = by_chance(c.disagreeing, c.natural, c.rows)
    text = (
        f"{c.disagreeing} of {c.rows} rows of {of} end otherwise when they are played again; by rounding "
        f"{c.natural} do."
    )
    return [Found(text, p, cause)]


def by_chance(apart: int, natural: int, rows: int) -> float:
    """Returns the chance of `apart` of `rows` disagreeing where they do not repeat to the bit: by the natural
    rate, and beside the `natural` ones that disagree with themselves (Fisher's exact test, one-sided)."""
    each = (
        math.comb(rows, k) * NATURAL_RATE**k * (1 - NATURAL_RATE) ** (rows - k)
        for k in range(apart, rows + 1)
    )
    both = apart + natural
    pairs = (math.comb(rows, k) * math.comb(rows, both - k) for k in range(apart, min(rows, both) + 1))
    return max(math.fsum(each), sum(pairs) / math.comb(2 * rows, both))


DETECTORS = (
    Detector(
        name="panel-replayed",
        kind="proof",
        cause="panel-plant",
        asks="Do rows say what playing their scenarios again gives?",
        statistic="8 rows of the nominal column on one engine and of two other columns, by the audit's seed, "
        "played again by the project's own evaluator",
        threshold="to the bit where machine and versions are those that recorded them; elsewhere the natural "
        "rate of disagreement, and that of the same rows with actions moved by a ten millionth",
        means="Rows are of other episodes than they say, or an episode does not follow from its scenario: "
        "something explores, or leaks from one play into the next.",
        remedy="`surefoot verify RUN` plays more of them and names the fields that differ.",
        look=look,
        needs=("confirmed", "robot"),
    ),
)
