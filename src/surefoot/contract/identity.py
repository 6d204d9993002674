"""Says which results may be compared. What was measured, and how, is the *measurement*: it must match. What
the policy sees, does and remembers is its *interface*: treatment, shown beside the training id.

Both are plain fields that a run records, and an id is their digest: anybody can compute it again, and every
reader does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surefoot.contract.digests import digest
from surefoot.contract.errors import SurefootError
from surefoot.contract.external import ExternalContract
from surefoot.contract.memory import Memory
from surefoot.contract.model import Frozen
from surefoot.contract.plant import EVALUATION_PLANT, Plant
from surefoot.contract.recipe import Recipe
from surefoot.contract.seeds import SeedPlan
from surefoot.contract.task import Contract, TaskContract

FORGETFUL = Memory()
MEASUREMENT_VERSION = 2
"""Version of what a measurement is made of. Results of version 1 have a construct id (identity_v1.py)."""


class CodeDigests(Frozen):
    """What the code behind a measurement and an interface does, as digests (behaviour.py)."""

    terminations: dict[str, str] = {}
    observation: dict[str, str] = {}
    metrics: str = ""
    """The functions that turn a recorded episode into a row."""
    terrain: dict[str, str] = {}
    """The classes of terrain that the panel has; empty on a plane."""
    engine: str = ""
    """The simulator of the nominal column."""
    engine_version: str = ""
    """What tells two versions of it apart."""
    mujoco: str = ""
    """MuJoCo's version without its last part."""


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


def measurement_fields(
    contract: Contract, panel: str, panel_digest: str, plant: Plant | None, code: CodeDigests
) -> dict[str, Any]:
    """Returns what must match before two results may be compared, by name.

    Noise is that of each sensor that is not exact, in its own unit: a condition of the test, like friction.
    Physics is the plant's, but for how often the policy acts within it. There is no plant where physics is an
    outside simulator's: its versions stand for it. How a term is worded (`doc`) is no part of what it means.
    """
    same = {
        "version": MEASUREMENT_VERSION,
        "panel": panel,
        "panel_digest": panel_digest,
        "metrics": code.metrics,
        "engine": {"name": code.engine, "version": code.engine_version},
    }
    if isinstance(contract, ExternalContract):
        return same | {
            "source": contract.source,
            "environment": contract.environment,
            "versions": dict(contract.versions),
            "terminations": {t.name: {"params": t.params} for t in contract.terminations},
            "success": contract.success.model_dump(mode="json", exclude={"doc"}),
            "episode_steps": contract.episode_steps,
            "step_s": contract.step_s,
            "seeding": contract.seeding,
        }
    assert isinstance(contract, TaskContract)
    assert plant is not None
    return same | {
        "robot_digest": contract.robot_digest,
        "terrain": dict(code.terrain),
        "plant": plant.model_dump(mode="json", exclude={"decimation"}),
        "start_pose_rad": list(contract.factor("pose").held_out),
        "command_dead_zone": contract.command.dead_zone,
        "noise": {t.name: t.noise for t in contract.observation if t.noise},
        "terminations": {
            t.name: {"params": dict(t.params), "source": code.terminations.get(t.name, "")}
            for t in contract.terminations
        },
        "success": contract.success.model_dump(mode="json"),
        "safety": contract.safety.model_dump(mode="json", exclude={"doc"}),
        "mujoco": code.mujoco,
    }


def interface_fields(
    contract: Contract, control_hz: float, code: CodeDigests, memory: Memory = FORGETFUL
) -> dict[str, Any]:
    """Returns what connects a policy with its robot: what it sees, does and remembers, and what it is handed.
    Policies with other interfaces may be compared; that they are others is said beside it."""
    prior = contract.prior if isinstance(contract, TaskContract) else None
    return {
        "version": MEASUREMENT_VERSION,
        "observation": {
            t.name: {
                "size": t.size,
                "unit": t.unit,
                "noise": t.noise,
                "scale": t.scale,
                "source": code.observation.get(t.name, ""),
            }
            for t in contract.observation
        },
        "action": contract.action.model_dump(mode="json"),
        "control_hz": control_hz,
        "memory": memory.interface(),
        "prior": prior.model_dump(mode="json") if prior else None,
    }


def recorded_code(measurement: Mapping[str, Any], interface: Mapping[str, Any]) -> CodeDigests:
    """Returns the digests of code that recorded fields hold: with a contract, all that the fields follow
    from."""
    engine, terms = measurement.get("engine") or {}, measurement.get("terminations") or {}
    return CodeDigests(
        terminations={k: t.get("source", "") for k, t in terms.items()},
        observation={k: t.get("source", "") for k, t in (interface.get("observation") or {}).items()},
        metrics=measurement.get("metrics", ""),
        terrain=measurement.get("terrain") or {},
        engine=engine.get("name", ""),
        engine_version=engine.get("version", ""),
        mujoco=measurement.get("mujoco", ""),
    )


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
