"""Traces that panel passes kept, with the scenario that each must be of: taken from the panel, by the number
in its row, and shifted as its column says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.declared import as_long
from surefoot.audits.detector import NotApplicable
from surefoot.audits.second_evaluator import Frames, shifted
from surefoot.contract import Column, Panel, Scenario, find_panel
from surefoot.evidence import passes_of
from surefoot.runs import load_pass
from surefoot.statistics import split_columns

A_COLUMN = 6
"""Traces that are looked at of each column."""


@dataclass(frozen=True)
class Traced:
    """An episode of a panel, as it was recorded."""

    name: str
    row: dict[str, Any]
    frames: Frames  # [T, ...]
    panel: Panel
    scenario: Scenario
    """As its column plays it."""
    column: Column
    confirmed: bool
    """Whether it is of the confirmed policy, where it is of a trained one."""

    @property
    def engine(self) -> str:
        return str(self.row["engine"])

    @property
    def policy(self) -> str:
        return str(self.row["policy"])

    @property
    def on_tile(self) -> bool:
        """Returns whether it stands on a tile of terrain, whose height is the terrain's."""
        return (
            any(s.terrain.cls != "flat" for s in self.panel.scenarios) or self.scenario.terrain.cls != "flat"
        )

    @property
    def steps(self) -> int:
        return len(self.frames["action"])


def traced(case: Case) -> list[Traced]:
    """Returns kept episodes of the passes that the run's statements rest on, some of every column, chosen by
    the audit's seed."""
    return case.once("traced", lambda: _traced(case))


def _traced(case: Case) -> list[Traced]:
    numbers, out = case.numbers("traces"), []
    for folder in passes_of(case.run):
        read = load_pass(case.run, folder)
        assert read.stated is not None
        stated, update = case.record.confirmation, case.record.confirmed_update
        of = {stated.checkpoint if stated else "", f"update-{update}"}
        same = read.stated.checkpoint in of
        panel = panel_called(case, read.stated.panel, read.stated.panel_digest)
        for shown, engine, part in split_columns(read.table):
            named = part["trace"].astype(str) != "" if "trace" in part else np.zeros(0, bool)
            kept = np.flatnonzero(named)
            for i in numbers.permutation(kept)[:A_COLUMN].tolist():
                row = {k: v[i] for k, v in part.items()}
                column = Column(
                    name=shown, perturbation=str(row["perturbation"]), strength=float(row["strength"])
                )
                try:
                    scenario = shifted(panel.scenarios[int(row["scenario"])], column)
                except KeyError:  # another package's perturbation
                    continue
                frames = case.trace(folder / "traces" / f"{row['trace']}.npz")
                name = f"scenario {row['scenario']} of {shown} on {engine} ({folder.name})"
                out.append(Traced(name, row, frames, panel, scenario, column, same))
    if not out:
        raise NotApplicable("no trace of a held-out episode was kept")
    return out


def panel_called(case: Case, name: str, digest: str) -> Panel:
    """Returns the panel of a pass, by its digest."""
    found = as_long(case, name, digest) or find_panel(digest, (name, case.robot.panel.name))
    if found is None:
        raise NotApplicable(f"the panel {name} is not on this machine")
    return found
