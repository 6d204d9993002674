"""Says which runs may be compared: the construct id, and the training id that names the treatment."""

from __future__ import annotations

from typing import Any

from surefoot.contract.digests import digest
from surefoot.contract.errors import SurefootError
from surefoot.contract.external import ExternalContract, SeedPanel
from surefoot.contract.panel import Panel
from surefoot.contract.perturbation import PERTURBATIONS
from surefoot.contract.plant import EVALUATION_PLANT, Plant
from surefoot.contract.recipe import Recipe
from surefoot.contract.seeds import SeedPlan
from surefoot.contract.task import Contract, TaskContract

METRICS_VERSION = 3
"""Raised whenever the meaning of a panel metric changes; part of the construct id.

2: errors by axis, achieved ratio, recovery, returns by term and labels; inference on a fixed batch.
3: label `acted_late`."""


def evaluation_plant(control_hz: float, heightfield: bool = False) -> Plant:
    """Returns the fixed evaluation plant, at the policy's control rate, on a plane or on a heightfield."""
    steps = round(1.0 / (control_hz * EVALUATION_PLANT.dt_s))
    if steps < 1 or abs(steps * control_hz * EVALUATION_PLANT.dt_s - 1.0) > 1e-9:
        raise SurefootError(
            f"--control-hz {control_hz:g} does not divide the evaluation plant's "
            f"{1 / EVALUATION_PLANT.dt_s:g} Hz; "
            "use 200, 100, 50, 40 or 25."
        )
    ground = "surface" if heightfield else None
    return EVALUATION_PLANT.model_copy(update={"decimation": steps, "heightfield": ground})


def construct(contract: Contract, panel: Panel | SeedPanel, plant: Plant | None) -> dict[str, Any]:
    """Returns the fields that must match before two results may be compared, by name."""
    return construct_fields(contract, panel.name, panel.digest, plant)


def construct_fields(
    contract: Contract, panel: str, panel_digest: str, plant: Plant | None
) -> dict[str, Any]:
    """Returns the same from what a run's record holds of its panel. There is no plant where physics is an
    outside simulator's: its versions stand for it."""
    if isinstance(contract, ExternalContract):
        same = {"source", "environment", "versions", "observation", "action", "terminations", "episode_steps"}
        return {
            **contract.model_dump(mode="json", include={*same, "success", "seeding"}),
            "panel": panel,
            "panel_digest": panel_digest,
            "metrics_version": METRICS_VERSION,
        }
    assert isinstance(contract, TaskContract)
    assert plant is not None
    return {
        "robot": contract.robot,
        "robot_digest": contract.robot_digest,
        "observation": [[t.name, t.size, t.unit, t.noise] for t in contract.observation],
        "action_size": contract.action.size,
        "prior": contract.prior.model_dump(mode="json") if contract.prior else None,
        "command_dead_zone": contract.command.dead_zone,
        "start_pose_rad": list(contract.factor("pose").held_out),
        "terminations": [t.model_dump(mode="json") for t in contract.terminations],
        "success": contract.success.model_dump(mode="json"),
        "safety": contract.safety.model_dump(mode="json"),
        "panel": panel,
        "panel_digest": panel_digest,
        "perturbations": [p.model_dump(mode="json", exclude={"doc"}) for p in PERTURBATIONS],
        "plant": plant.model_dump(mode="json"),
        "metrics_version": METRICS_VERSION,
    }


def construct_id(contract: Contract, panel: Panel | SeedPanel, plant: Plant | None) -> str:
    return digest(construct(contract, panel, plant))


def training_id(
    contract: Contract, recipe: Recipe, plant: Plant | None, engine: str, learner: str, seeds: SeedPlan
) -> str:
    """Returns the digest of the treatment: what was done to get the policy. How it is judged is not part of
    it."""
    return digest(
        {
            "contract": contract.model_dump(mode="json", exclude={"success", "safety", "panel"}),
            "recipe": recipe.model_dump(mode="json", exclude={"eval_families"}),
            "plant": plant.model_dump(mode="json") if plant else None,
            "engine": engine,
            "learner": learner,
            "seeds": {"families": seeds.families, "rng_version": seeds.rng_version},
        }
    )
