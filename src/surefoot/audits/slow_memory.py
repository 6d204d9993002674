"""What a policy remembers, once more: numpy in double precision, one control step after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from surefoot.contract import Memory

Normal = Callable[[np.ndarray], np.ndarray]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


class SlowMemory:
    """Follows episodes side by side; `weights` are the policy's, under the names of a bundle."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._seen: list[np.ndarray] = []  # a window's observations [..., O], the newest first
        self._state = np.zeros(0)  # a GRU's

    def step(
        self, weights: Mapping[str, np.ndarray], normal: Normal, obs: np.ndarray, begins: np.ndarray
    ) -> np.ndarray:
        """Returns what the actor's layers read [..., inputs] of observations [..., O], of which those begin
        an episode that `begins` [...] says."""
        first = np.asarray(begins)[..., None]
        if self.memory.kind == "window":
            earlier = self._seen[: self.memory.size - 1] or [obs] * (self.memory.size - 1)
            self._seen = [obs, *(np.where(first, obs, x) for x in earlier)]
            return np.concatenate([normal(x) for x in self._seen], -1)
        x = normal(obs)
        if not self.memory:
            return x
        h = self._state if self._state.size else np.zeros((*obs.shape[:-1], self.memory.size))
        h = np.where(first, 0.0, h)
        given = x @ weights["memory.input"].T + weights["memory.input_bias"].ravel()
        held = h @ weights["memory.state"].T + weights["memory.state_bias"].ravel()
        reset, update, new = (
            (a, b) for a, b in zip(np.split(given, 3, -1), np.split(held, 3, -1), strict=True)
        )
        z = sigmoid(update[0] + update[1])
        candidate = np.tanh(new[0] + sigmoid(reset[0] + reset[1]) * new[1])
        self._state = (1 - z) * candidate + z * h
        return np.concatenate([x, self._state], -1)

    def steps(
        self, weights: Mapping[str, np.ndarray], normal: Normal, obs: np.ndarray, begins: np.ndarray
    ) -> np.ndarray:
        """Returns the same for T steps in a row: obs [T, ..., O], begins [T, ...]."""
        return np.stack([self.step(weights, normal, *x) for x in zip(obs, begins, strict=True)])
