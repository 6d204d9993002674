"""Do episodes end when the contract says, all of them, and for the reason that is given?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.edge_steps import edge_steps
from surefoot.audits.lived import Arrays
from surefoot.audits.slow_ends import SLOW_ENDS, Ends, ends_of, reasons_of
from surefoot.audits.whole_steps import Whole, everybody, ground_below, view_of
from surefoot.audits.whole_walk import whole_walk
from surefoot.contract import TaskContract

STILL_M = 0.005
"""A trunk that rose by more in a step may have left the ground."""
ALOFT_M = 0.5
"""A trunk higher than this above its ground, with no other part near, touches nothing."""


def look(case: Case) -> list[Found]:
    """Recomputes the ends of steps at all edges and of a stretch of falling about."""
    env, contract = everybody(case), case.robot.task.contract
    steps = round(contract.episode_s * case.robot.recipe.control_hz)
    found = []
    if env.reasons != reasons_of(contract):
        found.append(Found(f"Reasons are numbered {env.reasons}, not as the contract's terminations are."))
    if env.episode_steps != steps:
        found.append(
            Found(f"Episodes have {env.episode_steps} steps, where {contract.episode_s:g} s are {steps}.")
        )
    wrong: dict[str, list[int]] = {}
    looked = 0
    for whole in [*(e.whole for e in edge_steps(case)), *whole_walk(case)]:
        expected = expect(case, whole)
        looked += len(expected.reason)
        for text, bad in _faults(whole, expected, contract):
            wrong.setdefault(text, []).append(int(bad.sum()))
    found += [Found(f"{text} ({sum(n)} of {looked} steps).") for text, n in wrong.items()]
    return found + list(_touching(case))


def expect(case: Case, whole: Whole) -> Ends:
    """Returns how a step should have ended."""
    env, contract = everybody(case), case.robot.task.contract
    led, before = whole.led, whole.lived.before
    above = led["position"][:, 2] - ground_below(case, env, led["position"][:, :2].astype(np.float64))
    steps = round(contract.episode_s * case.robot.recipe.control_hz)
    return ends_of(contract, led, above, before["task.age"] + 1, steps, _others(case, whole))


def _others(case: Case, whole: Whole) -> Arrays:
    """Returns what terminations that are not ours say of the state before any reset: their own functions."""
    task = case.robot.task
    foreign = [
        t
        for t in task.contract.terminations
        if t.name not in SLOW_ENDS or getattr(task.terms[t.name], "__module__", "") != "surefoot.tasks.terms"
    ]
    if not foreign:
        return {}
    view = view_of(case, whole)
    return {t.name: task.terms[t.name](view, **t.params).numpy() for t in foreign}


def _faults(whole: Whole, expected: Ends, contract: TaskContract) -> Iterator[tuple[str, np.ndarray]]:
    said, names = whole.lived.outcome, reasons_of(contract)
    for k, name in enumerate(names[1:], 1):
        mine = expected.sure & (expected.reason == k)
        over = said["truncated"] if name == "timeout" else said["terminated"]
        if (bad := mine & ~over).any():
            yield f"Episodes that should end by '{name}' do not", bad
        if (bad := mine & over & (said["reason"] != k)).any():
            yield f"The reason of episodes that end by '{name}' is given as another", bad
        told = expected.sure & (said["reason"] == k) & (expected.reason == 0)
        if told.any():
            yield f"Episodes end by '{name}' that should go on", told
    alive = expected.sure & (expected.reason == 0)
    if (bad := alive & ~whole.lived.going & (said["reason"] == 0)).any():
        yield "Episodes that should go on are ended without a reason", bad
    if (bad := said["terminated"] & said["truncated"]).any():
        yield "Episodes end by time and by a termination at once", bad
    if (bad := expected.sure & expected.truncated & said["terminated"]).any():
        yield "Episodes that ran out of time are called terminated", bad
    if (bad := expected.sure & expected.terminated & said["truncated"]).any():
        yield "Episodes that were terminated are called out of time", bad


def _touching(case: Case) -> Iterator[Found]:
    """A trunk that is deeper in the ground than where others touched it touches it, one in mid-air does
    not."""
    env = everybody(case)
    for edge in edge_steps(case):
        led = edge.whole.led
        alive = ~led["failed"].astype(bool)
        above = led["position"][:, 2] - ground_below(case, env, led["position"][:, :2].astype(np.float64))
        if edge.name == "trunk_contact":
            bad = alive & ~led["trunk_contact"] & (above <= edge.height + STILL_M)
            text = "Trunks that are in the ground do not touch it"
        else:
            bad = alive & (above > ALOFT_M) & led["trunk_contact"]
            text = "Trunks in mid-air touch the ground"
        if bad.any():
            yield Found(f"{text} ({int(bad.sum())} of {len(bad)} environments).", cause="physics")
        if edge.name == "failure":
            hit = (edge.whole.lived.before["script.push_step"] < 1 << 20).any(1)
            if (bad := hit & ~led["failed"].astype(bool)).any():
                text = f"Pushes of a million m/s leave {int(bad.sum())} of {int(hit.sum())} robots unharmed."
                yield Found(text, cause="physics")


DETECTORS = (
    Detector(
        name="terminations",
        kind="proof",
        cause="termination",
        asks="Do episodes end exactly when the contract says, for the reason that is given?",
        statistic="ends, reasons and time-outs of all environments against a slow numpy twin: from 2 to 8% "
        "inside and outside of each threshold, in the last steps of their time, in failure, in wild motion",
        threshold="none; within 1e-4 of a threshold rounding decides, and the step is left out",
        means="Robots that have fallen go on, or are cut off early: returns, values and falls are of another "
        "task than the contract's.",
        remedy="Compare the named termination, its parameters and its order with env/rules.py and the task.",
        look=look,
        needs=("robot",),
    ),
)
