"""Environments of a probe from their very first reset on, through ends of episodes and pushes, and never
restored: a snapshot brings parameters back that a reset may have lost."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import NotApplicable
from surefoot.audits.forms import body_form, hold
from surefoot.audits.lived import Arrays, Lived, held, robot_now, wild
from surefoot.audits.twin import Steps
from surefoot.audits.twin_steps import Diary
from surefoot.contract import Plant
from surefoot.env import VecEnv
from surefoot.env.compiled import CompiledEnv

MOST_ENVS = 256
STRONG = 2.5
"""Size of actions that bring motors to their limits."""
ROUNDS = 4
"""Times that all episodes end."""


@dataclass
class Begun:
    """What N environments had just after a reset of all of them."""

    declared: Arrays  # script and parameters
    robot: Arrays  # states
    read: Arrays  # parameters, read back from the engine


@dataclass
class FreshLives:
    """Some environments of a run from their first reset on."""

    begun: list[Begun]
    lived: list[Lived]
    steps: Steps
    first: int
    """Number of the first of them in the run."""
    engine: str
    plant: Plant
    """What the engine says that it simulates."""


def fresh_lives(case: Case) -> FreshLives:
    """Returns them, made once for all who ask."""
    return case.once("fresh lives", lambda: _make(case))


def _make(case: Case) -> FreshLives:
    plan = case.robot
    seeds = plan.seeds.model_copy(update={"root": 2**31 + case.seed})
    count = min(plan.seeds.envs, MOST_ENVS)
    first = int(case.numbers("fresh lives").integers(plan.seeds.envs - count + 1))
    env = dataclasses.replace(plan, seeds=seeds, device="cpu").environments(range(first, first + count))
    if not isinstance(env, VecEnv | CompiledEnv):
        raise NotApplicable("its environments come from outside")
    try:
        return _live(case, env, first)
    finally:
        env.close()


def _live(case: Case, env: VecEnv | CompiledEnv, first: int) -> FreshLives:
    plan, e = case.robot, np.arange(env.num_envs)
    case.hold_environments("What environments hold", env.snapshot())
    control_s = 1.0 / plan.recipe.control_hz
    actions = wild(case, "fresh lives", env)
    strong = wild(case, "strong lives", env, STRONG)
    diary = Diary(env, plan.task.contract, plan.task.tiles)
    begun = [_begun(env)]
    diary.live(actions, 10, control_s)
    for k in range(ROUNDS):
        window = diary.lived[-1].after["script.push_step"]
        due = window[e, (e + k) % window.shape[1]]
        diary.set_ages(np.clip(due - 1 - e % 2, 0, env.episode_steps - 4))
        diary.live(actions, 3, control_s)
        diary.set_ages(np.full(len(e), env.episode_steps - 1))
        diary.live(actions, 1, control_s)
        begun.append(_begun(env))
        diary.live(strong if k % 2 else actions, 6, control_s)
    return FreshLives(begun, diary.lived, diary.steps(), first, env.engine.name, env.engine.plant)


def _begun(env: VecEnv | CompiledEnv) -> Begun:
    read = {k: v.cpu().numpy().copy() for k, v in env.engine.parameters().tensors().items()}
    hold("What an engine has of parameters", read, body_form(), "physics")
    return Begun(held(env), robot_now(env), read)
