"""A stretch of steps that many detectors recompute: all environments, wild actions, pushes and falls."""

from __future__ import annotations

import torch

from surefoot.audits.case import Case
from surefoot.audits.lived import wild
from surefoot.audits.whole_steps import Whole, everybody, live_wholly

STEPS = 16


def whole_walk(case: Case) -> list[Whole]:
    """Returns it, made once for all who ask: from starts that are spread over the time of an episode, with
    pushes in a third of the environments."""
    return case.once("whole-walk", lambda: _walk(case))


def _walk(case: Case) -> list[Whole]:
    env, numbers = everybody(case), case.numbers("whole-walk")
    start = env.snapshot()
    n, steps = env.num_envs, env.episode_steps
    age = torch.from_numpy(numbers.integers(0, steps - 1, n))
    push = start["script.push_step"].clone()
    soon = torch.from_numpy(numbers.random(n) < 0.33)
    push[:, 0] = torch.where(soon, age + torch.from_numpy(numbers.integers(0, STEPS, n)), push[:, 0])
    env.restore(start | {"task.age": age, "script.push_step": push})
    out = live_wholly(case, env, wild(case, "whole-walk", env), STEPS)
    env.restore(start)
    return out
