"""Do figures, intervals and verdict follow from the rows? They are counted again by other code."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from surefoot.artifacts import read_json
from surefoot.audits import slow_panel
from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.made_up import DESIGNS, table
from surefoot.audits.slow_statistics import word
from surefoot.contract import TaskContract
from surefoot.evidence import AUDIT_CHECK, judgement
from surefoot.runs import Result, read_rows
from surefoot.statistics import WORDS, PanelSummary, PassInfo, judge, summarise

CLOSE = 1e-6
"""Relative: sums in another order, and quantiles of other libraries."""
NEWEST = PanelSummary.model_fields["schema_version"].default
STEP = 0.01
"""By how much a figure is moved to see whether a judgement notices."""
NAMED = 3


def look(case: Case) -> list[Found]:
    """Counts the confirmation and one evaluation from their rows, and compares every place that states
    them."""
    r, result = case.record, case.result
    assert r.confirmation is not None
    own = expected(result.table, result.summary.engine, r.contract)
    places = {"what readers count": result.summary, "summary.json": result.stated}
    if result.folder.name == "confirmation":
        places["run.json"] = r.confirmation
    found = list(_compared("the confirmation", own, places))
    folder = case.run.path / "panels" / r.panel
    passes = sorted(folder.glob("selection-update-*/summary.json"))
    if passes:
        chosen = passes[int(case.numbers("recounted").integers(len(passes)))].parent
        stated = read_json(chosen / "summary.json", PanelSummary)
        again = expected(read_rows(chosen, stated), stated.engine, r.contract)
        found += _compared(chosen.name, again, {"summary.json": stated})
    j = judgement(result)
    against = [str(f) for f in j.faults if f.check != AUDIT_CHECK]
    if against:
        more = f" and {len(against) - 1} more" if len(against) > 1 else ""
        text = f"The run's own files contradict each other: {against[0]}{more}."
        found.append(Found(text, cause="bookkeeping"))
    right = word(own["success"], own["success_low"], own["safety_held"], own["beats_baselines"])
    if j.word != ("Unproven" if j.faults else right):
        found.append(Found(f"The verdict is '{j.word}' where the rule gives '{right}'."))
    return found


def expected(rows: Mapping[str, np.ndarray], engine: str, contract: Any) -> dict[str, Any]:
    safety = contract.safety if isinstance(contract, TaskContract) else None
    return slow_panel.summary(rows, engine, (safety.name, safety.limit) if safety else None)


def _compared(
    what: str, own: Mapping[str, Any], places: Mapping[str, PanelSummary | None]
) -> Iterator[Found]:
    for place, said in places.items():
        if said is None or said.schema_version < NEWEST:  # whose intervals were computed otherwise
            continue
        wrong = list(differences(own, said.model_dump(mode="json")))
        if wrong:
            more = f", and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
            yield Found(f"Of {what}, {place} says {'; '.join(wrong[:NAMED])}{more}.")


def differences(own: Any, said: Any, name: str = "") -> Iterator[str]:
    """Says where `said` is not `own`; what only `said` has is not compared."""
    if isinstance(own, Mapping) and isinstance(said, Mapping):
        for key in own:
            yield from differences(own[key], said.get(key), f"{name}.{key}" if name else str(key))
        if name.rpartition(".")[2] in ("labels", "causes", "end_reasons", "terrain", "figures"):
            yield from (f"{name}.{k}, which no row gives" for k in said if k not in own)
    elif isinstance(own, list) and isinstance(said, list) and len(own) == len(said):
        for k, (a, b) in enumerate(zip(own, said, strict=True)):
            of = f"{a['column']} on {a['engine']}" if isinstance(a, Mapping) and "column" in a else str(k)
            yield from differences(a, b, f"{name}.{of}")
    elif not _same(own, said):
        yield f"{name} {_short(said)} where it is {_short(own)}"


def _same(own: Any, said: Any) -> bool:
    if isinstance(own, tuple):  # a range
        return isinstance(said, int | float) and own[0] <= said <= own[1]
    if isinstance(own, bool) or isinstance(said, bool) or not isinstance(own, int | float):
        return bool(own == said)
    return isinstance(said, int | float) and math.isclose(own, said, rel_tol=CLOSE, abs_tol=CLOSE / 100)


def _short(x: Any) -> str:
    x = sum(x) / 2 if isinstance(x, tuple) else x
    return "nothing" if x is None else f"{x:.6g}" if isinstance(x, float) else str(x)[:60]


def look_at_rules(case: Case) -> list[Found]:
    """Asks statistics about tables that nobody played, and the verdict about everything near its limits."""
    contract, numbers = case.record.contract, case.numbers("statistics")
    found: list[Found] = []
    for design in DESIGNS:
        rows = table(design, numbers)
        info = PassInfo("made-up", "", "confirmation", "", "", "", "mujoco", 1.0, 1)
        said = summarise(rows, contract, info).model_dump(mode="json")
        wrong = list(differences(expected(rows, "mujoco", contract), said))
        if wrong:
            size = f"{design.families} families of {design.members}"
            more = f" and {len(wrong) - 1} more figures" if len(wrong) > 1 else ""
            found.append(Found(f"Statistics of {size} give {wrong[0]}{more}."))
    return found[:NAMED] + list(_verdicts())


def _verdicts() -> Iterator[Found]:
    edges = (0.0, 0.3, 0.49, 0.5, 0.51, 0.7, 0.8, 0.85, 0.89, 0.899999, 0.9, 0.91, 1.0)
    cases = [
        (s, low, safe, beaten)
        for s in edges
        for low in edges
        if low <= s
        for safe in (None, True, False)
        for beaten in (None, True, False)
    ]
    wrong = [c for c in cases if WORDS[judge(*c)] != word(*c)]
    for s, low, safe, beaten in wrong[:1]:
        yield Found(
            f"{len(wrong)} of {len(cases)} verdicts are not by the rule: success {s:g} from {low:g} on, "
            f"safety {safe}, baselines beaten {beaten} is '{WORDS[judge(s, low, safe, beaten)]}'."
        )


def look_at_judgement(case: Case) -> list[Found]:
    """Changes one thing at a time in the evidence, in memory, and sees whether the judgement notices."""
    result, numbers = case.result, case.numbers("judgement")
    if judgement(result).faults:
        return []  # it does say so
    i = int(numbers.integers(len(result.table["success"])))
    missed = [what for what, changed in _changes(result, i) if not judgement(changed).faults]
    return [
        Found(f"Evidence that was changed still counts as sound: {'; '.join(missed)}.") for _ in missed[:1]
    ]


def _changes(result: Result, i: int) -> Iterator[tuple[str, Result]]:
    t = result.table

    def with_row(**values: Any) -> Result:
        columns = {k: t[k].copy() for k in values}
        for k, v in values.items():
            columns[k][i] = v
        return dataclasses.replace(result, table=t | columns)

    yield "the success of an episode", with_row(success=not bool(t["success"][i]))
    yield "the fall of an episode", with_row(fall=not bool(t["fall"][i]))
    if isinstance(result.run.contract, TaskContract):
        yield "the steps of an episode", with_row(steps=int(t["steps"][i]) - 1)
    if "key" in t and "scenario" in t:
        yield "the key of an episode", with_row(key="0" * 16)
    if result.stated is not None:
        s = result.stated
        by = STEP if s.success < 0.5 else -STEP
        for name in ("success", "success_low", "fall_rate"):
            moved = s.model_copy(update={name: getattr(s, name) + by})
            yield f"'{name}' of summary.json", dataclasses.replace(result, stated=moved)


DETECTORS = (
    Detector(
        name="recount",
        kind="proof",
        cause="statistics",
        asks="Do the figures, intervals and verdict of the run follow from its rows?",
        statistic="every figure of the confirmation and of one evaluation, and the verdict, by other code; "
        "in what rows, contract and files contradict each other",
        threshold="rounding (1e-6 of a figure); counts and words exactly",
        means="What is stated of the policy is not what its episodes show.",
        remedy="Compare statistics/ with docs/reference/statistics.md at the figure that is named.",
        look=look,
        needs=("confirmed",),
        short=True,
    ),
    Detector(
        name="statistics",
        kind="proof",
        cause="statistics",
        asks="Are rates, means, intervals, effective episodes and verdicts what their rules say?",
        statistic="summaries of made-up tables, from 2 families to 320, and verdicts around every limit, by "
        "other code",
        threshold="rounding (1e-6 of a figure); words exactly",
        means="Intervals do not have the confidence that they state, or a verdict is not by its rule.",
        remedy="Run tests/statistics; compare with docs/reference/statistics.md.",
        look=look_at_rules,
    ),
    Detector(
        name="judgement",
        kind="proof",
        cause="statistics",
        asks="Is evidence noticed that contradicts itself?",
        statistic="a row's success, fall, steps and key, and figures of summary.json, changed one by one",
        threshold="none: each change makes a run unproven",
        means="Rows or figures could be changed without anybody being told.",
        remedy="Look at evidence/row_checks.py and statistics/recount.py.",
        look=look_at_judgement,
        needs=("confirmed",),
    ),
)
