"""Gymnasium views of the environment: numpy in, numpy out, under Gymnasium's own autoreset conventions.

Importing this module registers the environments below with Gymnasium. That is work at import time, and on
purpose: since version 1.0 Gymnasium loads no plugins, and `make_vec("surefoot.gym:surefoot/WalkFlat-v0")`
imports the module and then looks the name up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray
from torch import Tensor

from surefoot.compute import check_device
from surefoot.contract import SeedPlan, SurefootError, TaskContract, unknown
from surefoot.engines import choose_engine
from surefoot.env.base import Step
from surefoot.env.faults import Faults
from surefoot.env.rules import OBSERVATION_LIMIT
from surefoot.env.scenarios import Sampler, Scenarios, TrainSampler
from surefoot.env.vec_env import VecEnv
from surefoot.tasks import Task
from surefoot.tasks import task as find_task
from surefoot.terrain import Atlas

Array = NDArray[Any]
Result = tuple[Array, Array, Array, Array, dict[str, Any]]

ENVIRONMENTS = {
    "surefoot/WalkFlat-v0": "walk-flat",
    "surefoot/TrotFlat-v0": "trot-flat",
    "surefoot/WalkRough-v0": "walk-rough",
    "surefoot/WalkAnymalFlat-v0": "walk-anymal-flat",
    "surefoot/WalkAnymalRough-v0": "walk-anymal-rough",
    "surefoot/WalkBipedFlat-v0": "walk-biped-flat",
}
MOST_FAMILIES = 32
"""The recipes train with this many seed families."""


class SurefootVectorEnv(VectorEnv[Array, Array, Array]):
    """`num_envs` training environments of a task.

    In `infos`, `critic_obs` [N, C] belongs to the observation that is returned. `reward_terms` (name to [N]),
    `reason`, `stratum` and `family` belong to the reward that is returned, also where an environment ended.
    Terms are those before the contract's floor, so they can add up to less than the reward. If one ends,

    - SAME_STEP returns the first observation of its next episode; its last is in `final_obs`, `final_info`;
    - NEXT_STEP returns the last observation; the next call ignores the action, resets, and gives reward 0;
    - DISABLED returns the last observation, and refuses to step before `reset(options={"reset_mask": ...})`.

    Gymnasium's observation wrappers, `NormalizeObservation` among them, only accept the last two.
    """

    def __init__(
        self,
        task: str = "walk-flat",
        num_envs: int = 64,
        seed: int = 1,
        families: int | None = None,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        engine: str = "auto",
        device: str = "cpu",
        stagger: bool = False,
    ) -> None:
        """`families` is the largest divisor of `num_envs` up to 32 unless given. With `stagger` the first
        episodes are already some way towards their time limit, as in `surefoot train`, and end apart."""
        self.autoreset_mode = _mode(autoreset_mode)
        self.metadata = {"autoreset_mode": self.autoreset_mode, "render_modes": []}
        self.num_envs = num_envs
        self.task = find_task(task)
        self._layout = layout_of(self.task, num_envs, families or seed_families(num_envs), engine, device)
        self._stagger, same = stagger, self.autoreset_mode is AutoresetMode.SAME_STEP
        self.vec = self._layout.vec(self._layout.sampler(seed), auto_reset=same, stagger=stagger)
        self.single_observation_space, self.single_action_space = spaces_of(self.task.contract)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._over = np.zeros(num_envs, bool)  # ended in the last step and not yet begun again
        self._untouched = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begins new episodes in all environments, or in those of `options["reset_mask"]` ([N] bool).

        With `seed`, episode 0 of the seed plan with that root. Without, the first call gives episode 0 of the
        constructor's seed and each later call the next episode of every environment: the same sequence again.
        """
        mask = _reset_mask(options, self.num_envs)
        if seed is not None:
            if not mask.all():
                raise SurefootError("A seed is for all environments; reset with a seed or a mask, not both.")
            self.vec.restart(self._layout.sampler(seed), stagger=self._stagger)
        elif not (self._untouched and mask.all()):
            self.vec.reset_rows(torch.from_numpy(mask).to(self.vec.device))
        super().reset(seed=seed)
        self._over, self._untouched = self._over & ~mask, False
        return to_numpy(self.vec.obs), _masked(reset_info(self.vec), mask)

    def step(self, actions: Array) -> Result:
        """Takes one control step of all environments; actions are clipped to the action space."""
        vec, over = self.vec, self._over
        if self.autoreset_mode is AutoresetMode.DISABLED and over.any():
            raise SurefootError(
                f"{over.sum()} environments have ended and autoreset is disabled; "
                'reset them with reset(options={"reset_mask": terminated | truncated}).'
            )
        self._untouched = False
        progress = vec.progress.clone()
        step = vec.step(_action(actions, self.action_space, vec))
        vec.log.take_ended()  # the episode table is for `surefoot train`; here it would only grow
        info = step_info(vec, step)
        reward, terminated, truncated = (
            to_numpy(step.reward),
            to_numpy(step.terminated),
            to_numpy(step.truncated),
        )
        if over.any():
            # Environments that had ended were stepped along with the others. Nothing of that counts: not the
            # reward, nor (for the curriculum) the metres walked.
            rows = torch.from_numpy(over).to(vec.device)
            vec.progress[rows] = progress[rows]
            vec.reset_rows(rows)
            reward[over], terminated[over], truncated[over] = 0, False, False
            info["reason"][over], info["stratum"][over] = vec.reasons[0], to_numpy(vec.stratum)[over]
            for term in info["reward_terms"].values():
                term[over] = 0
        done = terminated | truncated
        infos = _masked(info | {"critic_obs": to_numpy(vec.critic)}, np.ones(self.num_envs, bool))
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            self._over = done
        elif done.any():
            final = {"final_obs": _ragged(to_numpy(step.final_obs), done), "final_info": _only(info, done)}
            infos |= _masked(final, done)
        return to_numpy(vec.obs), reward, terminated, truncated, infos

    def close_extras(self, **_: Any) -> None:
        self.vec.close()


class SurefootEnv(gymnasium.Env[Array, Array]):
    """One training environment, for checks and for looking closely; train on `SurefootVectorEnv`.

    Strata are dealt to environments, not drawn, so a vector environment of one would keep to one corner of
    friction and payload. This is therefore one of as many environments as those strata need: number `seed`
    modulo that many, so consecutive seeds go through all of them. Without a seed, it is a random one.
    """

    metadata = {"render_modes": []}

    def __init__(
        self, task: str = "walk-flat", seed: int | None = None, *, engine: str = "auto", device: str = "cpu"
    ) -> None:
        root = int(self.np_random.integers(1 << 32)) if seed is None else seed
        self.task = find_task(task)
        self.observation_space, self.action_space = spaces_of(self.task.contract)
        strata = self.task.contract.strata.factors
        self._of = math.prod(len(f.deck) for f in strata if f.level != "episode")
        self._layout = layout_of(self.task, self._of, self._of, engine, device)
        self.vec = self._layout.vec(self._sampler(root), auto_reset=False, stagger=False)
        self._untouched = True

    def _sampler(self, root: int) -> Sampler:
        return _Alone(self._layout.sampler(root), root % self._of)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Episode 0 of `seed`; without one the next episode, at first episode 0 of the constructor's seed."""
        if seed is not None:
            self.vec.restart(self._sampler(seed), stagger=False)
        elif not self._untouched:
            self.vec.reset_rows(torch.ones(1, dtype=torch.bool, device=self.vec.device))
        super().reset(seed=seed)
        self._untouched = False
        return to_numpy(self.vec.obs)[0], _first(reset_info(self.vec))

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self._untouched = False
        step = self.vec.step(_action(action, self.action_space, self.vec))
        info = _first(step_info(self.vec, step))
        return to_numpy(step.obs)[0], float(step.reward), bool(step.terminated), bool(step.truncated), info

    def close(self) -> None:
        self.vec.close()


class _Alone:
    """Serves one environment of a larger plan as if there were no other."""

    count = 1
    faults: Faults | None = None

    def __init__(self, sampler: TrainSampler, env: int) -> None:
        self.seeds, self.strata = sampler.seeds, sampler.strata
        self.episode_steps, self.segment_steps = sampler.episode_steps, sampler.segment_steps
        self.longest_delay_s = sampler.longest_delay_s
        self.numbers = torch.zeros(1, dtype=torch.int64, device=sampler.numbers.device)
        self._sampler, self._env = sampler, env

    def draw(self, rows: Tensor, episode: Tensor, level: Tensor) -> Scenarios:
        return self._sampler.draw(rows + self._env, episode, level)


def register_envs() -> None:
    """Registers the environments with Gymnasium; doing it again changes nothing."""
    for name, task in ENVIRONMENTS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point="surefoot.gym:SurefootEnv",
                vector_entry_point="surefoot.gym:SurefootVectorEnv",
                kwargs={"task": task},
            )


# ---- building


def _mode(mode: AutoresetMode | str) -> AutoresetMode:
    known = {m.value: m for m in AutoresetMode}
    name = mode.value if isinstance(mode, AutoresetMode) else mode
    if name not in known:
        raise unknown("autoreset mode", name, known)
    return known[name]


def seed_families(envs: int) -> int:
    return max(k for k in range(1, MOST_FAMILIES + 1) if envs % k == 0)


@dataclass(frozen=True)
class _Layout:
    """Environments that only lack a root seed."""

    task: Task
    envs: int
    families: int
    engine: str
    device: str
    atlas: Atlas | None

    def sampler(self, root: int) -> TrainSampler:
        seeds = SeedPlan(root=root, split="train", families=self.families, envs=self.envs)
        task, device = self.task, torch.device(self.device)
        return TrainSampler(task.contract, task.robot, seeds, task.recipe.control_hz, self.atlas, device)

    def vec(self, sampler: Sampler, **options: bool) -> VecEnv:
        task, engine, atlas, device = self.task, self.engine, self.atlas, self.device
        return VecEnv(task, sampler, task.plant, engine=engine, atlas=atlas, device=device, **options)


def layout_of(task: Task, envs: int, families: int, engine: str, device: str) -> _Layout:
    check_device(device)
    engine, _ = choose_engine(engine, task.robot, task.plant, device)
    task = task.on(engine)
    return _Layout(task, envs, families, engine, device, Atlas.build(task.tiles) if task.tiles else None)


def spaces_of(contract: TaskContract) -> tuple[Box, Box]:
    """Returns the spaces of one observation and one action."""
    clip = contract.action.clip
    return (
        Box(-OBSERVATION_LIMIT, OBSERVATION_LIMIT, (contract.observation_size,), np.float32),
        Box(-clip, clip, (contract.action.size,), np.float32),
    )


# ---- tensors, arrays and infos


def to_numpy(x: Tensor) -> Array:
    """Returns a copy: what a caller does to it must not reach the environment."""
    return np.array(x.cpu().numpy())


def _action(actions: Array, space: gymnasium.Space[Any], vec: VecEnv) -> Tensor:
    array = np.asarray(actions, np.float32)
    if array.shape != space.shape:
        raise SurefootError(f"The actions have shape {array.shape}; this environment needs {space.shape}.")
    return torch.from_numpy(array).to(vec.device).view(vec.num_envs, -1)


def _reset_mask(options: dict[str, Any] | None, n: int) -> NDArray[np.bool_]:
    """Returns which environments to reset: all of them, where the options do not say."""
    mask = np.array((options or {}).get("reset_mask", np.ones(n, bool)))
    if mask.dtype != np.bool_ or mask.shape != (n,) or not mask.any():
        raise SurefootError(f"The reset_mask must be a bool array of shape ({n},) with at least one True.")
    return mask


def reset_info(vec: VecEnv) -> dict[str, Any]:
    """Returns what is known about the environments before a step."""
    known = {"critic_obs": vec.critic, "stratum": vec.stratum, "family": vec.script.family}
    return {k: to_numpy(v) for k, v in known.items()}


def step_info(vec: VecEnv, step: Step) -> dict[str, Any]:
    """Returns what is known about the step that was just taken, before any reset."""
    return {
        "critic_obs": to_numpy(step.final_critic),
        "stratum": to_numpy(step.stratum),
        "family": to_numpy(vec.script.family),  # an environment stays in its family
        "reason": np.array(vec.reasons)[to_numpy(step.reason)],
        "reward_terms": {name: to_numpy(step.terms[:, k]) for k, name in enumerate(vec.reward_names)},
    }


def _masked(values: dict[str, Any], mask: NDArray[np.bool_]) -> dict[str, Any]:
    """Returns Gymnasium's layout: beside each key, `_key` says which environments have it."""
    return values | {f"_{k}": mask.copy() for k in values}


def _only(values: dict[str, Any], mask: NDArray[np.bool_]) -> dict[str, Any]:
    """Returns the values with zeros (or empty strings) outside `mask`."""
    out: dict[str, Any] = {}
    for k, v in values.items():
        if isinstance(v, dict):
            out[k] = _only(v, mask)
        else:
            out[k] = np.zeros_like(v)
            out[k][mask] = v[mask]
    return out


def _ragged(rows: Array, mask: NDArray[np.bool_]) -> Array:
    """An array of objects, as Gymnasium has it for `final_obs`: a row where there is one, None elsewhere."""
    out = np.full(len(rows), None, dtype=object)
    for i in np.flatnonzero(mask):
        out[i] = rows[i].copy()
    return out


def _first(values: dict[str, Any]) -> dict[str, Any]:
    """The info of the only environment, as plain numbers and words."""
    out: dict[str, Any] = {}
    for k, v in values.items():
        out[k] = _first(v) if isinstance(v, dict) else v[0] if v.ndim > 1 else v[0].item()
    return out


register_envs()
