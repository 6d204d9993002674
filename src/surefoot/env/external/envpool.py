"""Environments of EnvPool: `envpool:Ant-v5`, or `envpool:Go1JoystickFlatTerrain-v1` with what its critic may
see."""

from __future__ import annotations

import difflib
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import SurefootError
from surefoot.env.external.source import Description, SourceStep, bounds, flat_size, needs_limit, versions_of

GROUPS = ("state", "privileged_state")
"""MuJoCo Playground's names for what a policy sees, and for what a critic may see on top of it."""


def describe(name: str) -> Description:
    where = f"envpool:{name}"
    spec = _envpool(name).make_spec(name)
    observation, privileged = _sizes(where, spec.observation_space)
    space, config = spec.action_space, spec.config
    actions = flat_size(where, "actions", space)
    low, high = bounds(where, space)
    return Description(
        source="envpool",
        versions=versions_of("envpool", "envpool-assets", "envpool-assets-mujoco-large"),
        observation=observation,
        privileged=privileged,
        actions=actions,
        low=low,
        high=high,
        episode_steps=needs_limit(where, config.max_episode_steps),
        step_s=getattr(config, "ctrl_dt", None),
        reward_threshold=spec.reward_threshold,
    )


def make(name: str, seeds: Sequence[int], device: str) -> EnvPoolSource:
    return EnvPoolSource(name, seeds, device)


class EnvPoolSource:
    """EnvPool seeds environments when it makes them, so every start makes them anew. A pool asked for some of
    its environments answers in their order."""

    restarts = True

    def __init__(self, name: str, seeds: Sequence[int], device: str) -> None:
        self.name, self.seeds, self.device, self.seconds = name, list(seeds), device, 0.0
        self._pool: Any = None

    def start(self) -> Tensor:
        self.close()
        self._pool = _envpool(self.name).make(
            self.name, env_type="gymnasium", num_envs=len(self.seeds), seed=self.seeds
        )
        return self._seen(self._pool.reset()[0])

    def step(self, action: Tensor) -> SourceStep:
        begun = time.perf_counter()
        obs, reward, terminated, truncated, _ = self._pool.step(action.cpu().numpy())
        self.seconds += time.perf_counter() - begun
        flags = (torch.from_numpy(np.array(x, bool)).to(self.device) for x in (terminated, truncated))
        return SourceStep(self._seen(obs), self._tensor(reward), *flags)

    def restart(self, rows: Tensor) -> Tensor:
        begun = time.perf_counter()
        obs, info = self._pool.reset(rows.cpu().numpy().astype(np.int32))
        self.seconds += time.perf_counter() - begun
        assert info["env_id"].tolist() == rows.tolist()
        return self._seen(obs)

    def _seen(self, obs: Any) -> Tensor:
        if isinstance(obs, dict):
            return torch.cat([self._tensor(obs[k]) for k in GROUPS], 1)
        return self._tensor(obs)

    def _tensor(self, x: np.ndarray) -> Tensor:
        return torch.from_numpy(np.array(x, np.float32)).to(self.device)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None


def _sizes(where: str, space: Any) -> tuple[int, int]:
    from gymnasium.spaces import Dict

    if isinstance(space, Dict) and set(space.keys()) == set(GROUPS):
        first, second = (flat_size(where, f"observations '{k}'", space[k]) for k in GROUPS)
        return first, second
    return flat_size(where, "observations", space), 0


def _envpool(name: str) -> Any:
    try:
        import envpool
    except ImportError as error:
        raise SurefootError(
            "EnvPool is not installed; pip install 'surefoot[envpool]' (Linux, macOS and Windows wheels)."
        ) from error
    known = envpool.list_all_envs()  # some two thousand
    if name not in known:
        near = difflib.get_close_matches(name, known)
        raise SurefootError(
            f"There is no EnvPool environment '{name}'"
            + (f"; did you mean {' or '.join(near)}?" if near else "; envpool.list_all_envs() lists them.")
        )
    return envpool
