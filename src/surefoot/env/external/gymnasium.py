"""Environments registered with Gymnasium: `gym:Ant-v5`, or `gym:my_package:My-v0`, which imports my_package.

One by one in this process, or by the environment's own vector class where it has one that resets within the
step or not at all.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

from surefoot.contract import SurefootError
from surefoot.env.external.source import (
    Description,
    SourceStep,
    bounds,
    distributions,
    flat_size,
    needs_limit,
    versions_of,
)


def describe(name: str) -> Description:
    where, spec = f"gym:{name}", _spec(name)
    entry = spec.entry_point if isinstance(spec.entry_point, str) else spec.vector_entry_point
    module = entry.split(":")[0] if isinstance(entry, str) else "gymnasium"
    physics = ["mujoco"] if module.startswith("gymnasium.envs.mujoco") else []
    envs = _vector(name, 1)
    try:
        single: Any = getattr(envs.unwrapped, "envs", [envs])[0]
        step_s = getattr(single.unwrapped, "dt", None)
        observation = flat_size(where, "observations", envs.single_observation_space)
        actions = flat_size(where, "actions", envs.single_action_space)
        low, high = bounds(where, envs.single_action_space)
    finally:
        envs.close()
    return Description(
        source="gymnasium",
        versions=versions_of("gymnasium", *distributions(module), *physics),
        observation=observation,
        privileged=0,
        actions=actions,
        low=low,
        high=high,
        episode_steps=needs_limit(where, spec.max_episode_steps),
        step_s=float(step_s) if isinstance(step_s, int | float) and step_s > 0 else None,
        reward_threshold=spec.reward_threshold,
    )


def make(name: str, seeds: Sequence[int], device: str) -> GymnasiumSource:
    return GymnasiumSource(_vector(name, len(seeds)), seeds, device)


class GymnasiumSource:
    def __init__(self, envs: VectorEnv[Any, Any, Any], seeds: Sequence[int], device: str) -> None:
        self.envs, self.seeds, self.device, self.seconds = envs, list(seeds), device, 0.0
        self._same_step = envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
        self.restarts = not self._same_step
        self._next = np.zeros(0)  # where it resets within the step: first observations of next episodes

    def start(self) -> Tensor:
        return self._tensor(self.envs.reset(seed=self.seeds)[0])  # type: ignore[arg-type]  # one each

    def step(self, action: Tensor) -> SourceStep:
        begun = time.perf_counter()
        given = action.cpu().numpy().astype(self.envs.action_space.dtype)
        obs, reward, terminated, truncated, infos = self.envs.step(given)
        if self._same_step:
            self._next = obs
            ended = np.flatnonzero(terminated | truncated)
            obs = obs.copy()
            if len(ended):
                obs[ended] = np.stack([infos["final_obs"][k] for k in ended])
        self.seconds += time.perf_counter() - begun
        flags = (torch.from_numpy(np.array(x, bool)).to(self.device) for x in (terminated, truncated))
        return SourceStep(self._tensor(obs), self._tensor(reward), *flags)

    def restart(self, rows: Tensor) -> Tensor:
        begun, index = time.perf_counter(), rows.cpu().numpy()
        if self._same_step:
            first = self._next
        else:
            mask = np.zeros(len(self.seeds), bool)
            mask[index] = True
            first = self.envs.reset(options={"reset_mask": mask})[0]
        self.seconds += time.perf_counter() - begun
        return self._tensor(first[index])

    def _tensor(self, x: np.ndarray) -> Tensor:
        return torch.from_numpy(np.array(x, np.float32)).to(self.device)

    def close(self) -> None:
        self.envs.close()


def _spec(name: str) -> gymnasium.envs.registration.EnvSpec:
    module, _, environment = name.rpartition(":")
    try:
        if module:
            importlib.import_module(module)  # registers its environments
        return gymnasium.spec(environment)
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        raise SurefootError(
            f"Gymnasium has no environment '{name}' ({_first(error)}); "
            "write gym:Ant-v5, or gym:my_package:My-v0 to import my_package first."
        ) from error


def _vector(name: str, count: int) -> VectorEnv[Any, Any, Any]:
    spec = _spec(name)
    try:
        if spec.vector_entry_point is not None:
            own = gymnasium.make_vec(name, count, vectorization_mode="vector_entry_point")
            if own.metadata.get("autoreset_mode") in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED):
                return own
            own.close()
            if spec.entry_point is None:
                raise SurefootError(
                    f"gym:{name} resets its environments one step late, and there is no single one to step "
                    "instead; give its vector class the autoreset mode SAME_STEP or DISABLED."
                )
        disabled = {"autoreset_mode": AutoresetMode.DISABLED}
        return gymnasium.make_vec(name, count, vectorization_mode="sync", vector_kwargs=disabled)
    except (gymnasium.error.Error, ImportError) as error:
        mujoco = "mujoco" in str(spec.entry_point)
        remedy = "pip install 'surefoot[gym-mujoco]'" if mujoco else "install what it needs"
        raise SurefootError(f"Gymnasium cannot make '{name}' ({_first(error)}); {remedy}.") from error


def _first(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".")
