"""Has everything that the run wrote down the form that its contract makes it? Read, without a simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from surefoot.artifacts import read_table
from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, Misshapen, NotApplicable
from surefoot.audits.forms import faults, rows_form
from surefoot.evidence import passes_of
from surefoot.runs import CHECKPOINTS

TRACES = 8
"""Kept episodes of a pass that are looked at, by the audit's seed."""
PARTS = ("learner", "policy", "env")


def look(case: Case) -> list[Found]:
    """Holds ledger, tables, checkpoints and kept episodes to their forms."""
    if case.old:
        raise NotApplicable("it is of before there were two ids, and may lack what came later")
    robot = case.record.training_plant is not None
    out = [Found(f"{text}.") for text in case.ledger_faults()]
    if case.recorded:
        what = "The table of training episodes"
        out += [Found(f"{text}.") for text in faults(what, case.recorded, case.episodes_form)]
    for folder in passes_of(case.run):
        what, rows = f"The table of {folder.name}", read_table(folder / "episodes.parquet")
        form = rows_form(case.record.contract, robot=robot)
        out += [Found(f"{text}.", cause="metric") for text in faults(what, rows, form)]
    for held in (*_checkpoints(case), *(_traces(case) if robot else ())):
        try:
            held()
        except Misshapen as fault:
            out.append(fault.found)
    return out


def _checkpoints(case: Case) -> Iterator[Callable[[], object]]:
    for name in CHECKPOINTS:
        if case.run.checkpoint_path(name).exists():
            yield from (partial(case.tensors, name, part) for part in PARTS)


def _traces(case: Case) -> Iterator[Callable[[], object]]:
    numbers = case.numbers("forms")
    for folder in passes_of(case.run):
        paths: list[Path] = sorted((folder / "traces").glob("*.npz"))
        for i in np.sort(numbers.permutation(len(paths))[:TRACES]).tolist():
            yield partial(case.trace, paths[i])


DETECTORS = (
    Detector(
        name="forms",
        kind="proof",
        cause="bookkeeping",
        asks="Has everything that the run wrote down the columns, fields, lengths and kinds of numbers that "
        "its contract, robot and recipe make it have?",
        statistic="names, kinds and sizes in all rows of the ledger, in the tables of training and held-out "
        "episodes, in checkpoints and in kept episodes; other detectors hold what environments give likewise",
        threshold="none: a name, a kind or a length is what it is or is not",
        means="The run is of another shape than it says: what was lived, learned or judged is not declared.",
        remedy="Look at who writes the field that is named, and at the contract's term or the robot's part "
        "that it belongs to.",
        look=look,
        short=True,
    ),
)
