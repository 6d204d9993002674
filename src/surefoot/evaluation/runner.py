"""What steps a panel's episodes: torch, step by step, or kernels compiled from the same methods."""

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
    """Steps a batch of N environments through one episode each."""

    @property
    def obs(self) -> Tensor:
        """Returns the observations to act on next, [N, O]."""

    def begin(self) -> None:
        """Begins from where the environments stand."""

    def step(self, action: Tensor) -> dict[str, Tensor]:
        """Makes one control step; returns what to record of it. `reason` is always there, 0 while alive."""

    def decode(self, frames: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns what was recorded of `step` over T steps under the names of recorder.py, [T, N, ...]."""

    def graph_state(self) -> list[Tensor]:
        """Returns the tensors that a step replaces by new ones, and that the next step reads."""

    def set_graph_state(self, tensors: list[Tensor]) -> None:
        """Continues with `tensors`, in the order of `graph_state`."""


class EagerRunner:
    """Steps `VecEnv` itself, on any engine."""

    def __init__(self, env: VecEnv) -> None:
        self.env = env

    @property
    def obs(self) -> Tensor:
        return self.env.obs

    def begin(self) -> None:
        return None

    def step(self, action: Tensor) -> dict[str, Tensor]:
        return observed(self.env.step(action))

    def decode(self, frames: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return dict(frames)

    def graph_state(self) -> list[Tensor]:
        return self.env.graph_state()

    def set_graph_state(self, tensors: list[Tensor]) -> None:
        self.env.set_graph_state(tensors)


def runner_for(env: VecEnv) -> EpisodeRunner:
    """Returns a compiled runner where one can be: on stride, for tasks whose functions can be traced."""
    if not isinstance(env.engine, StrideEngine):
        return EagerRunner(env)
    try:
        return CompiledPanel(env)
    except Untraceable:
        return EagerRunner(env)
