"""Is the reward the sum of the terms that the contract declares, each what it says?"""

from __future__ import annotations

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.edge_steps import edge_steps
from surefoot.audits.lived import NEVER, Lived, edited, live, wild
from surefoot.audits.slow_terms import SLOW, Facts
from surefoot.audits.whole_steps import Whole, astray, everybody, view_of
from surefoot.audits.whole_walk import whole_walk
from surefoot.contract import RewardTerm, TaskContract

ROUNDING = (1e-3, 2e-6)
"""Allowance for float32 against double: relative, and absolute (a term is a sum of a few products)."""


def off(value: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Returns where float32 values are not what they should be; never where nothing is expected (NaN)."""
    allowed = ROUNDING[0] * np.abs(expected) + ROUNDING[1]
    return np.asarray(~np.isnan(expected) & ~(np.abs(value - expected) <= allowed))


def look(case: Case) -> list[Found]:
    """Recomputes every reward of some steps, last ones of episodes too, then takes last steps twice."""
    task, dt = case.robot.task, 1.0 / case.robot.recipe.control_hz
    wholes = [*whole_walk(case), *(e.whole for e in edge_steps(case))]
    lost = sum(int(astray(w).sum()) for w in wholes)
    found = _sums(task.contract, [w.lived for w in wholes])
    if lost:
        text = (
            f"Steps lead elsewhere than the engine does for the targets that the contract says, {lost} times."
        )
        found.append(Found(text, cause="action"))
    for k, term in enumerate(task.contract.rewards):
        if term.event and term.name == "fall":
            continue
        wrong, last, example = 0, 0, ""
        for whole in wholes:
            expected, sure = _expected(case, whole, term, dt)
            bad = off(whole.lived.outcome["terms"][:, k], expected) & sure
            bad &= whole.lived.going | (lost == 0)
            wrong, last = wrong + int(bad.sum()), last + int((bad & ~whole.lived.going).sum())
            if bad.any() and not example:
                e = int(bad.argmax())
                example = f"{whole.lived.outcome['terms'][e, k]:.4g} where it is {expected[e]:.4g}"
        if wrong:
            text = (
                f"Reward term '{term.name}' is not what it says in {wrong} steps, {last} of them last ones: "
            )
            found.append(Found(f"{text}{example}."))
    return found + _last_steps(case)


def _expected(case: Case, whole: Whole, term: RewardTerm, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns what a term should be [N], and where no rounding decides it: by the slow twin where there is
    one, by the term's own function of the state before any reset where there is none."""
    task, weight = case.robot.task, term.weight * (1.0 if term.event else dt)
    failed = whole.led["failed"].astype(bool)
    f = Facts(whole.ended, task.contract, task.robot, dt)
    if getattr(task.terms[term.name], "__module__", "") == "surefoot.tasks.terms" and term.name in SLOW:
        value = SLOW[term.name](f, **term.params)
    else:
        value = task.terms[term.name](view_of(case, whole), **term.params).numpy().astype(np.float64)
    return np.where(failed, 0.0, weight * value), failed | f.sure


def _sums(contract: TaskContract, steps: list[Lived]) -> list[Found]:
    """The reward is the sum of its terms up to the floor, and a fall costs what it is declared to cost."""
    found, events = [], np.array([t.event for t in contract.rewards])
    terms = np.concatenate([s.outcome["terms"] for s in steps]).astype(np.float64)
    reward = np.concatenate([s.outcome["reward"] for s in steps])
    fell = np.concatenate([s.outcome["terminated"] for s in steps])
    steady = terms[:, ~events].sum(1)
    if contract.reward_floor is not None:
        steady = np.maximum(steady, contract.reward_floor)
    bad = off(reward, steady + terms[:, events].sum(1))
    if bad.any():
        found.append(
            Found(f"The reward is not the sum of its terms in {int(bad.sum())} of {len(bad)} steps.")
        )
    for k, t in enumerate(contract.rewards):
        if t.name == "fall" and t.event:
            bad = off(terms[:, k], fell * t.weight)
            if bad.any():
                found.append(
                    Found(f"'fall' is not {t.weight:g} at falls alone: {int(bad.sum())} steps differ.")
                )
    return found


def _last_steps(case: Case) -> list[Found]:
    """The same step is taken as an episode's last and as one of its first: its terms must not differ."""
    env = everybody(case)
    start = edited(env.snapshot(), script__push_step=NEVER)
    actions = wild(case, "last-steps", env)(0)
    pair = []
    for age in (env.episode_steps - 1, 10):
        env.restore(edited(start, task__age=age))
        pair.append(live(env, lambda t: actions, 1)[0].outcome)
    env.restore(start)
    last, early = pair
    both = last["truncated"] & ~early["terminated"] & ~early["truncated"]
    differ = both & ((last["terms"] != early["terms"]).any(1) | (last["reward"] != early["reward"]))
    if not differ.any():
        return []
    return [
        Found(
            f"The reward of an episode's last step is not that of the state it led to, in "
            f"{int(differ.sum())} of {int(both.sum())} episodes: elsewhere the same step is paid otherwise."
        )
    ]


DETECTORS = (
    Detector(
        name="reward-terms",
        kind="proof",
        cause="reward",
        asks="Is the reward the sum of the declared terms, each with its weight, sign and meaning?",
        statistic="rewards and terms of some 25 steps of all environments, last ones too, against "
        "a slow numpy twin of the states before any reset; last steps against the same steps inside episodes",
        threshold="relative 1e-3 and absolute 2e-6 (float32 against double); last steps to the bit",
        means="The policy was paid for something other than what the contract says.",
        remedy="Compare the named term's function, weight and parameters with the contract; compute rewards "
        "before a reset.",
        look=look,
        needs=("robot",),
    ),
)
