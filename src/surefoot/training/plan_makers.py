"""Plans are made here, from a task's name and what is asked of it. Every contradiction is refused before
anything is written."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar, Unpack

import torch

from surefoot.compute import check_device
from surefoot.contract import (
    PANEL_SEEDS,
    Accounting,
    Contract,
    Panel,
    Recipe,
    SeedPanel,
    SeedPlan,
    SurefootError,
    TaskContract,
    Timeouts,
    account,
    check_ranges,
    evaluation_plant,
    interface_fields,
    load_panel,
    measurement_fields,
    prove_seeds_disjoint,
    seed_panel,
    training_id,
)
from surefoot.engines import choose_engine
from surefoot.env.external import external_task, is_external
from surefoot.evaluation import code_digests, external_digests
from surefoot.learners.libraries import find_learner
from surefoot.tasks import Task, check_apart
from surefoot.tasks import task as find_task
from surefoot.training.checks import (
    check_disjoint,
    check_host_memory,
    check_memory,
    check_precision,
    check_remembering,
    check_share,
    check_terrain,
)
from surefoot.training.manifest import Manifest
from surefoot.training.plan import ExternalPlan, Plan, RobotPlan


@dataclass(frozen=True)
class PlanOptions:
    """What is asked of a plan besides its task."""

    overrides: dict[str, Any] | None = None
    """Fields of the recipe."""
    seed: int = 1
    engine: str = "auto"
    device: str = "cpu"
    processes: int = 1
    """A plan is the same for any number of processes that can share its families."""
    learner: str = "ppo"
    timeouts: Timeouts = "stock"
    """How a library treats episodes that run out of time."""
    trained_with: str | None = None
    """Version of the library that a run was trained with, which then need not be installed to judge it."""
    success_return: float | None = None
    """Return that an episode of an environment from outside must reach to succeed."""
    scenarios: int | None = None
    """Scenarios to confirm on, where the panel is drawn; None: as many as it ships with."""
    judged_by: TaskContract | None = None
    """The contract that a run was recorded with: its panel, what it held out and what it called a success
    are the run's for ever, whatever the task names now."""
    manifest: Manifest | None = None
    """The environment that the plan is held to; another is refused."""
    collection: str = ""
    """How experience is collected where that is another treatment than one process, as of a fleet whose
    updates do not wait."""
    by_actors: bool = False
    """Whether processes of their own collect, on CPUs, whatever device learns."""
    restored: bool = False
    """Whether this is the plan of a run that was trained before: what is refused only to train is not."""

    @property
    def collects_on(self) -> str:
        """The device of the environments."""
        return "cpu" if self.by_actors else self.device


class Options(TypedDict, total=False):
    """The fields of `PlanOptions` as keyword arguments."""

    overrides: dict[str, Any] | None
    seed: int
    engine: str
    device: str
    processes: int
    learner: str
    timeouts: Timeouts
    trained_with: str | None
    success_return: float | None
    scenarios: int | None
    judged_by: TaskContract | None
    manifest: Manifest | None
    collection: str
    by_actors: bool
    restored: bool


def make_plan(task: str, **options: Unpack[Options]) -> Plan:
    """Freezes a plan of a task of Surefoot's own, or of an environment from outside."""
    if options.get("timeouts") == "corrected" and options.get("learner", "ppo") == "ppo":
        raise SurefootError(
            "Surefoot's own PPO bootstraps every episode that runs out of time from its final observation: "
            "nothing is to be corrected; leave out --timeouts, or choose a library with --learner."
        )
    return external_plan(task, **options) if is_external(task) else robot_plan(task, **options)


def external_plan(task: str, **options: Unpack[Options]) -> ExternalPlan:
    """Freezes a plan of an environment from outside. Every environment and every held-out seed is a family of
    its own: they share nothing."""
    o = PlanOptions(**options)
    if o.learner != "ppo":
        raise SurefootError(
            f"{task} comes from outside, and only Surefoot's own PPO trains that; leave out --learner."
        )
    check_device(o.device)
    outside = external_task(task, o.collects_on, o.success_return)
    contract, changed = outside.contract, dict(o.overrides or {})
    if o.engine not in ("auto", contract.source):
        raise SurefootError(f"{task} brings its own simulator; leave out --engine.")
    envs = changed.get("envs", outside.recipe.envs)
    if changed.get("families", envs) != envs:
        raise SurefootError(f"Every environment of {task} is a seed family of its own; leave out --families.")
    if changed.get("control_hz", outside.recipe.control_hz) != outside.recipe.control_hz:
        raise SurefootError(f"{task} has a control rate of its own; leave out --control-hz.")
    if o.scenarios is not None:
        raise SurefootError(f"The panel of {task} is a list of seeds; leave out --scenarios.")
    panel = seed_panel(contract.episode_steps, changed.get("eval_families", PANEL_SEEDS))
    families = {"families": envs, "eval_families": len(panel.scenarios)}
    recipe = Recipe(**(outside.recipe.model_dump() | changed | families))
    check_share(recipe, o.processes)
    check_remembering(recipe, o.learner, o.processes)
    if not o.restored:
        check_precision(recipe, o.device)
        check_host_memory(recipe, accounting(recipe, contract, panel).buffer_bytes, o.device)
    seeds = SeedPlan(root=o.seed, split="train", families=recipe.families, envs=recipe.envs)
    proof = prove_seeds_disjoint(seeds, panel)
    if not proof.disjoint:
        raise SurefootError(f"Panel {panel.name} shares seeds with training; use another --seed.")
    code = external_digests(outside)
    plan = ExternalPlan(
        task=dataclasses.replace(outside, recipe=recipe),
        task_name=task,
        recipe=recipe,
        panel=panel,
        seeds=seeds,
        disjointness=proof,
        training_plant=None,
        evaluation_plant=None,
        engine=contract.source,
        engine_reason="the environment's own simulator",
        device=o.device,
        accounting=accounting(recipe, contract, panel),
        measurement=measurement_fields(contract, panel.name, panel.digest, None, code),
        interface=interface_fields(contract, recipe.control_hz, code, recipe.remembers),
        training_id=training_id(contract, recipe, None, contract.source, _treatment(o)[0], seeds),
        learner=o.learner,
        collection=o.collection,
    )
    return _held_to(o.manifest, plan)


def robot_plan(task: str, **options: Unpack[Options]) -> RobotPlan:
    """Freezes a plan of a task of Surefoot's own."""
    o = PlanOptions(**options)
    if o.success_return is not None:
        raise SurefootError(
            f"--success-return is for environments from outside; what a success of {task} is stands in its "
            "contract, so leave it out."
        )
    chosen = find_task(task)
    treatment, timeouts = _treatment(o)
    check_device(o.device)
    engine, reason = choose_engine(o.engine, chosen.robot, chosen.plant, o.collects_on)
    chosen = chosen.on(engine)
    recipe = _recipe(chosen, o)
    plant = chosen.plant.model_copy(
        update={"dt_s": 1.0 / (recipe.control_hz * recipe.decimation), "decimation": recipe.decimation}
    )
    check_share(recipe, o.processes)
    check_remembering(recipe, o.learner, o.processes)
    if not o.restored:
        check_precision(recipe, o.device)
    chosen = dataclasses.replace(chosen, recipe=recipe, plant=plant, minutes=chosen.minutes_on(o.device))
    if o.judged_by is not None:
        chosen = dataclasses.replace(chosen, contract=_judged_by(chosen.contract, o.judged_by))
    contract = chosen.contract
    seeds = SeedPlan(root=o.seed, split="train", families=recipe.families, envs=recipe.envs)
    check_terrain(contract, seeds)
    panel = load_panel(contract.panel)
    if panel.version > 1 or o.judged_by is None:  # contracts that named version 1 were never held to it
        check_ranges(contract, panel)
    panel = _of_length(panel, (o.overrides or {}).get("eval_families"), o.scenarios)
    recipe = recipe.model_copy(update={"eval_families": panel.size})
    judged_in = evaluation_plant(recipe.control_hz, chosen.on_heightfield(panel))
    proof = check_disjoint(seeds, panel)
    if not o.restored:
        check_apart(chosen, o.device)
        check_host_memory(recipe, accounting(recipe, contract, panel).buffer_bytes, o.device)
    if torch.device(o.device).type == "cuda":
        check_memory(chosen, torch.cuda.mem_get_info(o.device)[0], o.processes)
    code = code_digests(chosen, panel, judged_in)
    plan = RobotPlan(
        task=chosen,
        task_name=task,
        recipe=recipe,
        panel=panel,
        seeds=seeds,
        disjointness=proof,
        training_plant=plant,
        evaluation_plant=judged_in,
        engine=engine,
        engine_reason=reason,
        device=o.device,
        accounting=accounting(recipe, contract, panel),
        measurement=measurement_fields(contract, panel.name, panel.digest, judged_in, code),
        interface=interface_fields(contract, recipe.control_hz, code, recipe.remembers),
        training_id=training_id(contract, recipe, plant, engine, treatment, seeds),
        learner=o.learner,
        timeouts=timeouts,
        collection=o.collection,
    )
    return _held_to(o.manifest, plan)


AnyPlan = TypeVar("AnyPlan", bound=Plan)


def _held_to(manifest: Manifest | None, plan: AnyPlan) -> AnyPlan:
    """Returns the plan with the manifest that it fits; one that does not is refused."""
    if manifest is None:
        return plan
    manifest.check(plan)
    return dataclasses.replace(plan, manifest=manifest.digest)


def _recipe(chosen: Task, o: PlanOptions) -> Recipe:
    """Returns the task's recipe on a device with what was asked of it. A GRU is too fine for bf16: where
    nobody asks for a precision it has the next."""
    own, asked = chosen.recipe_on(o.collects_on).model_dump(), o.overrides or {}
    if own["precision"] == "bf16" and str(asked.get("memory", "")).startswith("gru:"):
        own["precision"] = "tf32"
    return Recipe(**(own | asked))


def _judged_by(contract: TaskContract, then: TaskContract) -> TaskContract:
    """Returns a task's contract with all that judged a run `then`."""
    held_out = {f.name: f.held_out for f in then.factors}
    factors = tuple(
        f.model_copy(update={"held_out": held_out.get(f.name, f.held_out)}) for f in contract.factors
    )
    judging = {"panel": then.panel, "success": then.success, "safety": then.safety, "factors": factors}
    return contract.model_copy(update=judging)


def _of_length(panel: Panel, families: int | None, scenarios: int | None) -> Panel:
    """Returns the panel with as many scenarios as were asked for, in one way or the other."""
    if scenarios is None:
        return panel if families is None else panel.with_families(families)
    asked = panel.with_scenarios(scenarios)
    if families is not None and panel.with_families(families).digest != asked.digest:
        raise SurefootError(
            "--scenarios and --eval-families both say how long the panel is; leave one of them out."
        )
    return asked


def _treatment(o: PlanOptions) -> tuple[str, Timeouts]:
    """Returns what the training id says of the learner, and how it treats episodes that run out of time.
    Another version of a library is another treatment."""
    library = find_learner(o.learner)
    if library is None:
        return " ".join(filter(None, (o.learner, o.collection))), "stock"
    if o.processes > 1:
        raise SurefootError(
            f"{o.learner} trains in one process; start it without torchrun, or use --learner ppo."
        )
    if o.trained_with is None:
        library.check()
    timeouts = library.handling(o.timeouts)
    version = library.version if o.trained_with is None else o.trained_with
    return " ".join(filter(None, (o.learner, version, timeouts))), timeouts


def accounting(recipe: Recipe, contract: Contract, panel: Panel | SeedPanel) -> Accounting:
    """Returns what a recipe comes to under a contract, judged on a panel."""
    return account(
        recipe,
        contract.observation_size,
        contract.critic_size,
        contract.action.size,
        len(contract.rewards),
        contract.strata.count,
        len(panel.scenarios),
    )
