"""Plans: what a run would do, before it does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from rich.console import Console

from surefoot.api.settings import PlanFile, RunSettings, Settings, lists_settings
from surefoot.api.shown import Shown
from surefoot.contract import Accounting, Contract, Recipe, SeedPlan
from surefoot.printing import print_plan

if TYPE_CHECKING:
    from surefoot.training import Plan as TrainingPlan


class Plan(Shown):
    """A run that has not started. Prints itself; `surefoot.train(plan)` does it."""

    def __init__(self, settings: Settings, planned: TrainingPlan) -> None:
        self.settings = settings
        """What was asked for."""
        self.planned = planned
        """What came of it, with all that training needs."""
        self.file = PlanFile.of_plan(settings, planned)

    @property
    def task(self) -> str:
        return self.settings.task

    @property
    def contract(self) -> Contract:
        """The task's promise: observation, action, rewards, terminations, success, safety."""
        return self.planned.task.contract

    @property
    def recipe(self) -> Recipe:
        """Every number that shapes training."""
        return self.planned.recipe

    @property
    def accounting(self) -> Accounting:
        """What the recipe adds up to: samples, minibatches, robot seconds, bytes."""
        return self.planned.accounting

    @property
    def seeds(self) -> SeedPlan:
        return self.planned.seeds

    @property
    def engine(self) -> str:
        return self.planned.engine

    @property
    def construct_id(self) -> str:
        """The measurement id, by the name that it has in files."""
        return self.file.construct_id

    @property
    def measurement_id(self) -> str:
        """Digest of how results are measured: what must match before two of them may be compared."""
        return self.planned.measurement_id

    @property
    def interface_id(self) -> str:
        """Digest of what the policy sees, does and remembers: treatment."""
        return self.planned.interface_id

    @property
    def training_id(self) -> str:
        """Digest of the treatment: recipe, factors, network, engine, learner (not the seed)."""
        return self.file.training_id

    def as_json(self) -> dict[str, Any]:
        """Returns all of it as JSON types, as `surefoot plan --json` prints it."""
        return self.planned.as_json()

    def save(self, path: str | Path) -> Path:
        """Writes the settings with the ids of this plan, for `surefoot train --config` and
        `surefoot.train(config=...)`. A file that is there is not replaced."""
        return self.file.save(path)

    def freeze(self, path: str | Path) -> Path:
        """Writes the environment manifest of this plan, for `--manifest FILE` and
        `surefoot.train(manifest=...)`: what any run is then held to, whoever learns in it. A file that is
        there is not replaced."""
        from surefoot.training import Manifest

        return Manifest.of(self.planned).save(path)

    def show(self, console: Console) -> None:
        print_plan(console, self.planned)


@lists_settings
def plan(task: str, **settings: Unpack[RunSettings]) -> Plan:
    """Plans a run and writes nothing: contract, recipe, accounting, seeds, strata.

    `task` is a task's name (`surefoot tasks` lists them), package.module:name of your own, or an environment
    from outside such as gym:ID. What is not given is the task's own.

    Settings: any field of the recipe (envs, horizon, minibatches, epochs, hidden, learning_rate, ...); seed
    (1), from which every random draw follows; engine ("auto"), the simulator to train on; device ("cpu" or
    "cuda"); learner ("ppo" or a library) and timeouts; success_return, for environments from outside; when to
    stop: updates, minutes, until (success on two consecutive evaluations), else the task's own limits; how it
    is judged at the end: perturb (("all",), columns by name, or ("none",)), baselines (True), scenarios (how
    many to confirm on) and sequential (look at them as they come, until the verdict is decided).

        plan = surefoot.plan("walk-flat", envs=512, seed=3, until=0.95)
        plan.accounting.samples_per_update
        plan.save("walk.json")
    """
    return make(Settings.of(task, settings))


def make(settings: Settings) -> Plan:
    """Makes the plan that settings describe; every contradiction is refused."""
    from surefoot.training import Limits, check_sequential, make_plan

    s = settings
    Limits(s.updates, s.minutes, s.until)
    planned = make_plan(
        s.task,
        overrides=s.recipe,
        seed=s.seed,
        engine=s.engine,
        device=s.device,
        learner=s.learner,
        timeouts=s.timeouts,
        success_return=s.success_return,
        scenarios=s.scenarios,
    )
    planned.columns(s.perturb)
    if s.sequential:
        check_sequential(planned)
    return Plan(settings, planned)
