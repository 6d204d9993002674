"""A random sample of a run's rows played again, within each column and half, and compared with what was
recorded; with the chance that a forgery of a few rows would have been missed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.compute import prepare_torch
from surefoot.contract import Column, SurefootError, as_half
from surefoot.evaluation import PanelEvaluator
from surefoot.replays.episode import policy_of, with_panel
from surefoot.replays.recorded import Recorded, differing
from surefoot.runs import RunFolder, load_pass, versions
from surefoot.statistics import split_columns
from surefoot.training import RobotPlan, restore_robot_plan

FORGED = 0.05
"""The share of a column's rows whose forgery the sample is to find."""
ROWS = 59
"""Rows a column: 0.95^59 is below 5%."""
ALPHA = 0.01
"""Chance of calling an honest run forged, over all columns together, where rows differ by chance."""
SAME = ("torch", "mujoco", "numpy", "cpu", "surefoot")
"""Where these versions agree, an episode repeats to the bit."""
NATURAL_RATE = 0.02
"""Share of honest rows that disagree when they are played on another machine: rounded up from what
benchmarks/natural_rate.py measured."""
ERROR_GAP = 0.05
"""m/s (and twice as much in rad/s): how far the errors of the same episode may be apart by chance."""


@dataclass(frozen=True)
class ColumnSample:
    """What came of playing some rows of one column again."""

    half: str
    column: str
    engine: str
    rows: int
    of: int
    differing: int
    """Rows that are not the same to the bit, metrics to rounding."""
    disagreeing: int
    """Rows with another outcome, or errors further apart than rounding explains."""
    missed: float
    """Chance that a forgery of 5% of the column is not found by this."""
    holds: bool
    says: str = ""


@dataclass(frozen=True)
class Sample:
    """All columns that were sampled."""

    seed: int
    exact: bool
    """Whether episodes repeat to the bit here, so that one row that differs is enough."""
    columns: tuple[ColumnSample, ...]
    unseen: tuple[str, ...] = ()
    """Columns that could not be played here, and why."""

    @property
    def holds(self) -> bool:
        return all(c.holds for c in self.columns)


def replay_sample(run: RunFolder, folders: list[Path], rows: int = ROWS, seed: int = 0) -> Sample:
    """Plays `rows` random rows of each column in each of `folders` again."""
    if rows < 1:
        raise SurefootError(f"--rows is {rows}; use 1 or more.")
    plan = restore_robot_plan(run)
    prepare_torch()
    then, now = run.record.versions, versions()
    alike = all(then.get(k) == now.get(k) for k in SAME)
    rng = np.random.default_rng(seed)
    parts = [(f, p) for f in folders for p in _parts(run, f)]
    out, unseen = [], []
    for folder, (column, engine, part) in parts:
        exact = alike and not (part.get("device", np.array(["cpu"])).astype(str) != "cpu").any()
        chosen = np.sort(rng.choice(len(part["scenario"]), min(rows, len(part["scenario"])), replace=False))
        try:
            again = _play(run, plan, folder, {k: v[chosen] for k, v in part.items()}, engine)
        except SurefootError as error:
            unseen.append(f"{column} on {engine}: {error}")
            continue
        was = [{k: v[i] for k, v in part.items()} for i in chosen]
        out.append(_judged(folder, was, again, len(part["scenario"]), exact, len(parts)))
    return Sample(seed, alike, tuple(out), tuple(unseen))


def _parts(run: RunFolder, folder: Path) -> Iterator[tuple[str, str, dict[str, np.ndarray]]]:
    table = load_pass(run, folder).table
    if "states_digest" not in table or "scenario" not in table:
        raise SurefootError(
            f"{folder} was written before episodes could be replayed; evaluate the run again."
        )
    return split_columns(table)


def _play(
    run: RunFolder, plan: RobotPlan, folder: Path, part: dict[str, np.ndarray], engine: str
) -> list[dict[str, Any]]:
    """Plays the scenarios of `part`, all of one column, and returns their rows."""
    summary = load_pass(run, folder).stated
    assert summary is not None
    like = Recorded(folder, summary, {k: v[0] for k, v in part.items()})
    plan = with_panel(plan, like)
    policy, name = policy_of(plan, run, like)
    half = as_half(summary.half)
    numbers = {n: k for k, n in enumerate(plan.panel.numbers(half))}
    places = [numbers.get(int(s), -1) for s in part["scenario"].tolist()]
    if -1 in places:
        raise SurefootError("its rows name scenarios that its panel does not have.")
    column: Column = like.column
    order = sorted(set(places))
    evaluator = PanelEvaluator(plan.task, plan.panel, half, plan.recipe.control_hz, engine=engine, only=order)
    try:
        rows = evaluator.run(policy, column, name=name, traces=False).rows
    finally:
        evaluator.close()
    at = {p: i for i, p in enumerate(order)}
    return [{k: v[at[p]] for k, v in rows.items()} for p in places]


def _judged(
    folder: Path, was: list[dict[str, Any]], again: list[dict[str, Any]], of: int, exact: bool, columns: int
) -> ColumnSample:
    pairs = list(zip(was, again, strict=True))
    odd = [(a, differing(a, b)) for a, b in pairs]
    odd = [(a, names) for a, names in odd if names]
    apart = sum(disagrees(a, b) for a, b in pairs)
    n = len(pairs)
    if exact:
        holds, missed = not odd, chance_missed(n, of)
    else:
        limit = most_by_chance(n, ALPHA / columns)
        holds, missed = apart <= limit, _at_most(limit, n, NATURAL_RATE + FORGED * (1 - NATURAL_RATE))
    says = ""
    if odd and exact:
        first, names = odd[0]
        says = f"scenario {first['scenario']}: {', '.join(names[:4])}{' ...' if len(names) > 4 else ''}"
    return ColumnSample(
        str(was[0]["half"]), str(was[0]["column"]), str(was[0]["engine"]), n, of, len(odd), apart, missed,
        holds, says,
    )  # fmt: skip


def disagrees(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Returns whether two rows of one scenario differ by more than rounding does: in how it ended, or in
    their errors."""
    if any(bool(a[k]) != bool(b[k]) for k in ("success", "fall")):
        return True
    for name, gap in (("velocity_error_mps", ERROR_GAP), ("yaw_error_radps", 2 * ERROR_GAP)):
        x, y = float(a[name]), float(b[name])
        if math.isfinite(x) != math.isfinite(y) or abs(x - y) > gap:
            return True
    return False


def chance_missed(rows: int, of: int, forged: float = FORGED) -> float:
    """Returns the chance that none of `rows` drawn from `of` is among the forged share of them."""
    wrong = math.ceil(forged * of)
    if rows > of - wrong:
        return 0.0
    return math.comb(of - wrong, rows) / math.comb(of, rows)


def most_by_chance(rows: int, alpha: float, natural: float = NATURAL_RATE) -> int:
    """Returns the most rows that may disagree before chance alone would do that less often than `alpha`."""
    k = 0
    while 1 - _at_most(k, rows, natural) > alpha:
        k += 1
    return k


def _at_most(k: int, n: int, p: float) -> float:
    return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))
