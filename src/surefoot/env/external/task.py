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
"""For simulators that step tens of environments on a CPU."""

MANY: dict[str, Any] = {"envs": 1024, "horizon": 24, "families": 1024, "minibatches": 4, "epochs": 5}
"""What differs for those that step thousands."""


@dataclass(frozen=True)
class ExternalTask:
    """A contract bound to a simulator and to the defaults that it trains with."""

    contract: ExternalContract
    recipe: Recipe
    make: Callable[[Sequence[int], str], Source]
    """Environments for seeds, on a device."""
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
    found = module.describe(environment)
    recipe = RECIPE.model_copy(update=MANY if torch.device(device).type == "cuda" else {})
    hz = 1.0 / found.step_s if found.step_s else 1.0
    success = _success(found, success_return)
    return ExternalTask(
        contract=_contract(name, environment, found, success),
        recipe=recipe.model_copy(update={"control_hz": round(hz, 6), "decimation": 1}),
        make=partial(module.make, environment),
        until=None if success.return_at_least is None else 0.98,
    )


def _success(found: Description, asked: float | None) -> ReturnSuccess:
    if asked is not None and asked != found.reward_threshold:
        doc = f"return of at least {asked:g}, as --success-return said"
        return ReturnSuccess(return_at_least=asked, doc=doc)
    if found.reward_threshold is not None:
        doc = f"return of at least {found.reward_threshold:g}, the environment's registered reward threshold"
        return ReturnSuccess(return_at_least=found.reward_threshold, doc=doc)
    doc = f"the episode lasts its {found.episode_steps} steps; no reward threshold is registered"
    return ReturnSuccess(return_at_least=None, doc=doc)


def _contract(name: str, environment: str, found: Description, success: ReturnSuccess) -> ExternalContract:
    extra = (ObservationTerm(name="privileged", size=found.privileged, unit=""),) if found.privileged else ()
    return ExternalContract(
        name=name,
        source=found.source,
        environment=environment,
        versions=found.versions,
        observation=(ObservationTerm(name="observation", size=found.observation, unit=""),),
        privileged=extra,
        action=ActionBox(
            size=found.actions,
            clip=1.0 if found.low is not None else UNBOUNDED_CLIP,
            low=found.low,
            high=found.high,
        ),
        rewards=(
            RewardTerm(name="reward", weight=1.0, event=True, doc="per step, as the environment gives it"),
        ),
        terminations=(Termination(name="terminated", doc="the environment terminates the episode"),),
        panel=PANEL,
        episode_steps=found.episode_steps,
        step_s=found.step_s,
        success=success,
        seeding=found.seeding,
    )
