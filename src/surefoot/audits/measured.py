"""Are the metrics, outcomes and labels of episodes those of what happened? Measured again from traces."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.slow_labels import CAUSES, Failure
from surefoot.audits.slow_metrics import EDGE, Rules, Span, clearances, measured, recoveries, succeeded
from surefoot.runs import read_rows, read_summary

CLOSE = 2e-4
"""Relative, and as much of a unit divided by ten: sums of single precision over an episode."""
MOST = 64
"""Traces that are measured of a pass."""
NEEDED = ("position", "quaternion", "joint_position", "foot_position", "contact", "torque_limit", "push_step")
STATES = ("position", "quaternion", "joint_position")

Row = Mapping[str, Any]


def rules_of(case: Case) -> Rules:
    contract = case.robot.task.contract
    return Rules(contract, case.record.recipe.control_hz, case.robot.task.robot.mass_kg)


def look(case: Case) -> list[Found]:
    """Measures the kept traces of the confirmation and of one evaluation."""
    panels = case.run.path / "panels" / case.record.panel
    numbers, rules = case.numbers("measured"), rules_of(case)
    passes = sorted(panels.glob("selection-update-*"))
    if passes:
        passes = [passes[int(numbers.integers(len(passes)))]]
    seen, found = 0, Faults()
    for folder in [case.result.folder, *passes]:
        for row, trace in _kept(case, folder, numbers):
            seen += 1
            for text in faults(trace, row, rules):
                found.add(text, f"{folder.name}, {row['column']}, scenario {row['scenario']}")
    if not seen:
        raise NotApplicable("no episode kept a trace that can be measured")
    return found.told(seen)


IDENTITY = ("half", "scenario", "terrain")
"""What says which episode it is, rather than what came of it."""


class Faults:
    """Counts what is wrong in how many episodes, and remembers the first of each."""

    def __init__(self) -> None:
        self._count: dict[str, int] = {}
        self._first: dict[str, tuple[str, str]] = {}

    def add(self, what: tuple[str, str], where: str) -> None:
        name, says = what
        self._count[name] = self._count.get(name, 0) + 1
        self._first.setdefault(name, (says, where))

    def told(self, of: int) -> list[Found]:
        out = []
        for name, count in sorted(self._count.items(), key=lambda x: -x[1]):
            says, where = self._first[name]
            text = f"'{name}' of {count} of {of} episodes {says} ({where})."
            out.append(Found(text, cause="held-out" if name in IDENTITY else ""))
        return out


def _kept(case: Case, folder: Path, numbers: np.random.Generator) -> Iterator[tuple[Row, Mapping[str, Any]]]:
    """Returns rows of a pass with their traces: all of them, or a part by the audit's seed."""
    rows = read_rows(folder, read_summary(folder))
    if "trace" not in rows:
        return
    at = np.flatnonzero(rows["trace"].astype(str) != "")
    for i in np.sort(numbers.permutation(at)[:MOST]):
        path = folder / "traces" / f"{rows['trace'][i]}.npz"
        trace = case.trace(path) if path.is_file() else {}
        if all(k in trace for k in NEEDED):
            yield {k: v[i] for k, v in rows.items()}, trace


def faults(trace: Mapping[str, Any], row: Row, rules: Rules) -> Iterator[tuple[str, str]]:
    """Says (field, what is wrong) for what a row says otherwise than its trace."""
    if digest(trace) != str(row["states_digest"]):
        yield "states_digest", "is not that of their traces"
        return  # another episode's trace: everything else would follow
    told = [float(row[f"command_{k}"]) for k in ("vx", "vy", "wz")]
    if np.abs(np.asarray(trace["command"], np.float64) - told).max() > 1e-5:
        yield "command", "is not what they were told"
    if str(row["reason"]) == "nonfinite":
        yield from labelled(trace, row, rules)
        return
    for name, value in measured(trace, rules).items():
        if name in row and not agrees(float(row[name]), value):
            yield name, f"is {float(row[name]):.5g} where it was {short(value)}"
    rises = clearances(trace, rules)
    if "foot_clearance_m" in row and not any(agrees(float(row["foot_clearance_m"]), x) for x in rises):
        yield "foot_clearance_m", f"is {float(row['foot_clearance_m']):.5g} where it was {rises[0]:.5g}"
    yield from ended(trace, row, rules)
    yield from recovered(trace, row, rules)
    yield from labelled(trace, row, rules)


def digest(trace: Mapping[str, Any]) -> str:
    sha = hashlib.sha256()
    for name in STATES:
        sha.update(np.ascontiguousarray(trace[name], "<f4").tobytes())
    return sha.hexdigest()[:16]


def ended(trace: Mapping[str, Any], row: Row, rules: Rules) -> Iterator[tuple[str, str]]:
    """Checks how it ended, and what follows from that."""
    whole, reason = int(np.asarray(trace["episode_steps"])), str(row["reason"])
    last = len(np.asarray(trace["position"]))
    if (reason == "timeout") != (last == whole) and not (reason != "timeout" and last == whole):
        yield "reason", f"is {reason} after {last} of {whole} steps"
    if bool(row["fall"]) != (reason != "timeout"):
        yield "fall", f"is {bool(row['fall'])} where they ended as {reason}"
    limit = next((t.params.get("gravity_z") for t in rules.contract.terminations if t.name == "tilted"), None)
    if limit is not None:
        q = np.asarray(trace["quaternion"], np.float64)
        over = 2 * (q[:, 1] ** 2 + q[:, 2] ** 2) - 1 - float(limit)
        if (over[:-1] > EDGE).any() or (reason == "timeout" and over[-1] > EDGE):
            yield "reason", f"is {reason} where the trunk had tilted too far before"
        if reason == "tilted" and over[-1] < -EDGE:
            yield "reason", "is tilted where the trunk was upright"
    right = succeeded(row, rules)
    if right is not None and bool(row["success"]) != right:
        yield "success", f"is {bool(row['success'])} against the contract's rule"


def recovered(trace: Mapping[str, Any], row: Row, rules: Rules) -> Iterator[tuple[str, str]]:
    """Checks the seconds from pushes until it did as told again."""
    if "recovered" not in row:
        return
    each = recoveries(trace, rules)
    low, high = ([pair[k] for pair in each] for k in (0, 1))
    said = [float(x) for x in str(row.get("recoveries_s", "")).split()]
    pairs = zip(said, each, strict=False)
    same = len(said) == len(each) and all(any(agrees(s, x, 0.01) for x in p) for s, p in pairs)
    if "recoveries_s" in row and not same:
        yield "recoveries_s", f"is '{row['recoveries_s']}' where they were {short_list(low)}"
    slowest = [max(x) if x and not any(map(math.isnan, x)) else math.nan for x in (low, high)]
    if not any(agrees(float(row["recovery_s"]), s) for s in slowest):
        yield "recovery_s", f"is {float(row['recovery_s']):.3g} where it was {slowest[0]:.3g}"
    if bool(row["recovered"]) not in (not any(map(math.isnan, x)) for x in (low, high)):
        yield "recovered", f"is {bool(row['recovered'])} where pushes took {short_list(low)} s"


def labelled(trace: Mapping[str, Any], row: Row, rules: Rules) -> Iterator[tuple[str, str]]:
    """Checks the label of a failure, and the cause that it points to."""
    if "label" not in row:
        return
    said, cause = str(row["label"]), str(row["cause"])
    if bool(row["success"]):
        right = {""}
    else:
        right = {Failure(trace, row, rules, edge).label() for edge in (0.0, -EDGE, EDGE)}
    if said not in right:
        yield "label", f"is '{said}' where it was '{min(right)}'"
    elif cause != CAUSES.get(said, ""):
        yield "cause", f"is '{cause}' of '{said}'"


def agrees(said: float, value: float | Span, close: float = CLOSE) -> bool:
    low, high = value if isinstance(value, tuple) else (value, value)
    if math.isnan(low) or math.isnan(high) or math.isnan(said):
        return math.isnan(said) and math.isnan(low)
    low, high = min(low, high), max(low, high)
    slack = close * (max(abs(low), abs(high)) + 0.1)
    return low - slack <= said <= high + slack


def short(value: float | Span) -> str:
    return f"{value[0]:.5g} to {value[1]:.5g}" if isinstance(value, tuple) else f"{value:.5g}"


def short_list(values: Sequence[float]) -> str:
    return ", ".join(f"{v:.3g}" for v in values) or "none"


DETECTORS = (
    Detector(
        name="metrics",
        kind="proof",
        cause="metric",
        asks="Are metrics, outcomes and labels of held-out episodes those of what happened?",
        statistic="every column of rows that follows from states, of all kept traces of the confirmation and "
        "of one evaluation, by other code in double precision",
        threshold="2e-4 of a figure: sums in single precision; what lies within 1e-4 of a limit may fall on "
        "either side of it",
        means="Episodes are measured otherwise than is stated; what rests on them is void.",
        remedy="Compare evaluation/metrics.py, recovery.py and labels.py with docs/reference/rows.md.",
        look=look,
        needs=("confirmed", "robot"),
        short=True,
    ),
)
