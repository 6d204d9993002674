"""Do policy and critic see what the contract declares, of the state that they act in?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.kept_episodes import own_terms
from surefoot.audits.lived import NEVER, Lived, edited, live, robots, wild
from surefoot.audits.slow_noise import noise
from surefoot.audits.slow_observations import HOVER, Sight, clean, seen, slices
from surefoot.contract import ObservationTerm
from surefoot.training import RobotPlan

STEPS = 12
ROUNDING, TERRAIN = 2e-5, 1e-3
"""Allowances for single precision, relative to 1 + size after scaling; the second is for heights above the
ground, whose slopes multiply the rounding of positions. Clean runs: below 6e-7 and 5e-5."""
HEIGHTS = ("height", "foot_height", "height_scan")


@dataclass(frozen=True)
class Looked:
    """What was shown after some steps, [S * N, ...], and what was to be shown."""

    terms: tuple[ObservationTerm, ...]
    shown: np.ndarray
    expected: np.ndarray
    sure: np.ndarray  # [S * N] whether rounding decides nothing

    def off(self) -> np.ndarray:
        gap = np.abs(self.shown - self.expected)
        rounding = np.concatenate(
            [np.full(t.size, TERRAIN if t.name in HEIGHTS else ROUNDING) for t in self.terms]
        )
        wrong = ~np.isnan(self.expected) & ~(gap <= rounding * (1 + np.abs(self.expected)))
        return np.asarray(wrong & self.sure[:, None])


def look(case: Case) -> list[Found]:
    """Lives some steps in which episodes end, run out of time and change their command, and works out every
    observation; then the same step is taken as an episode's last and as one before it."""
    env = robots(case)
    start = env.snapshot()
    steps = live_through(case)
    env.restore(start)
    plan = case.robot
    contract, known = plan.task.contract, own_terms(plan)
    sights = [sight_after(plan, step) for step in steps]
    everything = (*contract.observation, *contract.privileged)
    truth = np.concatenate([clean(s, everything, known) for s in sights])
    sure = np.concatenate([_sure(step) for step in steps])
    critic = Looked(
        everything, np.concatenate([s.critic for s in steps]), seen(truth, everything, None), sure
    )
    own = truth[:, : contract.observation_size]
    drawn = np.concatenate([_noise(case, step) for step in steps])
    shown = np.concatenate([s.obs for s in steps])
    actor = Looked(contract.observation, shown, seen(own, contract.observation, drawn), sure)
    return [*_critic(critic), *_actor(actor, own, drawn, critic), *_last(case)]


def live_through(case: Case) -> list[Lived]:
    """Takes steps with wild actions: of every eight environments one runs out of time, one gets another
    command, one is pushed meanwhile, and two have commands that nobody could follow, near the clip of what
    is seen and beyond it."""
    env, plan = robots(case), case.robot
    start = env.snapshot()
    age, push = start["task.age"].clone(), start["script.push_step"].clone()
    at = torch.arange(len(age))
    segment = round(plan.task.contract.command.resample_s * plan.recipe.control_hz)
    within = at // 8 % STEPS
    age[0::8] = env.episode_steps - 1 - within[0::8]
    age[1::8] = segment - 1 - within[1::8]
    push[2::8, 0] = age[2::8] + within[2::8]
    commands = start["script.commands"].clone()
    for first, size in ((3, 3.5), (4, 9.0)):
        commands[first::8] = torch.where(commands[first::8] < 0, -size, size)
    env.restore(edited(start, task__age=age, script__push_step=push, script__commands=commands))
    return live(env, wild(case, "observations", env), STEPS)


def sight_after(plan: RobotPlan, step: Lived) -> Sight:
    """Returns what there is to see after a step: of episodes that go on by the contract's prose, from what
    was before and the robot now; of new ones by their script."""
    c, dt = plan.task.contract, 1 / plan.recipe.control_hz
    new, before, after = ~step.going, step.before, step.after
    age = np.where(new, 0, before["task.age"] + 1)
    commands = after["script.commands"].astype(np.float64)
    segment = np.minimum(age // round(c.command.resample_s / dt), commands.shape[1] - 1)
    clip = c.action.clip
    turn = (c.prior.clock_hz if c.prior else 0.0) * dt
    phase = np.where(new, after["script.phase"], (before["task.phase"].astype(np.float64) + turn) % 1.0)
    contact = (step.robot["foot_force"][..., 2] > 1.0) | new[:, None]
    return Sight(
        c,
        plan.task.robot,
        step.robot,
        commands[np.arange(len(age)), segment],
        np.where(new[:, None], 0.0, np.clip(step.action.astype(np.float64), -clip, clip)),
        phase,
        contact,
        np.where(contact, 0.0, before["task.air_time"].astype(np.float64) + dt),
        {k.removeprefix("parameters."): v for k, v in after.items() if k.startswith("parameters.")},
        plan.atlas(),
        plan.task.scan,
    )


def _sure(step: Lived) -> np.ndarray:
    load = step.robot["foot_force"][..., 2]
    return np.asarray((np.abs(load - 1.0) > HOVER).all(1) | ~step.going)


def _noise(case: Case, step: Lived) -> np.ndarray:
    """Returns what is to be added [N, O], in half-widths: by family, member, episode and step."""
    plan = case.plan.seeds.model_copy(update={"root": 2**31 + case.seed})
    envs = case.chosen()
    family, member = envs // plan.envs_per_family, envs % plan.envs_per_family
    key = (family, member, step.before["episode"] + ~step.going)
    age = np.where(step.going, step.before["task.age"] + 1, 0)
    size = case.robot.task.contract.observation_size
    return noise(plan, key, size, age, step.after["script.noise_scale"])


def _critic(looked: Looked) -> Iterator[Found]:
    wrong = looked.off()
    for name, at in slices(looked.terms).items():
        rows = wrong[:, at].any(1)
        if rows.any():
            row = int(rows.argmax())
            k = at.start + int(wrong[row, at].argmax())
            yield Found(
                f"What the critic sees of '{name}' is not what is declared, in {100 * rows.mean():.0f}% of "
                f"samples: {looked.shown[row, k]:.4g} where it is {looked.expected[row, k]:.4g}."
            )


def _actor(actor: Looked, truth: np.ndarray, drawn: np.ndarray, critic: Looked) -> Iterator[Found]:
    """Terms that the critic sees rightly and the policy does not have other noise, delay or scale."""
    wrong, same = actor.off(), critic.off()
    for term, (name, at) in zip(actor.terms, slices(actor.terms).items(), strict=True):
        rows = wrong[:, at].any(1)
        if not rows.any():
            continue
        share = f"in {100 * rows.mean():.0f}% of samples"
        text = f"What the policy sees of '{name}' is not what is declared, {share}"
        if not same[:, at].any() and term.noise:
            unclipped = np.abs(actor.expected[:, at]) < 9.9
            extra = (actor.shown[:, at] / term.scale - truth[:, at])[unclipped] / term.noise
            by_key = drawn[:, at][unclipped]
            along = float(np.sum(extra * by_key) / max(float(np.sum(by_key**2)), 1e-30))
            size = float(np.sqrt(np.mean(extra**2) / max(float(np.mean(by_key**2)), 1e-30)))
            text += (
                f" (the critic sees it rightly; its noise is {size:.2f} of the declared size, {along:.2f} "
            )
            text += "of it as drawn)"
        yield Found(f"{text}.")


def _last(case: Case) -> Iterator[Found]:
    """What the critic sees last of an episode that runs out of time is what it would see if it went on."""
    env = robots(case)
    start = edited(env.snapshot(), script__push_step=NEVER)
    actions = wild(case, "last-sight", env)(0)
    pair = []
    for age in (env.episode_steps - 1, env.episode_steps - 3):
        env.restore(edited(start, task__age=age))
        pair.append(live(env, lambda t: actions, 1)[0])
    env.restore(start)
    last, early = pair
    both = last.outcome["truncated"] & early.going
    differ = both & (last.outcome["final_critic"] != early.critic).any(1)
    if differ.any():
        yield Found(
            f"What the critic sees last of an episode is not the state that it ended in, in "
            f"{int(differ.sum())} of {int(both.sum())} episodes that ran out of time."
        )


DETECTORS = (
    Detector(
        name="observations",
        kind="proof",
        cause="observation",
        asks="Do policy and critic see the declared terms, in frame, order, scale and clip, with the "
        "declared noise, of the state that they act in and without delay?",
        statistic="observations of 12 steps, in which episodes end and commands change, against a slow numpy "
        "twin: terms from the robot's state and the script, noise by its key; last sights of episodes "
        "against the same step inside them",
        threshold="2e-5 of 1 + size, 1e-3 for heights above terrain (clean runs: below 6e-7 and 5e-5): "
        "rounding of single precision; last sights to the bit",
        means="The policy was trained on other observations than the contract declares and a robot has.",
        remedy="Compare the named term's function, scale and noise with the contract, and when it is "
        "computed with when it is acted on.",
        look=look,
        needs=("robot",),
    ),
)
