"""What an external simulator must do to be trained, and what is known about it before.

Sources never reset themselves: `step` returns the observation that an episode truly ended with, and whoever
steps asks for the resets. So timeouts are bootstrapped from the right observation whatever a simulator does
by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from typing import Any, Literal, Protocol

import numpy as np
from torch import Tensor

from surefoot.contract import SourceName, SurefootError


@dataclass(frozen=True)
class Description:
    """An environment as its own library describes it."""

    source: SourceName
    versions: dict[str, str]
    observation: int
    privileged: int
    """Width of what only a critic may see, on top; 0: nothing."""
    actions: int
    low: tuple[float, ...] | None
    high: tuple[float, ...] | None
    episode_steps: int
    step_s: float | None
    reward_threshold: float | None
    seeding: Literal["environment", "batch"] = "environment"


@dataclass(frozen=True)
class SourceStep:
    """One step of all environments, before any reset."""

    seen: Tensor  # [N, C] the policy's observation, then what only a critic may see
    reward: Tensor  # [N]
    terminated: Tensor  # [N] bool
    truncated: Tensor  # [N] bool


class Source(Protocol):
    """Environments of an external simulator, one for each seed that it was made with."""

    seconds: float
    """Wall-clock in the simulator."""
    restarts: bool
    """Whether an environment can begin anew before its episode is over."""

    def start(self) -> Tensor:
        """Begins the first episode of each seed, however often this is called; returns [N, C]."""

    def step(self, action: Tensor) -> SourceStep:
        """Applies actions [N, A], in the simulator's units."""

    def restart(self, rows: Tensor) -> Tensor:
        """Begins the next episode of the K environments in `rows`; returns [K, C]."""

    def close(self) -> None: ...


class SourceModule(Protocol):
    """What each file of a source offers."""

    def describe(self, name: str) -> Description:
        """Describes the environment called `name`; what cannot be trained is refused here."""

    def make(self, name: str, seeds: Sequence[int], device: str) -> Source: ...


def flat_size(where: str, what: str, space: Any) -> int:
    """The width of a flat Box space; anything else is refused by name."""
    from gymnasium.spaces import Box

    if not isinstance(space, Box):
        raise SurefootError(
            f"{where} has {what} of the kind {type(space).__name__}, and only flat Box ones can be trained; "
            "choose another environment."
        )
    if len(space.shape) != 1:
        raise SurefootError(
            f"{where} has {what} of shape {space.shape}, and only flat ones can be trained; "
            "register it with Gymnasium's FlattenObservation or choose another environment."
        )
    return int(space.shape[0])


def bounds(where: str, space: Any) -> tuple[tuple[float, ...], tuple[float, ...]] | tuple[None, None]:
    """Low and high of a Box of actions; none where no action is bounded."""
    low, high = np.asarray(space.low, np.float64), np.asarray(space.high, np.float64)
    if np.isinf(low).all() and np.isinf(high).all():
        return None, None
    if np.isinf(low).any() or np.isinf(high).any():
        raise SurefootError(
            f"{where} bounds some of its actions and others not; "
            "give all of them bounds with Gymnasium's RescaleAction, or none."
        )
    return tuple(low.tolist()), tuple(high.tolist())


def needs_limit(where: str, steps: int | None) -> int:
    if steps is None or steps < 1:
        raise SurefootError(
            f"{where} has no time limit, so its episodes need never end; register it with max_episode_steps."
        )
    return steps


def versions_of(*packages: str) -> dict[str, str]:
    """Returns the versions of those packages that are installed."""
    out = {}
    for name in packages:
        try:
            out[name] = version(name)
        except PackageNotFoundError:  # a module on the path, that no distribution brought
            continue
    return out


def distributions(module: str) -> list[str]:
    """Returns the distributions of the package that `module` belongs to."""
    return packages_distributions().get(module.split(".")[0], [])
