"""Digests of the code behind a result: what decides about a held-out episode and is no number in the
contract."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

from surefoot.contract import (
    REFERENCE,
    SENSORS,
    CodeDigests,
    Column,
    Panel,
    Plant,
    Scenario,
    behaviour_digest,
    digest,
    package_digest,
    perturb_all,
)
from surefoot.engines import engine_version, minor_version
from surefoot.env import FAULT_NAMES
from surefoot.env.external import ExternalTask
from surefoot.evaluation.external import ExternalEvaluator
from surefoot.evaluation.labels import label
from surefoot.evaluation.metrics import episode_metrics
from surefoot.evaluation.perturb import faults_of
from surefoot.evaluation.recovery import recoveries, recovery
from surefoot.tasks import Task, View
from surefoot.terrain import class_digest


def metrics_digest() -> str:
    """Digest of the functions that make a row of a recorded episode: its figures, recoveries and label."""
    return behaviour_digest(
        {"metrics": episode_metrics, "recoveries": recoveries, "recovery": recovery, "label": label}
    )


def code_digests(task: Task, panel: Panel, plant: Plant) -> CodeDigests:
    """Returns what the code does by which a task of ours is judged on a panel, in native MuJoCo."""
    c = task.contract

    def of(name: str) -> str:
        return behaviour_digest({"term": task.terms[name], "view": View})

    return CodeDigests(
        terminations={t.name: of(t.name) for t in c.terminations},
        observation={t.name: of(t.name) for t in c.observation},
        metrics=metrics_digest(),
        terrain=_terrain(panel.scenarios),
        engine=REFERENCE,
        engine_version=engine_version(REFERENCE, plant.heightfield is not None),
        mujoco=minor_version("mujoco"),
    )


def external_digests(task: ExternalTask) -> CodeDigests:
    """Returns the same for an environment from outside, whose own code its versions stand for."""
    return CodeDigests(
        metrics=behaviour_digest({"metrics": ExternalEvaluator._metrics}), engine=task.contract.source
    )


def column_digest(panel: Panel, column: Column) -> str:
    """Returns the digest of what a perturbation at its strength makes of a panel: of the scenarios that came
    of it, of the ground that they are on and of the faults of sensors. "" for the nominal column."""
    if not column.perturbation:
        return ""
    scenarios = perturb_all(panel.scenarios, column)
    sha = hashlib.sha256()
    for s in scenarios:
        sha.update(s.model_dump_json().encode() + b"\n")
    return digest(
        {
            "perturbation": column.perturbation,
            "strength": column.strength,
            "scenarios": sha.hexdigest(),
            "terrain": _terrain(scenarios),
            "faults": _faults(column),
        }
    )


def _terrain(scenarios: tuple[Scenario, ...]) -> dict[str, str]:
    """Returns what the classes of terrain are known by that scenarios are on; a plane needs no word."""
    return {cls: _class(cls) for cls in sorted({s.terrain.cls for s in scenarios} - {"flat"})}


_class = lru_cache(maxsize=64)(class_digest)


def _faults(column: Column) -> Any:
    """Returns what is wrong with sensors in a column, and by what code."""
    if column.perturbation not in SENSORS:
        return None
    faults = faults_of(column, 1)
    values = {n: getattr(faults, n).tolist() for n in FAULT_NAMES} if faults is not None else None
    return {"values": values, "source": package_digest("surefoot.env.faults")}
