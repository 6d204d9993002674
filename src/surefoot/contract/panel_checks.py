"""What a contract says of its panel, held against the panel: the ranges that are held out, and which
scenarios lie beyond what is trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from surefoot.contract.errors import SurefootError
from surefoot.contract.factors import Factor
from surefoot.contract.panel import Panel, Scenario, factor_values
from surefoot.contract.panel_files import load_panel
from surefoot.contract.panel_recipes import RECIPES
from surefoot.contract.task import TaskContract

ROUNDING = 1e-6
"""A range is the same within this: values of scenarios are rounded."""


def held_out_as(panel: str, factors: Sequence[Factor]) -> tuple[Factor, ...]:
    """Returns the factors with the held-out ranges that the panel called `panel` really has. What the panel
    does not say (the start of one of version 1) is left as it was."""
    # of the shipped recipes without drawing them: a list of tasks needs no scenario
    ranges = RECIPES[panel].draw.ranges if panel in RECIPES else load_panel(panel).ranges
    return tuple(f.model_copy(update={"held_out": ranges.get(f.name, f.held_out)}) for f in factors)


def check_ranges(contract: TaskContract, panel: Panel) -> None:
    """Refuses a contract that states other held-out ranges than its panel has."""
    for name, (low, high) in panel.ranges.items():
        stated = next((f.held_out for f in contract.factors if f.name == name), None)
        if stated is None or max(abs(stated[0] - low), abs(stated[1] - high)) <= ROUNDING:
            continue
        raise SurefootError(
            f"The contract of {contract.name} says that {name} is held out from {stated[0]:g} to "
            f"{stated[1]:g}, and panel {panel.name} has {low:g} to {high:g}; take the held-out ranges from "
            "the panel (`held_out_as`), as velocity_task does."
        )


def beyond(scenario: Scenario, contract: TaskContract) -> tuple[str, ...]:
    """Names the factors that a scenario has from outside the training ranges of a contract."""
    out = outside(scenario, {f.name: f.train for f in contract.factors})
    known = next((f.categories for f in contract.factors if f.name == "terrain"), ("flat",))
    if scenario.terrain.cls not in known:
        out = (*out, "terrain")
    return out


def outside(scenario: Scenario, ranges: Mapping[str, tuple[float, float]]) -> tuple[str, ...]:
    """Names the factors of `ranges` that a scenario has a value of outside its range, in their order."""
    values = factor_values(scenario)
    return tuple(
        name
        for name, (low, high) in ranges.items()
        if any(not low - ROUNDING <= x <= high + ROUNDING for x in values.get(name, ()))
    )
