"""What an adapter is given to train with, and what it hands back after every update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from surefoot.contract import Recipe, Timeouts
from surefoot.learners.libraries.env import LibraryEnv


class TrainingDone(Exception):
    """Raised out of a library's loop when the run is done; no library catches it."""


@dataclass(frozen=True)
class Export:
    """Holds a deterministic policy as a policy bundle has it, with its normaliser and clipping."""

    tensors: dict[str, Tensor]
    observation_clip: float | None = None


@dataclass(frozen=True)
class Trained:
    """Holds what a run asks of a library's learner."""

    act: Callable[[Tensor], Tensor]
    """The library's own deterministic actions [N, A] for observations [N, O], by its own means."""
    export: Callable[[], Export]
    state: Callable[[], Mapping[str, Any]]
    """What the library would save: nested mappings and lists of tensors and numbers."""


@dataclass(frozen=True)
class LibraryNotes:
    """Holds what an adapter says before the first update; kept in run.json."""

    settings: Mapping[str, Any]
    """The settings that the library was given, by its own names."""
    differences: Sequence[str]
    """What it cannot express of the recipe, or does otherwise; sentences."""


class AdapterSession(Protocol):
    """Shows a run to the adapter that trains it."""

    env: LibraryEnv
    recipe: Recipe
    seed: int
    device: str
    timeouts: Timeouts
    folder: Path
    """The folder for what a library writes of its own accord."""

    def begin(self, about: LibraryNotes) -> None: ...

    def updated(self, metrics: Mapping[str, float | None], trained: Trained) -> None:
        """Is called after every update, and raises `TrainingDone` when the run is done. Metrics have the
        ledger's names; what a library does not tell is left out."""


FOREVER = 2**31 - 1
"""Updates that a library is asked for: `AdapterSession.updated` ends the run before that."""


def mlp(layers: nn.Module | Sequence[nn.Module]) -> dict[str, Tensor]:
    """Returns the linear layers of an MLP, in order, by the names of a policy bundle."""
    modules = layers.modules() if isinstance(layers, nn.Module) else layers
    out: dict[str, Tensor] = {}
    linear = [m for m in modules if isinstance(m, nn.Linear)]
    for k, layer in enumerate(linear):
        out |= {f"{k}.weight": layer.weight.detach().clone(), f"{k}.bias": layer.bias.detach().clone()}
    return {k: v.float().cpu() for k, v in out.items()}


def normaliser(size: int, mean: Tensor | None = None, std: Tensor | None = None) -> dict[str, Tensor]:
    """Returns what observations are shifted and divided by: 0 and 1 where nothing is given."""
    if mean is None or std is None:
        return {"mean": torch.zeros(size), "std": torch.ones(size)}
    return {
        "mean": mean.detach().reshape(-1).float().cpu().clone(),
        "std": std.detach().reshape(-1).float().cpu().clone(),
    }


def common(recipe: Recipe, std_range: bool = False, critic: bool = False) -> list[str]:
    """Returns the differences from the recipe that libraries share; `std_range`: the library keeps std in its
    range; `critic`: its critic sees privileged observations."""
    out = ["samples are not mirrored left to right"] if recipe.mirror else []
    if not std_range:
        out.append(f"std is not kept between {recipe.min_std:g} and {recipe.max_std:g}")
    if not critic:
        out.append("the critic sees what the policy sees, no privileged observations")
    if recipe.normalise:
        out.append(
            f"observations are normalised by all samples so far, not by a window of "
            f"{recipe.normaliser_window:g}"
        )
    if recipe.precision != "fp32":
        out.append(f"matrix products have torch's own precision, not {recipe.precision}")
    return out
