"""Everything that is fixed before a run: the task with its overrides, the panel, the seeds, and what they add
up to."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import torch

from surefoot.compute import check_device
from surefoot.contract import (
    PANEL_SEEDS,
    Accounting,
    Contract,
    Disjointness,
    Panel,
    Plant,
    Recipe,
    SeedPanel,
    SeedPlan,
    SurefootError,
    TaskContract,
    Timeouts,
    account,
    construct_id,
    evaluation_plant,
    load_panel,
    nearest_divisors,
    prove_disjoint,
    prove_seeds_disjoint,
    seed_panel,
    training_id,
)
from surefoot.engines import choose_engine
from surefoot.env.external import ExternalTask, external_task, is_external
from surefoot.learners.libraries import find_learner
from surefoot.tasks import Task
from surefoot.tasks import task as find_task
from surefoot.terrain import Atlas


@dataclass(frozen=True)
class Plan:
    """A run that has not started."""

    task: Task | ExternalTask
    task_name: str
    recipe: Recipe
    panel: Panel | SeedPanel
    seeds: SeedPlan
    disjointness: Disjointness
    plant: Plant | None
    """None: physics is an outside simulator's."""
    evaluation: Plant | None
    engine: str
    engine_reason: str
    """Why this engine, in a sentence."""
    device: str
    accounting: Accounting
    construct_id: str
    training_id: str
    learner: str = "ppo"
    timeouts: Timeouts = "stock"
    """How a library treats episodes that run out of time."""

    def as_json(self) -> dict[str, Any]:
        """The object that `surefoot plan --json` prints."""
        return {
            "task": self.task_name,
            **self.accounting.model_dump(mode="json"),
            "construct_id": self.construct_id,
            "training_id": self.training_id,
            "contract_digest": self.task.contract.digest,
            "panel": self.panel.name,
            "panel_digest": self.panel.digest,
            "seed": self.seeds.root,
            "disjoint": self.disjointness.disjoint,
            "engine": self.engine,
            "engine_reason": self.engine_reason,
            "training_plant": self.plant.model_dump(mode="json") if self.plant else None,
            "device": self.device,
            "learner": self.learner,
            "timeouts": self.timeouts,
            "stratum_names": self.task.contract.strata.labels(),
            "contract": self.task.contract.model_dump(mode="json"),
            "recipe": self.recipe.model_dump(mode="json"),
        }


@dataclass(frozen=True)
class RobotPlan(Plan):
    """Of a task of Surefoot's own, whose robot and physics are known."""

    task: Task
    panel: Panel
    plant: Plant
    evaluation: Plant

    def atlas(self) -> Atlas | None:
        return Atlas.build(self.task.tiles) if self.task.tiles else None


@dataclass(frozen=True)
class ExternalPlan(Plan):
    """Of an environment from outside."""

    task: ExternalTask
    panel: SeedPanel


class Options(TypedDict, total=False):
    """What any plan can be asked for; what is left out is as `robot_plan` has it."""

    overrides: dict[str, Any] | None
    seed: int
    engine: str
    device: str
    processes: int
    learner: str


def make_plan(
    task: str,
    *,
    timeouts: Timeouts = "stock",
    trained_with: str | None = None,
    success_return: float | None = None,
    **options: Unpack[Options],
) -> Plan:
    """Freezes a plan of a task of Surefoot's own, or of an environment from outside, whose episodes succeed
    when they return `success_return`."""
    if timeouts == "corrected" and options.get("learner", "ppo") == "ppo":
        raise SurefootError(
            "Surefoot's own PPO bootstraps every episode that runs out of time from its final observation: "
            "nothing is to be corrected; leave out --timeouts, or choose a library with --learner."
        )
    if is_external(task):
        return external_plan(task, success_return=success_return, **options)
    if success_return is not None:
        raise SurefootError(
            f"--success-return is for environments from outside; what a success of {task} is stands in its "
            "contract, so leave it out."
        )
    return robot_plan(task, timeouts=timeouts, trained_with=trained_with, **options)


def external_plan(
    task: str,
    *,
    overrides: dict[str, Any] | None = None,
    seed: int = 1,
    engine: str = "auto",
    device: str = "cpu",
    processes: int = 1,
    learner: str = "ppo",
    success_return: float | None = None,
) -> ExternalPlan:
    """Every environment and every held-out seed is a family of its own: they share nothing."""
    if learner != "ppo":
        raise SurefootError(
            f"{task} comes from outside, and only Surefoot's own PPO trains that; leave out --learner."
        )
    check_device(device)
    found = external_task(task, device, success_return)
    contract, changed = found.contract, dict(overrides or {})
    if engine not in ("auto", contract.source):
        raise SurefootError(f"{task} brings its own simulator; leave out --engine.")
    envs = changed.get("envs", found.recipe.envs)
    if changed.get("families", envs) != envs:
        raise SurefootError(f"Every environment of {task} is a seed family of its own; leave out --families.")
    if changed.get("control_hz", found.recipe.control_hz) != found.recipe.control_hz:
        raise SurefootError(f"{task} has a control rate of its own; leave out --control-hz.")
    panel = seed_panel(contract.episode_steps, changed.get("eval_families", PANEL_SEEDS))
    own = {"families": envs, "eval_families": len(panel.scenarios)}
    recipe = Recipe(**(found.recipe.model_dump() | changed | own))
    check_share(recipe, processes)
    seeds = SeedPlan(root=seed, split="train", families=recipe.families, envs=recipe.envs)
    proof = prove_seeds_disjoint(seeds, panel)
    if not proof.disjoint:
        raise SurefootError(f"Panel {panel.name} shares seeds with training; use another --seed.")
    return ExternalPlan(
        dataclasses.replace(found, recipe=recipe),
        task,
        recipe,
        panel,
        seeds,
        proof,
        None,
        None,
        contract.source,
        "the environment's own simulator",
        device,
        accounting(recipe, contract, panel),
        construct_id(contract, panel, None),
        training_id(contract, recipe, None, contract.source, learner, seeds),
        learner,
    )


def robot_plan(
    task: str,
    *,
    overrides: dict[str, Any] | None = None,
    seed: int = 1,
    engine: str = "auto",
    device: str = "cpu",
    processes: int = 1,
    learner: str = "ppo",
    timeouts: Timeouts = "stock",
    trained_with: str | None = None,
) -> RobotPlan:
    """Freezes a plan of a task of Surefoot's own; `overrides` are recipe fields. Every contradiction is found
    here, before anything is written. A plan is the same for any number of processes that can share its
    families. `trained_with`: the version of a library that a run was trained with, which then need not be
    installed to judge it."""
    found = find_task(task)
    library = find_learner(learner)
    timeouts = library.handling(timeouts) if library else "stock"
    if library is not None and processes > 1:
        raise SurefootError(
            f"{learner} trains in one process; start it without torchrun, or use --learner ppo."
        )
    if library is not None and trained_with is None:
        library.check()
        trained_with = library.version
    # Another version of a library is another treatment.
    treatment = " ".join(filter(None, (learner, trained_with, timeouts))) if library else learner
    check_device(device)
    engine, reason = choose_engine(engine, found.robot, found.plant, device)
    found = found.on(engine)
    recipe = Recipe(**(found.recipe_on(device).model_dump() | (overrides or {})))
    plant = found.plant.model_copy(
        update={"dt_s": 1.0 / (recipe.control_hz * recipe.decimation), "decimation": recipe.decimation}
    )
    check_share(recipe, processes)
    found = dataclasses.replace(found, recipe=recipe, plant=plant, minutes=found.minutes_on(device))
    contract = found.contract
    seeds = SeedPlan(root=seed, split="train", families=recipe.families, envs=recipe.envs)
    check_terrain(contract, seeds)
    panel = load_panel(contract.panel)
    families = (overrides or {}).get("eval_families") or panel.seeds.families
    panel = panel.with_families(families)
    recipe = recipe.model_copy(update={"eval_families": families})
    evaluation = evaluation_plant(recipe.control_hz, found.on_heightfield(panel))
    proof = check_disjoint(seeds, panel)
    if torch.device(device).type == "cuda":
        check_memory(found, torch.cuda.mem_get_info(device)[0], processes)
    return RobotPlan(
        found,
        task,
        recipe,
        panel,
        seeds,
        proof,
        plant,
        evaluation,
        engine,
        reason,
        device,
        accounting(recipe, contract, panel),
        construct_id(contract, panel, evaluation),
        training_id(contract, recipe, plant, engine, treatment, seeds),
        learner,
        timeouts,
    )


def accounting(recipe: Recipe, contract: Contract, panel: Panel | SeedPanel) -> Accounting:
    """What a recipe comes to under a contract, judged on a panel."""
    return account(
        recipe,
        contract.observation_size,
        contract.critic_size,
        contract.action.size,
        len(contract.rewards),
        contract.strata.count,
        len(panel.scenarios),
    )


def on_panel(plan: RobotPlan, panel: Panel) -> RobotPlan:
    """The same run judged on another panel, which must be held out from it too; another construct."""
    check_disjoint(plan.seeds, panel)
    plant = evaluation_plant(plan.recipe.control_hz, plan.task.on_heightfield(panel))
    identity = construct_id(plan.task.contract, panel, plant)
    return dataclasses.replace(plan, panel=panel, evaluation=plant, construct_id=identity)


ROBOT_BYTES = 4096
"""Of an environment on a device, block and networks apart: engine, script, task's memory."""


def device_bytes(task: Task, processes: int = 1) -> int:
    """Device memory that training needs on each process' device, from the shapes; a third is added for what
    allocators keep, and a GiB for the device's own (measured with 128-128 networks, one process: 30.1 GiB in
    use at N = 262,144)."""
    c, r = task.contract, task.recipe
    obs, critic, act, terms = c.observation_size, c.critic_size, c.action.size, len(c.rewards)
    block = 4 * (obs + critic + 2 * act + 6 + terms) + 11
    records = 4 * (12 + terms)
    values = 4 * (2 * critic + 2 * max(r.hidden))
    figures = 6 * c.strata.count + 16
    samples = r.samples_per_update * (block + records + values + figures)
    minibatch = r.samples_per_update // r.minibatches * 4 * (obs + critic + 4 * sum(r.hidden) + 3 * act + 16)
    share = (samples + minibatch + r.envs * ROBOT_BYTES) / processes
    # Several processes draw all minibatches and sort out their own: int32, int64 and a few more of each.
    sorting = r.epochs * r.samples_per_update * 40 if processes > 1 else 0
    return round(1.35 * (share + sorting)) + 2**30


def check_memory(task: Task, free: int, processes: int = 1) -> None:
    """Refuses what would run out of device memory, naming the most environments that would not."""
    if device_bytes(task, processes) <= free:
        return
    r, fits = task.recipe, 0
    step = math.lcm(r.families, r.minibatches // math.gcd(r.minibatches, r.horizon))
    for k in range(r.envs // step, 0, -1):
        less = dataclasses.replace(task, recipe=r.model_copy(update={"envs": k * step}))
        if device_bytes(less, processes) <= free:
            fits = k * step
            break
    need, have = device_bytes(task, processes) / 2**30, free / 2**30
    remedy = f"use --envs {fits} or less" if fits else "use a smaller --horizon or --device cpu"
    raise SurefootError(
        f"{r.envs} environments would need {need:.1f} GiB of device memory and {have:.1f} GiB are free; "
        f"{remedy}."
    )


def check_share(recipe: Recipe, processes: int) -> None:
    """Families are never shared: all of an environment's family is in its process."""
    if recipe.families % processes:
        near = " or ".join(str(k) for k in nearest_divisors(recipe.families, processes))
        raise SurefootError(
            f"{recipe.families} seed families cannot be split over {processes} processes; use "
            f"--nproc-per-node {near}, or a multiple of {processes} for --families."
        )


def check_terrain(contract: TaskContract, seeds: SeedPlan) -> None:
    """Classes that are dealt for life all have their robots."""
    strata = contract.strata
    if "terrain" not in strata.names or contract.factor("terrain").level != "env":
        return
    names = contract.factor("terrain").categories

    def nobodys(families: int) -> list[str]:
        dealt = strata.dealt_for_life("terrain", families, seeds.envs // families)
        return [name for k, name in enumerate(names) if k not in dealt]

    if missing := nobodys(seeds.families):
        fewer = (k for k in range(seeds.families - 1, 0, -1) if not seeds.envs % k and not nobodys(k))
        k, most = next(fewer, None), len(contract.factor("terrain").deck)
        raise SurefootError(
            f"{contract.name} deals classes of terrain to robots for life, and with --envs {seeds.envs} "
            f"--families {seeds.families} nobody is dealt {', '.join(missing)}; "
            f"use {f'--families {k}' if k else f'--envs {most} --families 1'}."
        )


def check_disjoint(seeds: SeedPlan, panel: Panel) -> Disjointness:
    proof = prove_disjoint(seeds, panel.seeds)
    if not proof.disjoint:
        raise SurefootError(
            f"Panel {panel.name} shares keys with training ({proof.reason}); "
            "make it with split 'eval' so that it is held out."
        )
    return proof
