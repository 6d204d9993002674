"""Are episodes measured by the rules, whatever happens in them? Some rows are played again and measured by
other code, and so are episodes that nobody played, with every kind of end."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from surefoot.audits.case import Case
from surefoot.audits.declared import judged_on
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.forms import hold, measured_form
from surefoot.audits.measured import Faults, agrees, faults, rules_of
from surefoot.audits.slow_metrics import Rules, clearances, measured, succeeded
from surefoot.contract import Column, as_half
from surefoot.env import VecEnv
from surefoot.evaluation import PanelEvaluator, episode_metrics

PLAYED = 40
"""Scenarios that are played again."""
MADE_UP = 80
"""Episodes that nobody played, at least."""
STEPS, SETTLED = 160, 0.3
"""Length of an episode that nobody played, and the share of it that the robot has to settle."""
ENDED = 0.5
"""Share of those that end early."""


def look(case: Case) -> list[Found]:
    """Plays scenarios of a column again, and measures what came of it, and of episodes made up."""
    result, numbers, rules = case.result, case.numbers("played"), rules_of(case)
    panel, table = judged_on(case), result.table
    fast = (table["policy"] == "trained") & (table["engine"] == "stride")
    if not fast.any():
        raise NotApplicable("no column was played on an engine that is fast enough to play it again")
    columns = sorted({str(c) for c in table["column"][fast]})
    name = columns[int(numbers.integers(len(columns)))]
    rows = {k: v[fast & (table["column"] == name)] for k, v in table.items()}
    order = np.sort(numbers.permutation(len(rows["scenario"]))[:PLAYED])
    rows = {k: v[order] for k, v in rows.items()}
    half = as_half(result.summary.half)
    places = {n: k for k, n in enumerate(panel.numbers(half))}
    kind, strength = str(rows["perturbation"][0]), float(rows["strength"][0])
    column = Column(name=name, perturbation=kind, strength=strength) if kind else Column()
    only = [places[int(s)] for s in rows["scenario"]]
    evaluator = PanelEvaluator(case.robot.task, panel, half, rules.control_hz, engine="stride", only=only)
    found = Faults()
    try:
        played = evaluator.run_episodes(case.policy, column).labelled()
        hold("What is measured of episodes", played.rows, measured_form(case.record.contract), "metric")
        for i in range(len(only)):
            trace = played.trace(i)
            was = {k: v[i] for k, v in rows.items()}
            again = was | {k: v[i] for k, v in played.rows.items()}
            where = f"played again, {name}, scenario {was['scenario']}"
            for what in (*faults(trace, again, rules), *_written(was, again)):
                found.add(what, where)
        count = 0
        while count < MADE_UP:
            count += _made_up(evaluator.env, rules, numbers, found)
    finally:
        evaluator.close()
    return found.told(len(only) + count)


def _written(was: Mapping[str, Any], again: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What was written down of an episode that is the same to the bit is what it gives again."""
    if str(was["states_digest"]) != str(again["states_digest"]):
        return
    for name, value in was.items():
        if isinstance(value, float | np.floating):
            same = agrees(float(value), float(again[name]))
        else:
            same = name in ("trace", "device", "look") or value == again[name]
        if not same:
            yield name, f"was written down as {value} where it is {again[name]}"


def _made_up(env: VecEnv, rules: Rules, numbers: np.random.Generator, found: Faults) -> int:
    """Measures episodes that nobody played, by both codes."""
    settle = round(SETTLED * STEPS) / rules.control_hz
    quick = dataclasses.replace(rules, contract=_sooner(rules, settle))
    frames = _frames(env, quick, numbers)
    kept = env.contract
    env.contract = quick.contract
    try:
        rows = episode_metrics({k: torch.from_numpy(v) for k, v in frames.items()}, env)
    finally:
        env.contract = kept
    pushes = env.script.push_step.numpy()
    limits = (env.const.torque_limit * env.parameters.strength[:, None]).numpy()
    for i in range(env.num_envs):
        over = np.flatnonzero(frames["reason"][:, i] > 0)
        trace: dict[str, Any] = {k: v[: over[0] + 1, i] for k, v in frames.items()}
        trace |= {"push_step": pushes[i], "torque_limit": limits[i], "position": trace["quaternion"]}
        row = {k: v[i] for k, v in rows.items()}
        for what in _told(trace, row, quick, env):
            found.add(what, f"an episode made up, that ended as {row['reason']} after {row['steps']} steps")
    return env.num_envs


def _told(
    trace: Mapping[str, Any], row: Mapping[str, Any], rules: Rules, env: VecEnv
) -> Iterator[tuple[str, str]]:
    right = measured(trace, rules)
    lived = len(trace["reason"])
    right["trunk_contact"] = float(np.count_nonzero(trace["trunk_contact"])) / lived
    right["return"] = float(np.asarray(trace["reward"], np.float64).sum())
    for k, term in enumerate(env.reward_names):
        right[f"return.{term}"] = float(np.asarray(trace["terms"][:, k], np.float64).sum())
    for name, value in right.items():
        if name not in row:
            yield name, "is not measured"
        elif not agrees(float(row[name]), value):
            yield name, f"is {float(row[name]):.5g} where it was {value}"
    if not any(agrees(float(row["foot_clearance_m"]), x) for x in clearances(trace, rules)):
        yield "foot_clearance_m", f"is {float(row['foot_clearance_m']):.5g} of other swings"
    reason = env.reasons[int(trace["reason"][-1])]
    if str(row["reason"]) != reason or bool(row["fall"]) != (reason != "timeout"):
        yield "fall", f"is {bool(row['fall'])} ({row['reason']}) where they ended as {reason}"
    wanted = succeeded(row, rules)
    if wanted is not None and bool(row["success"]) != wanted:
        yield "success", f"is {bool(row['success'])} against the contract's rule"


def _sooner(rules: Rules, settle_s: float) -> Any:
    success = rules.success.model_copy(update={"settle_s": settle_s})
    return rules.contract.model_copy(update={"success": success})


def _frames(env: VecEnv, rules: Rules, numbers: np.random.Generator) -> dict[str, np.ndarray]:
    """Makes up what is recorded of N episodes, [T, N, ...]: some do as told, some rest, some end early, and
    what comes after an end is of no episode."""
    n, t, joints = env.num_envs, STEPS, env.contract.action.size
    feet = env.engine.state().foot_position.shape[1]
    size = numbers.choice([0.02, 0.1, 0.4], n)[:, None]
    command = numbers.choice([-1.0, -0.5, 0.0, 0.5, 1.0], (n, 3)) * numbers.integers(0, 2, (n, 1))
    bias = size * numbers.normal(0, 0.5, (n, 3))

    def noise(*shape: int, smooth: int = 5) -> np.ndarray:
        x = numbers.normal(0, 1, (t + smooth, n, *shape))
        return np.asarray(sum(x[k : k + t] for k in range(smooth)) / np.sqrt(smooth))

    done = command + bias + size * noise(3)
    rest = numbers.choice([0.01, 0.1, 3.0], (n, 1))
    axis = 0.15 * noise(3)
    quaternion = np.concatenate([np.ones((t, n, 1)), axis], -1)
    quaternion /= np.linalg.norm(quaternion, axis=-1, keepdims=True)
    up = 1 - 2 * (quaternion[..., 1] ** 2 + quaternion[..., 2] ** 2)
    gravity = np.stack([np.zeros_like(up), np.sqrt(np.maximum(0, 1 - up**2)), -up], -1)
    terms = 0.1 * noise(len(env.reward_names))
    reason = np.zeros((t, n), np.int64)
    reason[-1] = 1
    early = np.flatnonzero(numbers.random(n) < ENDED)
    reason[numbers.integers(0, t - 1, len(early)), early] = numbers.integers(2, len(env.reasons), len(early))
    made = {
        "command": np.broadcast_to(command, (t, n, 3)),
        "linear_velocity": np.concatenate([done[..., :2], 0.1 * noise(1)], -1),
        "angular_velocity": np.concatenate([0.2 * noise(2), done[..., 2:]], -1),
        "quaternion": quaternion,
        "gravity": gravity,
        "joint_position": rest * np.cumsum(noise(joints), 0) / rules.control_hz,
        "joint_velocity": rest * noise(joints),
        "torque": 12 * noise(joints),
        "foot_position": 0.05 + 0.05 * noise(feet, 3),
        "foot_velocity": noise(feet, 3),
        "terms": terms,
        "reward": np.maximum(terms.sum(-1), 0),
    }
    out = {k: np.ascontiguousarray(v, np.float32) for k, v in made.items()}
    contact = noise(feet, smooth=9) > 0.2
    age = np.broadcast_to(np.arange(1, t + 1)[:, None], (t, n)).copy()
    return out | {"contact": contact, "trunk_contact": noise() > 1, "age": age, "reason": reason}


DETECTORS = (
    Detector(
        name="measuring",
        kind="proof",
        cause="metric",
        asks="Are episodes measured by the rules, however they go and end?",
        statistic="every metric, end and label of 40 scenarios of a column that are played again, and every "
        "metric of as many episodes made up, by other code in double precision",
        threshold="2e-4 of a figure: sums in single precision; what lies within 1e-4 of a limit may fall on "
        "either side of it",
        means="Episodes are measured otherwise than is stated, or written down otherwise than measured.",
        remedy="Compare evaluation/metrics.py, windows.py and recovery.py with docs/reference/rows.md.",
        look=look,
        needs=("confirmed", "robot"),
    ),
)
