"""Steps lived in a probe's environments, kept with the states before and after: what detectors recompute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.audits import forms
from surefoot.audits.case import PROBE_ENVS, Case
from surefoot.audits.detector import NotApplicable
from surefoot.env import VecEnv
from surefoot.env.compiled import CompiledEnv
from surefoot.rollout import RolloutBlock

Arrays = dict[str, np.ndarray]
NEVER = 1 << 29


@dataclass
class Lived:
    """One control step of N environments. States after it are of the next episode where one ended."""

    action: np.ndarray  # [N, A] as given, before it is clipped
    before: Arrays  # task state, script and parameters before the step
    robot: Arrays  # robot after it
    after: Arrays  # task state, script and parameters after it
    outcome: Arrays  # reward, terms, terminated, truncated, reason, final_critic
    obs: np.ndarray  # [N, O] what to act on next
    critic: np.ndarray  # [N, C]
    going: np.ndarray = field(init=False)  # [N] whether the episode goes on

    def __post_init__(self) -> None:
        self.going = ~(self.outcome["terminated"] | self.outcome["truncated"])


def robots(case: Case, count: int = PROBE_ENVS) -> VecEnv | CompiledEnv:
    """Returns environments whose robot is known, as trained in: those of `case.chosen(count)`."""
    env = case.environments(count)
    if not isinstance(env, VecEnv | CompiledEnv):
        raise NotApplicable("its environments come from outside")
    return env


def held(env: VecEnv | CompiledEnv) -> Arrays:
    """Returns task state, script and parameters of the running episodes."""
    keep = ("task.", "script.", "parameters.", "episode", "born")
    return {k: v.cpu().numpy().copy() for k, v in env.snapshot().items() if k.startswith(keep)}


def robot_now(env: VecEnv | CompiledEnv) -> Arrays:
    return {k: v.cpu().numpy().copy() for k, v in env.engine.state().tensors().items()}


Actions = Callable[[int], Tensor]


def live(env: VecEnv | CompiledEnv, actions: Actions, steps: int) -> list[Lived]:
    """Takes `steps` steps with `actions` of the step's number, from where the environments stand."""
    c, n = env.contract, env.num_envs
    block = RolloutBlock.empty(
        steps, n, c.observation_size, c.critic_size, c.action.size, len(env.reward_names)
    )
    out = []
    for t in range(steps):
        before, action = held(env), actions(t)
        final = env.step_into(block, t, action).clone()
        outcome: dict[str, Any] = {
            k: getattr(block, k)[t].numpy().copy()
            for k in ("reward", "terms", "terminated", "truncated", "reason")
        }
        outcome["final_critic"] = final.numpy()
        last = t == steps - 1
        obs, critic = (env.obs, env.critic) if last else (block.obs[t + 1], block.critic[t + 1])
        seen = (obs.numpy().copy(), critic.numpy().copy())
        out.append(Lived(action.numpy().copy(), before, robot_now(env), held(env), outcome, seen[0], seen[1]))
        _hold(env, out[-1])
    return out


def _hold(env: VecEnv | CompiledEnv, step: Lived) -> None:
    """Raises as a finding where a step gives something of another form than the contract makes it."""
    plain = env.plain if isinstance(env, CompiledEnv) else env
    robot, c, hz = plain.task.robot, plain.task.contract, 1 / plain.dt
    forms.hold("The state of robots", step.robot, forms.robot_form(robot), "physics")
    forms.hold_parts("What environments hold", step.after, forms.held_form(c, robot, hz))
    given = step.outcome | {"obs": step.obs, "critic": step.critic}
    forms.hold("What a step leads to", given, forms.step_form(c), "observation")


def wild(case: Case, name: str, env: VecEnv | CompiledEnv, size: float = 1.0) -> Actions:
    """Returns actions that no policy chose: normal, of a detector's own numbers."""
    numbers = case.numbers(name)
    shape = (env.num_envs, env.contract.action.size)
    return lambda t: torch.from_numpy(numbers.normal(0, size, shape).astype(np.float32))


def edited(snapshot: dict[str, Tensor], **changes: Tensor | int | float) -> dict[str, Tensor]:
    """Returns a snapshot with some entries changed; `__` stands for the point in their names."""
    out = dict(snapshot)
    for name, value in changes.items():
        key = name.replace("__", ".")
        out[key] = torch.full_like(out[key], value) if isinstance(value, int | float) else value
    return out
