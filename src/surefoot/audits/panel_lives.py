"""A few control steps of held-out scenarios in the evaluator's own environments, column by column, all with
the same actions: what they were given, what they did and what was seen of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from surefoot.audits.case import Case
from surefoot.audits.declared import Declared, columns_of, declared, judged_on
from surefoot.audits.forms import body_form, hold, hold_size, script_form
from surefoot.audits.fresh_lives import STRONG
from surefoot.audits.lived import Arrays
from surefoot.audits.twin import Steps, lift_of
from surefoot.audits.twin_steps import STATE, began, came, doubles, remembered
from surefoot.contract import BOX_WORLD, REFERENCE, Column, Plant
from surefoot.env import VecEnv
from surefoot.evaluation import PanelEvaluator, runner_for

STEPS = 8
MOST = {REFERENCE: 16}
"""Scenarios of a column on the slow engine; elsewhere 48."""


@dataclass
class PanelLife:
    """A column of some scenarios on one engine."""

    column: Column
    engine: str
    declared: list[Declared]
    read: Arrays  # parameters, read back from the engine
    script: Arrays
    faults: Arrays
    said: tuple[str, Plant, float, int]
    """Engine, plant, control rate and length of episodes as the environments have them."""
    steps: Steps
    seen: np.ndarray  # [STEPS + 1, N, O]
    clean: np.ndarray  # [STEPS + 1, N, O], of the critic: scaled, without noise
    age: np.ndarray  # [STEPS + 1, N]


def panel_lives(case: Case) -> list[PanelLife]:
    """Returns every column that the run's result has, made once for all who ask."""
    return case.once("panel lives", lambda: _make(case))


def _make(case: Case) -> list[PanelLife]:
    result, plan, panel = case.result, case.robot, judged_on(case)
    numbers, hz = case.numbers("panel lives"), plan.recipe.control_hz
    places = panel.numbers("confirmation")
    perturbed = [i for i, k in enumerate(places) if k in set(panel.numbers("confirmation", True))]
    by_engine: dict[str, list[Column]] = {}
    for (_, engine), column in columns_of(result.table).items():
        moves = column.perturbation in ("curbs", "stones")
        if engine != BOX_WORLD and not moves:
            by_engine.setdefault(engine, []).append(column)
    out = []
    for engine, columns in by_engine.items():
        some = np.sort(numbers.permutation(perturbed)[: MOST.get(engine, 48)])
        evaluator = PanelEvaluator(plan.task, panel, "confirmation", hz, engine=engine, only=some.tolist())
        try:
            size = np.where(np.arange(len(some)) % 4 > 1, STRONG, 1.0)[:, None]
            drawn = size * numbers.normal(0, 1, (STEPS, len(some), plan.task.contract.action.size))
            actions = torch.from_numpy(drawn.astype(np.float32))
            scenarios = [panel.scenarios[places[i]] for i in some]
            for column in columns:
                told = [declared(s, column, hz) for s in scenarios]
                out.append(_live(case, evaluator, column, told, actions))
        finally:
            evaluator.close()
    return out


def _live(
    case: Case, evaluator: PanelEvaluator, column: Column, told: list[Declared], actions: torch.Tensor
) -> PanelLife:
    env = evaluator.begin(column)
    n = env.num_envs
    read = {k: v.cpu().numpy().copy() for k, v in env.engine.parameters().tensors().items()}
    script = {k: v.cpu().numpy().copy() for k, v in env.script.tensors().items()}
    hold("What the panel's engine has of parameters", read, body_form(), "panel-plant")
    hold("What the panel's environments are to live", script, script_form(1, None), "held-out")
    faults = env.sampler.faults
    wrong = {} if faults is None else {k: v.cpu().numpy().copy() for k, v in faults.tensors().items()}
    said = (env.engine.name, env.engine.plant, 1.0 / env.dt, env.sampler.episode_steps)
    # Every second scenario is as old as two steps before its push.
    early = np.array([d.pushes[0][0] - 2 if d.pushes and i % 2 == 0 else 0 for i, d in enumerate(told)])
    env.state.age = torch.from_numpy(np.clip(early, 0, env.sampler.episode_steps - STEPS - 1))
    first = {k: v.cpu().numpy().copy() for k, v in env.engine.state().tensors().items()}
    phase = env.state.phase.numpy().astype(np.float64).copy()
    start = env.state.age.numpy().copy()
    runner = case.once(f"runner {id(env)} {env.script.push_step.shape[1]}", lambda: runner_for(env))
    runner.begin()
    sees = runner if hasattr(runner, "critic") else env
    frames, seen, clean = [], [runner.obs.numpy().copy()], [env.critic.numpy().copy()]
    for t in range(STEPS):
        frames.append({k: v.clone() for k, v in runner.step(actions[t]).items()})
        seen.append(runner.obs.numpy().copy())
        clean.append(sees.critic.numpy().copy())
    size = env.contract.observation_size
    hold_size("Observations of the panel's environments", seen[-1], (n, size), "observation")
    every = runner.decode({k: torch.stack([f[k] for f in frames]) for k in frames[0]})
    states = {k: every[k].numpy().copy() for k in (*STATE, "torque", "command", "reason")}
    return PanelLife(
        column,
        evaluator.engine,
        told,
        read,
        script,
        wrong,
        said,
        _steps(case, env, told, first, states, actions.numpy(), phase, start),
        np.stack(seen),
        np.stack(clean)[..., :size],
        start + np.arange(STEPS + 1)[:, None] * np.ones(n, int),
    )


def _steps(
    case: Case,
    env: VecEnv,
    told: list[Declared],
    first: Arrays,
    states: Arrays,
    actions: np.ndarray,
    phase: np.ndarray,
    start: np.ndarray,
) -> Steps:
    """Returns the control steps of everybody, with parameters and pushes as declared."""
    contract, control_s, n = case.robot.task.contract, env.dt, env.num_envs
    joints = contract.action.size
    parameters = {k: np.stack([d.parameters[k] for d in told]) for k in told[0].parameters}
    depth = remembered(parameters["delay_s"], control_s)
    command = doubles([d.command for d in told])
    clock = contract.prior.clock_hz if contract.prior else 0.0
    lifts = [
        lift_of(contract, joints, (phase + clock * control_s * t) % 1.0, command) for t in range(len(actions))
    ]
    none, parts = np.zeros((n, joints)), []
    over = np.zeros(n, bool)
    for t in range(len(actions)):
        was = first if t == 0 else {k: v[t - 1] for k, v in states.items()}
        now = {k: v[t] for k, v in states.items()}
        push = np.zeros((n, 2))
        for i, d in enumerate(told):
            for step, vx, vy in d.pushes:
                push[i] += (step == start[i] + t) * np.array([vx, vy])
        one = Steps(
            env=np.arange(n),
            **began(was, env.origins()),
            actions=np.stack([doubles(actions[t - h]) if t >= h else none for h in range(depth)], 1),
            lift=np.stack([lifts[t - h] if t >= h else none for h in range(depth)], 1),
            push=push,
            **parameters,
            **came(was, now),
            ground=[d.ground for d in told] if env.height_field is not None else [],
        )
        over |= states["reason"][t] > 0
        parts.append(one.take(np.flatnonzero(~over)))
    every = Steps.join(parts)
    return every.take(np.argsort(every.env, kind="stable"))
