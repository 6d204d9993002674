"""Perturbations as data: what is shifted, by how much, and what training saw of it. Part of the construct id.

A column of a panel is the same scenarios, with the same keys, under one perturbation at one strength.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import EntryPoint

from pydantic import Field

from surefoot.contract.errors import SurefootError, unknown
from surefoot.contract.model import Frozen
from surefoot.contract.names import NOMINAL
from surefoot.contract.panel import Panel, Scenario
from surefoot.contract.plant import MAX_DELAY_S
from surefoot.contract.plugins import load_plugin, offered
from surefoot.contract.task import TaskContract

ENTRY_POINTS = "surefoot.perturbations"
SENSORS = ("dropout", "bias", "stuck", "obs_delay")
"""Perturbations that act on what is seen; the scenarios stay as they are."""
WHOLE = ("stuck", "obs_delay")
"""Perturbations whose strength is a number of things."""


class Perturbation(Frozen):
    """One way to make every scenario of a panel different, with the strengths that it is measured at."""

    name: str
    unit: str
    doc: str
    form: str
    """Name of a column, formatted with `strength` and `ms` (a thousand times it)."""
    default: tuple[float, ...]
    """Strengths that every evaluation measures."""
    sweep: tuple[float, ...]
    """Strengths of the curve, `default` among them."""
    neutral: float | None
    """The strength that leaves a panel's scenarios as they are, where there is one."""
    factor: str | None = None
    """The factor of the contract whose training range is the one to shade; None: never in training."""
    terrain: str | None = None
    """The terrain class that all scenarios are moved to; only where a panel has terrain."""
    change: Callable[[Scenario, float], Scenario] | None = Field(default=None, exclude=True)
    """What another package's perturbation does to a scenario at a strength; the others' are in evaluation."""


class Column(Frozen):
    """A perturbation at one strength; the nominal column has none."""

    name: str = NOMINAL
    perturbation: str = ""
    strength: float = 0.0


def _terrain(cls: str) -> Perturbation:
    return Perturbation(
        name=cls,
        unit="level",
        doc=f"every scenario on terrain of class {cls}, which no shipped task trains on, at this level",
        form=cls + "_{strength:g}",
        default=(4.0,),
        sweep=(0.0, 2.0, 4.0, 6.0, 8.0),
        neutral=None,
        terrain=cls,
    )


PERTURBATIONS = (
    Perturbation(
        name="noise",
        unit="x",
        doc="observation noise of every sensor multiplied",
        form="noise_x{strength:g}",
        default=(2.0,),
        sweep=(0.0, 2.0, 3.0, 4.0),
        neutral=1.0,
        factor="noise",
    ),
    Perturbation(
        name="delay",
        unit="s",
        doc="delay from a new joint target to its effect",
        form="delay_{ms:g}ms",
        default=(0.04, 0.12),
        sweep=(0.02, 0.04, 0.06, 0.08, 0.12),
        neutral=0.0,
        factor="delay",
    ),
    Perturbation(
        name="friction",
        unit="1",
        doc="friction of the ground; 0.3 is wet ice for a rubber foot",
        form="friction_{strength:g}",
        default=(0.3, 1.5),
        sweep=(0.2, 0.3, 0.4, 0.6, 0.8, 1.2, 1.5),
        neutral=None,
        factor="friction",
    ),
    Perturbation(
        name="payload",
        unit="kg",
        doc="added to the payload that the scenario has already",
        form="payload_{strength:+g}kg",
        default=(3.0,),
        sweep=(1.0, 2.0, 3.0, 4.0, 5.0),
        neutral=0.0,
        factor="payload",
    ),
    Perturbation(
        name="push",
        unit="m/s",
        doc="every push at this speed, in its direction and at its time",
        form="push_{strength:.1f}",
        default=(1.0, 1.5),
        sweep=(0.5, 1.0, 1.5, 2.0),
        neutral=None,
        factor="push",
    ),
    Perturbation(
        name="strength",
        unit="x",
        doc="torque that the motors deliver, gains and limits alike",
        form="strength_{strength:g}",
        default=(0.8,),
        sweep=(0.6, 0.7, 0.8, 0.9),
        neutral=1.0,
        factor="strength",
    ),
    Perturbation(
        name="dropout",
        unit="share",
        doc="share of a sensor's readings that are lost; the last one that arrived is then seen again",
        form="dropout_{strength:g}",
        default=(0.1,),
        sweep=(0.05, 0.1, 0.2, 0.4),
        neutral=0.0,
    ),
    Perturbation(
        name="bias",
        unit="x",
        doc="a constant offset of every number that a sensor gives, drawn for the episode, of up to so many "
        "half-widths of its noise to either side",
        form="bias_x{strength:g}",
        default=(1.0,),
        sweep=(0.5, 1.0, 2.0, 4.0),
        neutral=0.0,
    ),
    Perturbation(
        name="stuck",
        unit="signals",
        doc="so many numbers of sensors freeze, each at a random time, and stay as they were seen last",
        form="stuck_{strength:g}",
        default=(1.0,),
        sweep=(1.0, 2.0, 4.0),
        neutral=0.0,
    ),
    Perturbation(
        name="obs_delay",
        unit="steps",
        doc="what sensors say is seen so many control steps later",
        form="obs_delay_{strength:g}",
        default=(1.0,),
        sweep=(1.0, 2.0, 3.0, 4.0),
        neutral=0.0,
    ),
    _terrain("curbs"),
    _terrain("stones"),
)


def find_perturbation(name: str) -> Perturbation:
    """Returns a built-in perturbation, or one of an installed package (entry points of
    "surefoot.perturbations")."""
    for p in PERTURBATIONS:
        if p.name == name:
            return p
    for p in _offered(name):
        if p.name == name:
            return p
    raise unknown("perturbation", name, {p.name for p in PERTURBATIONS} | set(offered(ENTRY_POINTS)))


def _offered(text: str) -> tuple[Perturbation, ...]:
    """Returns those of installed packages whose name `text` is, or begins with. Only these are loaded:
    another package's breakage does not matter here, and built-in names cannot be taken over."""
    taken = {p.name for p in PERTURBATIONS}
    points = [p for name, p in offered(ENTRY_POINTS).items() if name not in taken]
    return tuple(_load(p) for p in points if text == p.name or text.startswith(f"{p.name}_"))


def _load(point: EntryPoint) -> Perturbation:
    p = load_plugin("perturbation", point, Perturbation)
    if p.change is None:
        raise SurefootError(f"The perturbation '{point.name}' ({point.value}) must have a `change`.")
    if p.name != point.name or p.terrain is not None or not set(p.default) <= set(p.sweep):
        raise SurefootError(
            f"The perturbation '{point.name}' ({point.value}) must be called as its entry point, have its "
            "default strengths in its sweep, and no terrain."
        )
    return p


def at(p: Perturbation, strength: float) -> Column:
    """Returns the column of `p` at `strength`."""
    name = p.form.format(strength=strength, ms=1000 * strength)
    return Column(name=name, perturbation=p.name, strength=strength)


def applies(p: Perturbation, panel: Panel) -> bool:
    """Returns whether `panel` has what `p` shifts: terrain, or pushes."""
    if p.terrain is not None:
        return any(s.terrain.cls != "flat" for s in panel.scenarios)
    return p.name != "push" or any(s.pushes for s in panel.scenarios)


def columns(panel: Panel, names: tuple[str, ...], sweep: bool = False) -> tuple[Column, ...]:
    """Returns the columns that `names` stand for, without the nominal one: `all`, `none`, perturbations, or
    columns.

    `all` are the built-in ones: what an evaluation measures does not depend on what else is installed. A
    perturbation gives its default strengths, or its whole sweep; a column's name gives that column, at any
    strength (`friction_0.25`).
    """
    out: list[Column] = []
    for name in names:
        if name in ("none", NOMINAL):
            continue
        if name == "all":
            chosen = [p for p in PERTURBATIONS if applies(p, panel)]
            out += [at(p, x) for p in chosen for x in (p.sweep if sweep else p.default)]
            continue
        if any(p.name == name for p in (*PERTURBATIONS, *_offered(name))):
            p = find_perturbation(name)
            named = [at(p, x) for x in (p.sweep if sweep else p.default)]
        else:
            p, column = _parse(name)
            named = [column]
        if not applies(p, panel):
            raise SurefootError(
                f"Perturbation '{p.name}' does not apply to panel {panel.name}: {p.doc}; leave it out."
            )
        out += named
    return tuple({c.name: c for c in out}.values())


def _parse(name: str) -> tuple[Perturbation, Column]:
    for p in (*PERTURBATIONS, *_offered(name)):
        number = re.search(r"[+-]?\d+(\.\d+)?", name)
        if not name.startswith(f"{p.name}_") or number is None:
            continue
        strength = float(number[0]) / (1000 if "{ms" in p.form else 1)
        column = at(p, strength)
        if column.name == name:
            _check(p, strength)
            return p, column
    named = {p.name for p in PERTURBATIONS} | set(offered(ENTRY_POINTS)) | {"all", "none"}
    raise unknown("perturbation", name, named, also=[at(p, x).name for p in PERTURBATIONS for x in p.sweep])


def _check(p: Perturbation, strength: float) -> None:
    """Bounds outside which a strength means nothing, or no engine can represent it."""
    low, high = {
        "noise": (0.0, 100.0),
        "delay": (0.0, MAX_DELAY_S),
        "friction": (0.01, 5.0),
        "payload": (-5.0, 50.0),
        "push": (0.0, 10.0),
        "strength": (0.05, 5.0),
        "dropout": (0.0, 0.99),
        "bias": (0.0, 20.0),
        "stuck": (0.0, 30.0),
        "obs_delay": (0.0, 20.0),
    }.get(p.name, (min(p.sweep), max(p.sweep)) if p.change else (0.0, 9.0))
    if p.name in WHOLE and strength != int(strength):
        raise SurefootError(
            f"Perturbation '{p.name}' counts {p.unit}, and {strength:g} is not a whole number; use "
            f"{p.name}_{round(strength)}."
        )
    if not low <= strength <= high:
        unit = f" {p.unit}" if p.unit != "1" else ""
        raise SurefootError(
            f"Perturbation '{p.name}' goes from {low:g} to {high:g}{unit}, not to {strength:g}; "
            "choose a strength within that."
        )


def trained_range(p: Perturbation, contract: TaskContract) -> tuple[float, float] | None:
    """Returns what training saw of the shifted quantity, for shading; None where it never saw any."""
    if p.terrain is not None:
        known = {f.name: f.categories for f in contract.factors}.get("terrain", ())
        return (0.0, 9.0) if p.terrain in known else None
    if p.factor is None or p.factor not in {f.name for f in contract.factors}:
        return None
    return contract.factor(p.factor).train
