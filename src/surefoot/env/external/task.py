"""External tasks, by name: `gym:ID`, `envpool:ID`, `mjlab:ID`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch

from surefoot.contract import (
    PANEL,
    SOURCES,
    ActionBox,
    ExternalContract,
    ObservationTerm,
    Recipe,
    ReturnSuccess,
    RewardTerm,
    SurefootError,
    Termination,
)
from surefoot.env.external.source import Description, Source, SourceModule

UNBOUNDED_CLIP = 10.0
"""Largest action where the simulator sets no bounds."""

RECIPE = Recipe(
    envs=32,
    horizon=64,
    minibatches=8,
    epochs=8,
    families=32,
    hidden=(64, 64),
    init_std=0.6,
    min_std=0.05,
    mirror=False,
    normaliser_window=1e6,
    learning_rate=3e-4,
    min_learning_rate=3e-5,
    max_learning_rate=1e-3,
    gamma=0.99,
    lam=0.95,
    entropy=0.0,
    evaluate_every=25,
)
"""The recipe for simulators that step tens of environments on a CPU."""

MANY: dict[str, Any] = {"envs": 1024, "horizon": 24, "families": 1024, "minibatches": 4, "epochs": 5}
"""What the recipe changes for simulators that step thousands of environments."""


@dataclass(frozen=True)
class ExternalTask:
    """A contract bound to a simulator and to the defaults that it trains with."""

    contract: ExternalContract
    recipe: Recipe
    make: Callable[[Sequence[int], str], Source]
    """Makes an environment for each seed, on a device."""
    minutes: float = 6.0
    until: float | None = None
    """`train` stops at this success, where success is a return; lasting alone is no reason to stop."""


def is_external(name: str) -> bool:
    return name.split(":", 1)[0] in SOURCES and ":" in name


def external_task(name: str, device: str = "cpu", success_return: float | None = None) -> ExternalTask:
    """The task called `name`. `success_return`: what an episode's return must reach, instead of what the
    environment registers."""
    prefix, environment = name.split(":", 1)
    if not environment:
        raise SurefootError(f"'{name}' names no environment; write e.g. gym:Ant-v5.")
    module = cast(SourceModule, importlib.import_module(f"surefoot.env.external.{SOURCES[prefix]}"))
    description = module.describe(environment)
    recipe = RECIPE.model_copy(update=MANY if torch.device(device).type == "cuda" else {})
    hz = 1.0 / description.step_s if description.step_s else 1.0
    success = _success(description, success_return)
    return ExternalTask(
        contract=_contract(name, environment, description, success),
        recipe=recipe.model_copy(update={"control_hz": round(hz, 6), "decimation": 1}),
        make=partial(module.make, environment),
        until=None if success.return_at_least is None else 0.98,
    )


def _success(description: Description, success_return: float | None) -> ReturnSuccess:
    if success_return is not None and success_return != description.reward_threshold:
        doc = f"return of at least {success_return:g}, as --success-return said"
        return ReturnSuccess(return_at_least=success_return, doc=doc)
    threshold = description.reward_threshold
    if threshold is not None:
        doc = f"return of at least {threshold:g}, the environment's registered reward threshold"
        return ReturnSuccess(return_at_least=threshold, doc=doc)
    doc = f"the episode lasts its {description.episode_steps} steps; no reward threshold is registered"
    return ReturnSuccess(return_at_least=None, doc=doc)


def _contract(
    name: str, environment: str, description: Description, success: ReturnSuccess
) -> ExternalContract:
    extra = (
        (ObservationTerm(name="privileged", size=description.privileged, unit=""),)
        if description.privileged
        else ()
    )
    return ExternalContract(
        name=name,
        source=description.source,
        environment=environment,
        versions=description.versions,
        observation=(ObservationTerm(name="observation", size=description.observation, unit=""),),
        privileged=extra,
        action=ActionBox(
            size=description.actions,
            clip=1.0 if description.low is not None else UNBOUNDED_CLIP,
            low=description.low,
            high=description.high,
        ),
        rewards=(
            RewardTerm(name="reward", weight=1.0, event=True, doc="per step, as the environment gives it"),
        ),
        terminations=(Termination(name="terminated", doc="the environment terminates the episode"),),
        panel=PANEL,
        episode_steps=description.episode_steps,
        step_s=description.step_s,
        success=success,
        seeding=description.seeding,
    )
