"""The construct id of results from before there were two ids: one digest of how a policy was measured and of
what it saw. Such results are compared among themselves; what their ids are made of never changes."""

from __future__ import annotations

from typing import Any

from surefoot.contract.external import ExternalContract
from surefoot.contract.plant import Plant
from surefoot.contract.task import Contract, TaskContract

METRICS_VERSION = 3
"""The last number that was raised by hand when the meaning of a metric changed."""


def construct_fields(
    contract: Contract, panel: str, panel_digest: str, plant: Plant | None
) -> dict[str, Any]:
    """Returns the fields that had to match before two results might be compared, by name. There is no plant
    where physics is an outside simulator's: its versions stand for it."""
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
        "perturbations": PERTURBATIONS,
        "plant": plant.model_dump(mode="json"),
        "metrics_version": METRICS_VERSION,
    }


def _perturbation(
    name: str,
    unit: str,
    form: str,
    strengths: tuple[list[float], list[float]],
    neutral: float | None = None,
    factor: str | None = None,
    terrain: str | None = None,
) -> dict[str, Any]:
    default, sweep = strengths
    return {
        "name": name,
        "unit": unit,
        "form": form,
        "default": default,
        "sweep": sweep,
        "neutral": neutral,
        "factor": factor,
        "terrain": terrain,
    }


_LEVELS = ([4.0], [0.0, 2.0, 4.0, 6.0, 8.0])
PERTURBATIONS = [
    _perturbation("noise", "x", "noise_x{strength:g}", ([2.0], [0.0, 2.0, 3.0, 4.0]), 1.0, "noise"),
    _perturbation(
        "delay", "s", "delay_{ms:g}ms", ([0.04, 0.12], [0.02, 0.04, 0.06, 0.08, 0.12]), 0.0, "delay"
    ),
    _perturbation(
        "friction",
        "1",
        "friction_{strength:g}",
        ([0.3, 1.5], [0.2, 0.3, 0.4, 0.6, 0.8, 1.2, 1.5]),
        None,
        "friction",
    ),
    _perturbation(
        "payload", "kg", "payload_{strength:+g}kg", ([3.0], [1.0, 2.0, 3.0, 4.0, 5.0]), 0.0, "payload"
    ),
    _perturbation("push", "m/s", "push_{strength:.1f}", ([1.0, 1.5], [0.5, 1.0, 1.5, 2.0]), None, "push"),
    _perturbation("strength", "x", "strength_{strength:g}", ([0.8], [0.6, 0.7, 0.8, 0.9]), 1.0, "strength"),
    _perturbation("dropout", "share", "dropout_{strength:g}", ([0.1], [0.05, 0.1, 0.2, 0.4]), 0.0),
    _perturbation("curbs", "level", "curbs_{strength:g}", _LEVELS, terrain="curbs"),
    _perturbation("stones", "level", "stones_{strength:g}", _LEVELS, terrain="stones"),
]
"""The perturbations of then, all of which were part of every id."""
