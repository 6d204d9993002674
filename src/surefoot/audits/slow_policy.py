"""A policy and its values once more: numpy in double precision, from the tensors of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from surefoot.audits.slow_memory import SlowMemory
from surefoot.contract import Memory

EPSILON = 1e-3
"""Added to standard deviations of observations, as the reference says."""


class SlowPolicy:
    """Networks and statistics of observations as they stood when their tensors were copied."""

    def __init__(self, tensors: Mapping[str, Tensor], normalised: bool) -> None:
        self._t = {k: v.detach().cpu().double().numpy().copy() for k, v in tensors.items()}
        self._normalised = normalised
        self.log_std = self._t["networks.log_std"]

    def mean(self, features: np.ndarray) -> np.ndarray:
        """Returns mean actions [..., A] for what the actor's layers read."""
        return self._network("actor", features)

    def features(self, memory: SlowMemory, obs: np.ndarray, begins: np.ndarray) -> np.ndarray:
        """Returns what the actor's layers read [T, N, inputs] of observations [T, N, O]; `begins` [T, N] says
        where episodes do. `memory` remembers them."""
        weights = {k.removeprefix("networks."): v for k, v in self._t.items()}
        return memory.steps(weights, lambda x: self._seen("obs_normalizer", x), obs, begins)

    def value(self, critic: np.ndarray) -> np.ndarray:
        """Returns values [...]."""
        out: np.ndarray = self._network("critic", self._seen("critic_normalizer", critic))[..., 0]
        return out

    def log_prob(self, mean: np.ndarray, action: np.ndarray) -> np.ndarray:
        """Returns log densities [...] of a normal distribution."""
        z = (action - mean) / np.exp(self.log_std)
        out: np.ndarray = (-0.5 * z**2 - self.log_std - 0.5 * np.log(2 * np.pi)).sum(-1)
        return out

    def _seen(self, name: str, x: np.ndarray) -> np.ndarray:
        if not self._normalised:
            return x.astype(np.float64)
        mean, var = self._t[f"{name}.mean"], self._t[f"{name}.var"]
        out: np.ndarray = (x - mean) / (np.sqrt(var) + EPSILON)
        return out

    def _network(self, name: str, x: np.ndarray) -> np.ndarray:
        layers = sorted(
            int(k.split(".")[2]) for k in self._t if k.startswith(f"networks.{name}.") and "bias" in k
        )
        for k in layers:
            x = x @ self._t[f"networks.{name}.{k}.weight"].T + self._t[f"networks.{name}.{k}.bias"]
            if k != layers[-1]:
                x = np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
        return np.asarray(x)


class SlowBundle:
    """A policy as its bundle has it: `mean`, `std`, and layers by number."""

    def __init__(self, tensors: Mapping[str, Tensor], clip: float | None, memory: Memory) -> None:
        self._t = {k: v.detach().cpu().double().numpy().copy() for k, v in tensors.items()}
        self._clip, self._memory = clip, memory

    def actions(self, obs: np.ndarray) -> np.ndarray:
        """Returns actions [T, ..., A] for observations [T, ..., O] of episodes from their first steps on."""
        begins = np.zeros(obs.shape[:-1], bool)
        begins[:1] = True
        x = SlowMemory(self._memory).steps(self._t, self._normal, obs, begins)
        last = max(int(k.split(".")[0]) for k in self._t if k.endswith(".weight"))
        for k in range(last + 1):
            x = x @ self._t[f"{k}.weight"].T + self._t[f"{k}.bias"]
            if k != last:
                x = np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
        return np.asarray(x)

    def _normal(self, obs: np.ndarray) -> np.ndarray:
        x = (obs - self._t["mean"]) / self._t["std"]
        return np.asarray(x if self._clip is None else np.clip(x, -self._clip, self._clip))
