"""Tasks of mjlab: `mjlab:Mjlab-Velocity-Flat-Unitree-Go1`. mjlab pins an older MuJoCo and so lives in an
environment of its own, with Surefoot in it (docs/guides/outside.md)."""

from __future__ import annotations

import contextlib
import importlib
import io
import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import SurefootError, unknown
from surefoot.env.external.source import Description, SourceStep, versions_of


def describe(name: str) -> Description:
    env = _make(name, 1, 0, "cpu")
    try:
        spaces, groups = env.single_observation_space.spaces, _groups(name)
        sizes = {k: sum(_size(name, g, spaces[g]) for g in named) for k, named in groups.items()}
        return Description(
            source="mjlab",
            versions=versions_of("mjlab", "mujoco", "mujoco-warp", "warp-lang"),
            observation=sizes["actor"],
            privileged=sizes["critic"],
            actions=int(env.action_manager.total_action_dim),
            low=None,
            high=None,
            episode_steps=int(env.max_episode_length),
            step_s=float(env.step_dt),
            reward_threshold=None,
            seeding="batch",
        )
    finally:
        env.close()


def make(name: str, seeds: Sequence[int], device: str) -> MjlabSource:
    return MjlabSource(name, seeds, device)


class MjlabSource:
    """mjlab draws from the process' own generators: the first seed stands for all environments. Each source
    keeps the state of those generators to itself, so that an evaluation leaves training's draws alone."""

    restarts = True

    def __init__(self, name: str, seeds: Sequence[int], device: str) -> None:
        self.seed, self.device, self.seconds = seeds[0], device, 0.0
        self._groups = _groups(name)
        self._generators: Any = None
        with self._own_generators():
            self.env = _make(name, len(seeds), self.seed, device)

    def start(self) -> Tensor:
        with self._own_generators(), _quiet():
            return self._seen(self.env.reset(seed=self.seed)[0])

    def step(self, action: Tensor) -> SourceStep:
        begun = time.perf_counter()
        with self._own_generators():
            obs, reward, terminated, truncated, _ = self.env.step(action)
        seen = self._seen(obs)
        self.seconds += time.perf_counter() - begun
        return SourceStep(seen, reward.float().clone(), terminated.clone(), truncated.clone())

    def restart(self, rows: Tensor) -> Tensor:
        begun = time.perf_counter()
        with self._own_generators():
            seen = self._seen(self.env.reset(env_ids=rows)[0])[rows]
        self.seconds += time.perf_counter() - begun
        return seen

    def _seen(self, obs: dict[str, Tensor]) -> Tensor:
        parts = [obs[g] for who in ("actor", "critic") for g in self._groups[who]]
        return torch.cat(parts, 1).float().to(self.device)

    @contextlib.contextmanager
    def _own_generators(self) -> Iterator[None]:
        others = _generators(self.device)
        if self._generators is not None:
            _put_generators(self.device, self._generators)
        try:
            yield
        finally:
            self._generators = _generators(self.device)
            _put_generators(self.device, others)

    def close(self) -> None:
        self.env.close()


def _generators(device: str) -> tuple[Any, ...]:
    cuda = torch.cuda.get_rng_state(device) if torch.device(device).type == "cuda" else None
    return random.getstate(), np.random.get_state(), torch.get_rng_state(), cuda  # noqa: NPY002


def _put_generators(device: str, states: tuple[Any, ...]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002
    torch.set_rng_state(states[2])
    if states[3] is not None:
        torch.cuda.set_rng_state(states[3], device)


def _groups(name: str) -> dict[str, tuple[str, ...]]:
    """Returns the groups of observations that the actor and the critic of mjlab's own learner see."""
    groups = dict(_tasks(name).load_rl_cfg(name).obs_groups)
    return {who: tuple(groups[who]) for who in ("actor", "critic")}


def _size(name: str, group: str, space: Any) -> int:
    if len(space.shape) != 1:
        raise SurefootError(
            f"mjlab:{name} has observations '{group}' of shape {space.shape}, and only flat ones can be "
            "trained; choose a task without cameras."
        )
    return int(space.shape[0])


def _make(name: str, count: int, seed: int, device: str) -> Any:
    tasks = _tasks(name)
    envs = importlib.import_module("mjlab.envs")
    cfg = tasks.load_env_cfg(name)
    if cfg.is_finite_horizon:
        raise SurefootError(
            f"mjlab:{name} takes its time limit for an end that is part of the task, and Surefoot bootstraps "
            "time limits; choose a task with is_finite_horizon=False."
        )
    cfg.scene.num_envs, cfg.seed, cfg.auto_reset = count, seed, False
    with _quiet():
        return envs.ManagerBasedRlEnv(cfg, device=device)


def _tasks(name: str) -> Any:
    try:
        importlib.import_module("mjlab.tasks")  # registers them
        registry = importlib.import_module("mjlab.tasks.registry")
    except ImportError as error:
        raise SurefootError(
            "mjlab is not installed here; it pins MuJoCo 3.11 and so needs an environment of its own: "
            "make one with `make mjlab`, or with the two commands in docs/guides/outside.md."
        ) from error
    if name not in registry.list_tasks():
        raise unknown("mjlab task", name, registry.list_tasks())
    return registry


def _quiet() -> contextlib.redirect_stdout[io.StringIO]:
    """Keeps mjlab from printing its managers as tables."""
    return contextlib.redirect_stdout(io.StringIO())
