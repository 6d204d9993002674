"""A random sample of a run's rows played again, within each column and half, and compared with what was
recorded; with the chance that a forgery of a few rows would have been missed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from surefoot.compute import prepare_torch
from surefoot.contract import TRAINED, Column, SurefootError, as_half
from surefoot.evaluation import PanelEvaluator
from surefoot.policy import Policy
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
"""Share of honest rows that disagree at least when they are played where they do not repeat to the bit; what
benchmarks/natural_rate.py measured of calm columns, rounded up. Where robots fall it is much more (a third),
so that each column's own is measured beside it, on the same rows."""
MOVED = 1e-7
"""By what share actions are moved to see what rounding makes of an episode."""
REPEATS = 0.5
"""The share of rows the same to the bit from which on a machine repeats them, whatever run.json says of its
versions."""
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
    natural: int | None
    """Rows that disagree with themselves when actions are moved by one part in ten million; None where rows
    repeat to the bit."""
    missed: float
    """Chance that a forgery of 5% of the column is not found by this."""
    holds: bool
    says: str = ""

    @property
    def held_to_the_bit(self) -> bool:
        """Whether one row that differs is enough here; elsewhere rows are held to the natural rate."""
        return self.natural is None


@dataclass(frozen=True)
class Sample:
    """All columns that were sampled."""

    seed: int
    exact: bool
    """Whether episodes repeat to the bit here, so that one row that differs is enough, unless a GPU recorded
    it."""
    columns: tuple[ColumnSample, ...]
    unseen: tuple[str, ...] = ()
    """Columns that could not be played here, and why."""

    @property
    def holds(self) -> bool:
        return all(c.holds for c in self.columns)


@dataclass(frozen=True)
class _Played:
    """Rows of one column as they were recorded, and as they were played again."""

    folder: Path
    part: dict[str, np.ndarray]
    engine: str
    of: int
    was: list[dict[str, Any]]
    again: list[dict[str, Any]]

    @property
    def own(self) -> bool:
        """Whether a CPU recorded it, which repeats episodes to the bit."""
        return all(str(row.get("device", "cpu")) == "cpu" for row in self.was)

    @property
    def same(self) -> int:
        return sum(str(a["states_digest"]) == str(b["states_digest"]) for a, b in self.pairs)

    @property
    def pairs(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return list(zip(self.was, self.again, strict=True))


Which = Callable[[str, str], bool]
"""Says of a column on an engine whether it is to be played."""


def replay_sample(
    run: RunFolder,
    folders: list[Path],
    rows: int = ROWS,
    seed: int = 0,
    which: Which = lambda column, engine: True,
) -> Sample:
    """Plays `rows` random rows of each column in each of `folders` again; `which` may leave some out."""
    if rows < 1:
        raise SurefootError(f"--rows is {rows}; use 1 or more.")
    plan = restore_robot_plan(run)
    prepare_torch()
    rng = np.random.default_rng(seed)
    played, unseen = [], []
    for folder, (column, engine, part) in [(f, p) for f in folders for p in _parts(run, f)]:
        if not which(column, engine):
            continue
        of = len(part["scenario"])
        chosen = np.sort(rng.choice(of, min(rows, of), replace=False))
        some = {k: v[chosen] for k, v in part.items()}
        try:
            again = _play(run, plan, folder, some, engine)
        except SurefootError as error:
            unseen.append(f"{column} on {engine}: {error}")
            continue
        was = [{k: v[i] for k, v in some.items()} for i in range(len(chosen))]
        played.append(_Played(folder, some, engine, of, was, again))
    exact = _repeats(run, played)
    out = []
    for p in played:
        moved = None if exact and p.own else _play(run, plan, p.folder, p.part, p.engine, moved=True)
        out.append(_judged(p, moved, len(played)))
    return Sample(seed, exact, tuple(out), tuple(unseen))


def _repeats(run: RunFolder, played: list[_Played]) -> bool:
    """Returns whether episodes repeat to the bit here: by the versions in run.json, or because most do."""
    then, now = run.record.versions, versions()
    if all(then.get(k) == now.get(k) for k in SAME):
        return True
    own = [p for p in played if p.own and str(p.was[0]["policy"]) == TRAINED]
    return sum(p.same for p in own) > REPEATS * sum(len(p.was) for p in own)


def _parts(run: RunFolder, folder: Path) -> Iterator[tuple[str, str, dict[str, np.ndarray]]]:
    table = load_pass(run, folder).table
    if "states_digest" not in table or "scenario" not in table:
        raise SurefootError(
            f"{folder} was written before episodes could be replayed; evaluate the run again."
        )
    return split_columns(table)


def _play(
    run: RunFolder,
    plan: RobotPlan,
    folder: Path,
    part: dict[str, np.ndarray],
    engine: str,
    moved: bool = False,
) -> list[dict[str, Any]]:
    """Plays the scenarios of `part`, all of one column, and returns their rows; with `moved` actions."""
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
        acts = _Moved(policy) if moved else policy
        rows = evaluator.run(acts, column, name=name, traces=False).rows
    finally:
        evaluator.close()
    at = {p: i for i, p in enumerate(order)}
    return [{k: v[at[p]] for k, v in rows.items()} for p in places]


class _Moved:
    """A policy whose actions are moved by less than any sensor could tell."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        if hasattr(policy, "start"):
            self.start = policy.start

    def __call__(self, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        action, state = self.policy(obs, state)
        return action * (1 + MOVED), state


def _judged(p: _Played, moved: list[dict[str, Any]] | None, columns: int) -> ColumnSample:
    found = [(a, differing(a, b)) for a, b in p.pairs]
    odd = [(a, names) for a, names in found if names]
    apart, n = sum(disagrees(a, b) for a, b in p.pairs), len(p.was)
    says, natural = "", None
    if moved is None:
        holds, missed = not odd, chance_missed(n, p.of)
        for first, names in odd[:1]:
            says = f"scenario {first['scenario']}: {', '.join(names[:4])}{' ...' if len(names) > 4 else ''}"
    else:
        natural = sum(disagrees(a, b) for a, b in zip(p.again, moved, strict=True))
        limit = most_by_chance(n, natural, ALPHA / columns)
        rate = max(NATURAL_RATE, natural / n)
        holds, missed = apart <= limit, _at_most(limit, n, rate + FORGED * (1 - rate))
    first_row = p.was[0]
    return ColumnSample(
        half=str(first_row["half"]),
        column=str(first_row["column"]),
        engine=str(first_row["engine"]),
        rows=n,
        of=p.of,
        differing=len(odd),
        disagreeing=apart,
        natural=natural,
        missed=missed,
        holds=holds,
        says=says,
    )


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


def most_by_chance(rows: int, natural: int, alpha: float) -> int:
    """Returns the most of `rows` that may disagree before chance would do that less often than `alpha`: by
    the natural rate, and beside the `natural` ones of as many rows that disagree with themselves (Fisher's
    exact test, one-sided)."""
    k = 0
    while k < rows and (1 - _at_most(k, rows, NATURAL_RATE) > alpha or _fisher(k + 1, natural, rows) > alpha):
        k += 1
    return k


def _fisher(x: int, y: int, n: int) -> float:
    """Returns the chance of x or more of the x + y events falling on the first of two samples of n."""
    total = math.comb(2 * n, x + y)
    return sum(math.comb(n, i) * math.comb(n, x + y - i) for i in range(x, min(n, x + y) + 1)) / total


def _at_most(k: int, n: int, p: float) -> float:
    return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))
