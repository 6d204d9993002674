"""Where a panel's episodes are lived: step by step in torch, or in kernels compiled from the same methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from surefoot.compiler import Untraceable
from surefoot.engines.stride import StrideEngine
from surefoot.env import VecEnv
from surefoot.env.compiled import CompiledPanel
from surefoot.evaluation.recorder import observed


class EpisodeRunner(Protocol):
    @property
    def obs(self) -> Tensor:
        """[N, O] what to act on next."""

    def begin(self) -> None:
        """From where the environments stand."""

    def step(self, action: Tensor) -> dict[str, Tensor]:
        """One control step; returns what to film of it. `reason` is always there, 0 while alive."""

    def decode(self, film: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Names of film.py, [T, N, ...], from a film of what `step` returned."""

    def graph_state(self) -> list[Tensor]:
        """Tensors that a step replaces by new ones, and that the next step reads."""

    def set_graph_state(self, tensors: list[Tensor]) -> None:
        """Continues with `tensors`, in the order of `carried`."""


class EagerRunner:
    """`VecEnv` itself, on any engine."""

    def __init__(self, env: VecEnv) -> None:
        self.env = env

    @property
    def obs(self) -> Tensor:
        return self.env.obs

    def begin(self) -> None:
        return None

    def step(self, action: Tensor) -> dict[str, Tensor]:
        return observed(self.env.step(action))

    def decode(self, film: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return dict(film)

    def graph_state(self) -> list[Tensor]:
        return self.env.graph_state()

    def set_graph_state(self, tensors: list[Tensor]) -> None:
        self.env.set_graph_state(tensors)


def runner_for(env: VecEnv) -> EpisodeRunner:
    """Compiled where it can be: on stride, for tasks whose functions can be traced."""
    if not isinstance(env.engine, StrideEngine):
        return EagerRunner(env)
    try:
        return CompiledPanel(env)
    except Untraceable:
        return EagerRunner(env)
