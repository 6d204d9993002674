"""Does every action do what the contract says: to its own joint, by its scale, clipped, after its delay?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.lived import NEVER, Lived, edited, live, robots, wild
from surefoot.contract import TaskContract
from surefoot.engines.stride import StrideEngine
from surefoot.env import VecEnv
from surefoot.env.compiled import CompiledEnv
from surefoot.robots import RobotSpec

STEPS, WILD = 4, 4.0
"""Steps with actions of that size, of which a good part is beyond the clip."""
ROUNDING = 1e-5
"""rad by which targets in single precision may be off; clean runs: below 1e-6."""
NUDGE = 0.3
"""Added to one joint's action."""
EACH = 16
"""Times at the least that each joint is nudged."""
RARE = 0.1
"""Share of its trials in which a joint at the least moves more than all others; clean runs: 0.4 and more,
where a foot on the ground makes the next joint of its leg move as much."""


def look(case: Case) -> list[Found]:
    """Compares targets with actions, then changes one action at a time and sees what moves, and when."""
    return [*_targets(case), *_responses(case)]


def issued(env: VecEnv | CompiledEnv) -> np.ndarray:
    """Returns the joint targets [N, J] that the engine was given last."""
    if isinstance(env.engine, StrideEngine):
        return np.asarray(env.engine.arrays.targets[: env.num_envs].cpu().numpy().copy())
    return np.asarray(env.engine.snapshot()["targets"][:, 0].cpu().numpy().copy())


def targets(contract: TaskContract, spec: RobotSpec, step: Lived) -> np.ndarray:
    """Returns what a step's actions ask of the joints [N, J]: default pose, plus scale times the clipped
    action, plus the prior's lift of thighs and calves while a foot swings."""
    a = contract.action
    out = np.asarray(spec.default_pose) + a.scale_rad * np.clip(
        step.action.astype(np.float64), -a.clip, a.clip
    )
    prior = contract.prior
    if prior is not None and prior.lift_rad:
        phase = step.before["task.phase"].astype(np.float64)
        moving = np.abs(step.before["task.command"]).max(1) > contract.command.dead_zone
        lift = (
            np.maximum(np.sin(2 * np.pi * (phase[:, None] + np.asarray(prior.offsets))), 0) * prior.lift_rad
        )
        lift *= moving[:, None]
        out[:, 1::3] += lift
        out[:, 2::3] -= 2 * lift
    return out


def _targets(case: Case) -> Iterator[Found]:
    env, task = robots(case), case.robot.task
    start = env.snapshot()
    actions = wild(case, "actions", env, WILD)
    joints: dict[int, int] = {}
    seen, forgotten, example = 0, 0, ""
    for t in range(STEPS):
        now = actions(t)
        step = live(env, lambda _, now=now: now, 1)[0]  # type: ignore[misc]
        right, given = targets(task.contract, task.robot, step), issued(env)
        wrong = ~(np.abs(given - right) <= ROUNDING * (1 + np.abs(right))) & step.going[:, None]
        seen += int(step.going.sum())
        for j in np.flatnonzero(wrong.any(0)):
            joints[int(j)] = joints.get(int(j), 0) + int(wrong[:, j].sum())
        if wrong.any() and not example:
            e, j = np.argwhere(wrong)[0]
            example = f"{task.robot.joints[j]} is sent to {given[e, j]:.4g} rad where it is {right[e, j]:.4g}"
        clip = task.contract.action.clip
        kept = np.where(step.going[:, None], np.clip(step.action, -clip, clip), 0.0)
        forgotten += int((np.abs(step.after["task.action"] - kept) > ROUNDING).any(1).sum())
    env.restore(start)
    if joints:
        names = ", ".join(task.robot.joints[j] for j in sorted(joints)[:4])
        yield Found(
            f"Targets of {len(joints)} joints ({names}) are not default pose plus scale times the clipped "
            f"action, in {100 * max(joints.values()) / max(seen, 1):.0f}% of steps: {example}."
        )
    if forgotten:
        yield Found(
            f"The action that is remembered is not the one that was given, clipped, or none where an episode "
            f"begins: {forgotten} of {STEPS * env.num_envs} differ."
        )


@dataclass
class Responses:
    """What one joint's action changed, a row for each environment and round."""

    joint: np.ndarray  # [M] whose action was changed
    delay: np.ndarray  # [M] physics steps, as drawn
    at_once: np.ndarray  # [M, J] rad, after the step of the action
    later: np.ndarray  # [M, J] rad, after the next


def _respond(case: Case) -> Responses:
    """Takes two steps with and without one joint's action being changed, until each had its turn often."""
    env, plant = robots(case), case.record.training_plant
    assert plant is not None
    n, count = env.num_envs, env.contract.action.size
    kept = env.snapshot()
    warm = wild(case, "warm", env, 0.5)
    live(env, warm, 2)
    start = edited(env.snapshot(), script__push_step=NEVER, task__age=env.episode_steps // 4)
    plain = [wild(case, "nudged", env, 0.3)(t) for t in range(2)]
    env.restore(start)
    before = live(env, lambda t: plain[t], 2)
    parts = []
    for k in range(max(1, -(-EACH * count // n))):
        joint = (np.arange(n) + k) % count
        first = plain[0].clone()
        first[torch.arange(n), torch.from_numpy(joint)] += NUDGE
        env.restore(start)
        after = live(env, lambda t, now=first: [now, plain[1]][t], 2)  # type: ignore[misc]
        sure = np.all([s.going for s in (*before, *after)], 0)
        delay = np.rint(before[0].before["parameters.delay_s"].astype(np.float64) / plant.dt_s)
        moved = [
            b.robot["joint_position"].astype(np.float64) - a.robot["joint_position"]
            for a, b in zip(before, after, strict=True)
        ]
        parts.append((joint[sure], delay[sure], moved[0][sure], moved[1][sure]))
    env.restore(kept)
    return Responses(*(np.concatenate(x) for x in zip(*parts, strict=True)))


def _responses(case: Case) -> Iterator[Found]:
    r, plant, names = _respond(case), case.record.training_plant, case.robot.task.robot.joints
    assert plant is not None
    own = r.later[np.arange(len(r.joint)), r.joint]
    largest = np.abs(r.later).argmax(1)
    for j, name in enumerate(names):
        rows = (r.joint == j) & (r.delay <= plant.decimation)
        if rows.sum() < EACH // 2:
            continue
        elsewhere = np.bincount(largest[rows], minlength=len(names))
        if not r.later[rows].any():
            yield Found(f"The action of {name} moves nothing.")
        elif elsewhere[j] < RARE * rows.sum():
            other = names[int(elsewhere.argmax())]
            yield Found(
                f"The action of {name} hardly ever moves it more than all others; most often {other}."
            )
        elif (own[rows] > 0).mean() <= 0.5:
            yield Found(f"A larger action of {name} makes its angle smaller.")
    late = r.delay >= plant.decimation
    early = late & r.at_once.any(1)
    if early.any():
        yield Found(
            f"{int(early.sum())} of {int(late.sum())} actions with a delay of a control step or more take "
            "effect before it is over.",
            cause="randomisation",
        )
    idle = ~late & ~r.at_once.any(1)
    if (~late).sum() >= EACH and idle.mean() > 0.3:
        yield Found(
            f"{100 * idle.sum() / (~late).sum():.0f}% of actions with a delay below a control step have no "
            "effect within it.",
            cause="randomisation",
        )


DETECTORS = (
    Detector(
        name="actions",
        kind="proof",
        cause="action",
        asks="Does each action move its own joint, with the declared scale, sign, default pose, clip, prior "
        "and delay?",
        statistic="joint targets that the engine is given against the contract's formula, for actions "
        "within and beyond the clip; which joint moves, which way and when, if one action alone is changed",
        threshold="1e-5 rad: rounding; a joint that moves most in less than a tenth of its trials, or the "
        "right way in no more than half (clean runs: 0.4 and 0.95); delays of a control step to the bit",
        means="The robot was driven otherwise than the contract says: its policy will not do on another.",
        remedy="Compare the targets' formula, the joints' order and the delay line with the contract.",
        look=look,
        needs=("robot",),
    ),
)
