"""Everything that is fixed before a run: the task with its overrides, the panel, the seeds, and what they add
up to."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch

from surefoot.contract import (
    Accounting,
    Disjointness,
    Panel,
    Plant,
    Recipe,
    SeedPlan,
    SurefootError,
    account,
    construct_id,
    evaluation_plant,
    load_panel,
    prove_disjoint,
    training_id,
)
from surefoot.engines import choose_engine
from surefoot.tasks import Task
from surefoot.tasks import task as find_task
from surefoot.terrain import Atlas


@dataclass(frozen=True)
class Plan:
    """A run that has not started."""

    task: Task
    task_name: str
    recipe: Recipe
    panel: Panel
    seeds: SeedPlan
    disjointness: Disjointness
    plant: Plant
    evaluation: Plant
    engine: str
    engine_reason: str
    """Why this engine, in a sentence."""
    device: str
    accounting: Accounting
    construct_id: str
    training_id: str

    def atlas(self) -> Atlas | None:
        return Atlas.build(self.task.tiles) if self.task.tiles else None

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
            "training_plant": self.plant.model_dump(mode="json"),
            "device": self.device,
            "stratum_names": self.task.contract.strata.labels(),
            "contract": self.task.contract.model_dump(mode="json"),
            "recipe": self.recipe.model_dump(mode="json"),
        }


def make_plan(
    task: str,
    *,
    overrides: dict[str, Any] | None = None,
    seed: int = 1,
    engine: str = "auto",
    device: str = "cpu",
) -> Plan:
    """Freezes a plan; `overrides` are recipe fields. Every contradiction is found here, before anything is
    written."""
    found = find_task(task)
    check_device(device)
    engine, reason = choose_engine(engine, found.robot, found.plant, device)
    found = found.on(engine)
    recipe = Recipe(**(found.recipe_on(device).model_dump() | (overrides or {})))
    evaluation = evaluation_plant(recipe.control_hz)
    plant = found.plant.model_copy(
        update={"dt_s": 1.0 / (recipe.control_hz * recipe.decimation), "decimation": recipe.decimation}
    )
    found = dataclasses.replace(found, recipe=recipe, plant=plant)
    contract = found.contract
    seeds = SeedPlan(root=seed, split="train", families=recipe.families, envs=recipe.envs)
    panel = load_panel(contract.panel)
    families = (overrides or {}).get("eval_families") or panel.seeds.families
    panel = panel.with_families(families)
    recipe = recipe.model_copy(update={"eval_families": families})
    proof = check_disjoint(seeds, panel)
    accounting = account(
        recipe,
        contract.observation_size,
        contract.critic_size,
        contract.action.size,
        len(contract.rewards),
        contract.strata.count,
        len(panel.scenarios),
    )
    return Plan(
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
        accounting,
        construct_id(contract, panel, evaluation),
        training_id(contract, recipe, plant, engine, "ppo", seeds),
    )


def check_disjoint(seeds: SeedPlan, panel: Panel) -> Disjointness:
    proof = prove_disjoint(seeds, panel.seeds)
    if not proof.disjoint:
        raise SurefootError(
            f"Panel {panel.name} shares keys with training ({proof.reason}); "
            "make it with split 'eval' so that it is held out."
        )
    return proof


def check_device(device: str) -> None:
    try:
        kind = torch.device(device).type
    except RuntimeError as error:
        raise SurefootError(f"There is no device '{device}'; use --device cpu or --device cuda.") from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise SurefootError(
            "--device cuda needs a CUDA GPU and a CUDA build of torch, and there is none here; "
            "use --device cpu."
        )
    if kind not in ("cpu", "cuda"):
        raise SurefootError(f"Device '{device}' is not supported; use --device cpu or --device cuda.")
