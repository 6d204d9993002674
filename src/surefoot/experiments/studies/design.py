"""What a study will do, fixed and checked before anything is trained: one quantity varied, two budgets, the
seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from surefoot.contract import Column, Frozen, Recipe, SurefootError, applies, columns, find_perturbation
from surefoot.engines import choose_engine
from surefoot.tasks import task as find_task
from surefoot.training import Manifest, RobotPlan, robot_plan

Kind = Literal["parallelism", "horizon", "epochs", "memory"]
Budget = Literal["samples", "seconds"]
Keep = Literal["minibatches", "minibatch-size"]
BUDGETS: tuple[Budget, ...] = ("samples", "seconds")
BUDGET_UPDATES = 300
"""Updates of the task's own recipe whose samples are the sample budget, unless told otherwise."""
DISTURBANCES = ("delay_40ms", "friction_0.3", "push_0.5", "push_1.0", "push_1.5", "push_2.0")
"""Columns beside the nominal one, unless told otherwise: a curve over pushes. Those that a panel has no use
for are left out."""


@dataclass(frozen=True)
class Knob:
    """Describes the quantity that a kind of study varies."""

    field: str
    """The quantity's name in the recipe."""
    option: str
    unit: str
    more: str
    """What a larger value is called at the start of a sentence."""
    factor: int
    """Default values are the task's own, and it divided and multiplied by this."""

    def of(self, recipe: Recipe) -> int:
        """Returns the quantity of a recipe. A memory counts as the observations that the policy sees."""
        if self.field != "memory":
            return int(getattr(recipe, self.field))
        if recipe.remembers.kind == "gru":
            raise SurefootError("A study of memory varies a window of observations; leave out gru.")
        return max(1, recipe.remembers.size)

    def changes(self, value: int) -> dict[str, Any]:
        """Returns the recipe's field where the quantity is `value`."""
        if self.field != "memory":
            return {self.field: value}
        return {"memory": "none" if value == 1 else f"window:{value}"}


KNOBS: dict[Kind, Knob] = {
    "parallelism": Knob("envs", "--envs", "environments", "More environments", 4),
    "horizon": Knob("horizon", "--horizons", "control steps", "A longer horizon", 2),
    "epochs": Knob("epochs", "--epochs", "epochs", "More epochs", 2),
    "memory": Knob("memory", "--windows", "observations", "A longer memory", 10),
}


class Setting(Frozen):
    """Holds one value of the varied quantity, with everything that follows from it."""

    value: int
    envs: int
    horizon: int
    epochs: int
    minibatches: int
    minibatch_size: int
    gradient_steps: int
    families: int
    envs_per_family: int
    samples_per_update: int
    updates: int
    """The sample budget in updates."""


class Design(Frozen):
    """Holds all that is fixed when a study begins; a resumed study goes on with it."""

    kind: Kind
    task: str
    values: tuple[int, ...]
    seeds: tuple[int, ...]
    samples: int
    """Samples of every run under the sample budget, exactly."""
    seconds: float | None
    """Seconds of training under the time budget; None: what the first run takes for the samples."""
    device: str
    engine: str
    """The engine that trains."""
    scored_on: str
    """The engine that the panel is run on."""
    columns: tuple[Column, ...]
    """Columns beside the nominal one."""
    margin: float
    """Difference of success, either way, below which it counts as none."""
    keep: Keep
    overrides: dict[str, Any]
    """Recipe fields that are not the task's own, the same for all runs."""
    settings: tuple[Setting, ...]
    manifest: Manifest | None = None
    """The environment that every run is held to."""

    @property
    def knob(self) -> Knob:
        return KNOBS[self.kind]

    def setting(self, value: int) -> Setting:
        return next(s for s in self.settings if s.value == value)

    def plan(self, value: int, seed: int) -> RobotPlan:
        s = self.setting(value)
        varied = self.knob.changes(value) | {"minibatches": s.minibatches}
        return robot_plan(
            self.task, overrides=self.overrides | varied, seed=seed, engine=self.engine, device=self.device,
            manifest=self.manifest,
        )  # fmt: skip

    def scaled(self) -> list[str]:
        """Says what else changes with the varied quantity, and what stays, in sentences."""
        first, last = self.settings[0], self.settings[-1]

        def spans(name: str) -> str:
            return " / ".join(f"{getattr(s, name):,}" for s in self.settings)

        out = [f"Varied: {self.knob.field} {spans('value')}; seeds {self.seeds[0]} to {self.seeds[-1]}."]
        if first.samples_per_update == last.samples_per_update:
            out.append(
                f"Samples per update ({first.samples_per_update:,}), minibatches ({first.minibatches}) and "
                f"their size ({first.minibatch_size:,}) are the same; gradient steps per update: "
                f"{spans('gradient_steps')}."
            )
        elif self.keep == "minibatches":
            out.append(
                f"The number of minibatches stays {first.minibatches}, so their size grows: "
                f"{spans('minibatch_size')} samples; {first.gradient_steps} gradient steps per update at all "
                "values."
            )
        else:
            out.append(
                f"The size of a minibatch stays {first.minibatch_size:,}, so their number grows: "
                f"{spans('minibatches')}; gradient steps per update: {spans('gradient_steps')}."
            )
        grows = first.envs != last.envs
        out.append(
            f"Seed families stay {first.families}"
            + (f", so environments per family grow: {spans('envs_per_family')}." if grows else ".")
        )
        out.append(
            f"Samples per update: {spans('samples_per_update')}; the sample budget of {self.samples:,} is "
            f"{spans('updates')} updates."
        )
        if self.kind == "memory":
            out.append("A value is the observations that the policy sees; one is no memory.")
        out.append("Learning rate, networks and everything else are the task's own, the same for all.")
        return out


@dataclass(frozen=True)
class DesignOptions:
    """Says what is to be studied, and on what budgets."""

    kind: Kind
    task: str
    values: tuple[int, ...] = ()
    """Values of the varied quantity; empty: the task's own, and one on either side."""
    seeds: int = 8
    """Training seeds: eight are the fewest that can show a difference among six comparisons."""
    seed: int = 1
    """The first of the training seeds."""
    overrides: dict[str, Any] = field(default_factory=dict)
    """Recipe fields that are not to be the task's own, the same for all runs."""
    samples: int | None = None
    updates: int | None = None
    """The sample budget as so many updates of the largest value."""
    seconds: float | None = None
    device: str = "cpu"
    scored_on: str = "auto"
    """The engine that the panel is run on."""
    perturb: tuple[str, ...] | None = None
    """Columns beside the nominal one; None: `DISTURBANCES`."""
    sweep: bool = False
    margin: float = 0.03
    keep: Keep = "minibatches"
    manifest: str | None = None
    """File of the environment manifest that every run is held to."""


def make_design(options: DesignOptions) -> Design:
    """Fixes a study. Every contradiction is found here, before anything is written."""
    o, knob = options, KNOBS[options.kind]
    manifest = Manifest.load(o.manifest) if o.manifest is not None else None
    base = robot_plan(o.task, overrides=o.overrides, seed=o.seed, device=o.device, manifest=manifest)
    values = _values(knob, o.values, knob.of(base.recipe))
    _check(o)
    size = {v: _samples_per_update(base, knob, v) for v in values}
    minibatches = {v: _minibatches(base, size[v], size[values[0]], o.keep, v) for v in values}
    requested = o.samples or (o.updates * max(size.values()) if o.updates else 0)
    own = find_task(o.task).recipe_on(o.device).samples_per_update
    samples = _whole(requested or BUDGET_UPDATES * own, size)
    return Design(
        kind=o.kind,
        task=o.task,
        values=values,
        seeds=tuple(range(o.seed, o.seed + o.seeds)),
        samples=samples,
        seconds=o.seconds,
        device=o.device,
        engine=base.engine,
        scored_on=choose_engine(o.scored_on, base.task.robot, base.evaluation_plant, o.device)[0],
        columns=_columns(base, o.perturb, o.sweep),
        margin=o.margin,
        keep=o.keep,
        overrides=o.overrides,
        settings=tuple(_setting(o, knob, v, minibatches[v], samples) for v in values),
        manifest=manifest,
    )


def _setting(o: DesignOptions, knob: Knob, value: int, minibatches: int, samples: int) -> Setting:
    varied = knob.changes(value) | {"minibatches": minibatches}
    plan = robot_plan(o.task, overrides=o.overrides | varied, seed=o.seed, device=o.device)
    r, a = plan.recipe, plan.accounting
    return Setting(
        value=value,
        envs=r.envs,
        horizon=r.horizon,
        epochs=r.epochs,
        minibatches=r.minibatches,
        minibatch_size=a.minibatch_size,
        gradient_steps=a.gradient_steps,
        families=r.families,
        envs_per_family=a.envs_per_seed_family,
        samples_per_update=a.samples_per_update,
        updates=samples // a.samples_per_update,
    )


def _values(knob: Knob, requested: tuple[int, ...], own: int) -> tuple[int, ...]:
    values = tuple(sorted(requested or {max(1, own // knob.factor), own, own * knob.factor}))
    example = " ".join(str(own * knob.factor**k) for k in range(2))
    if len(values) < 2:
        raise SurefootError(
            f"A study compares two values or more and {knob.option} has {len(values)}; "
            f"use e.g. {knob.option} {example}."
        )
    if len(set(values)) < len(values):
        raise SurefootError(f"{knob.option} names a value twice; give each once, e.g. {example}.")
    if values[0] < 1:
        raise SurefootError(f"{knob.option} has {values[0]}; use values of 1 or more.")
    return values


def _check(o: DesignOptions) -> None:
    if o.seeds < 2:
        raise SurefootError(
            f"--seeds is {o.seeds}; intervals over training seeds need 2 or more, verdicts 8."
        )
    if o.samples is not None and o.updates is not None:
        raise SurefootError("--samples and --updates both set the sample budget; give one of them.")
    for name, value in (("samples", o.samples), ("updates", o.updates)):
        if value is not None and value < 1:
            raise SurefootError(f"--{name} is {value}; use 1 or more.")
    if o.seconds is not None and not 0 < o.seconds < math.inf:
        raise SurefootError(f"--seconds is {o.seconds:g}; use a positive number.")
    if not 0 < o.margin < 1:
        raise SurefootError(f"--margin is {o.margin:g}; use a share between 0 and 1, e.g. 0.03.")


def _samples_per_update(base: RobotPlan, knob: Knob, value: int) -> int:
    return base.recipe.model_copy(update=knob.changes(value)).samples_per_update


def _minibatches(base: RobotPlan, size: int, first: int, keep: Keep, value: int) -> int:
    count = base.recipe.minibatches
    if keep == "minibatches":
        return count
    if (count * size) % first:
        raise SurefootError(
            f"Minibatches of {first // count:,} samples do not fill the {size:,} of value {value}; "
            "use values that are multiples of the smallest, or --keep minibatches."
        )
    return count * size // first


def _whole(samples: int, size: dict[int, int]) -> int:
    """Returns the largest budget up to `samples` that is a whole number of updates at every value."""
    unit = math.lcm(*size.values())
    if samples < unit:
        raise SurefootError(
            f"{samples:,} samples are not a whole number of updates at every value, and the smallest budget "
            f"that is has {unit:,}; use --samples {unit} or more."
        )
    return samples // unit * unit


def _columns(plan: RobotPlan, perturb: tuple[str, ...] | None, sweep: bool) -> tuple[Column, ...]:
    if perturb is not None:
        return columns(plan.panel, perturb, sweep)
    if sweep:
        return columns(plan.panel, ("all",), sweep=True)
    fit = [n for n in DISTURBANCES if applies(find_perturbation(n.split("_")[0]), plan.panel)]
    return columns(plan.panel, tuple(fit))


def panel_device(design: Design) -> str:
    """Returns where a panel is run: where the policy was trained, if its engine runs there."""
    return design.device if design.scored_on in ("stride", "mujoco-warp") else "cpu"
