"""Does a policy see nothing of what it was not declared to see? Such quantities are set alone, and all that
it sees must stay as it was, to the bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.kept_episodes import own_terms
from surefoot.audits.lived import NEVER, Lived, edited, live, robots, wild
from surefoot.audits.slow_observations import slices

TOLD = {
    "parameters.friction": ("friction",),
    "parameters.payload_kg": ("payload",),
    "parameters.com_m": ("com",),
    "parameters.strength": ("actuation",),
    "parameters.kp_scale": ("actuation",),
    "parameters.kd_scale": ("actuation",),
    "parameters.delay_s": ("actuation",),
    "task.air_time": ("air_time",),
    "task.landed": (),
    "task.previous_action": (),
    "script.stratum": (),
    "script.push_velocity": (),
    "script.level": (),
    "returns": (),
    "progress": (),
    "born": (),
    "level": (),
}
"""What a policy is not told, with the critic's terms that may show it."""


def look(case: Case) -> list[Found]:
    """Takes one step again and again from the same states, each time with one quantity set otherwise before;
    the robots' physics keeps its own."""
    env = robots(case)
    kept = env.snapshot()
    live(env, wild(case, "unseen-before", env, 0.5), 3)
    start = edited(env.snapshot(), script__push_step=NEVER, task__age=env.episode_steps // 3)
    action = wild(case, "unseen", env, 0.5)(0)

    def after(snapshot: dict[str, Tensor]) -> Lived:
        env.restore(snapshot)
        return live(env, lambda t: action, 1)[0]

    plain = after(start)
    found: list[Found] = []
    for name, showing in TOLD.items():
        if name in start:
            other = after(start | {name: _otherwise(start[name])})
            found += _changed(case, name, showing, plain, other)
    found += _future(case, start, plain, after(_next_commands(start)))
    found += _neighbours(case, plain, after(_strangers(case, start)))
    env.restore(kept)
    return found


def _otherwise(x: Tensor) -> Tensor:
    """Returns other values: of another size where there is one, one more where not."""
    return x + 1 if not x.is_floating_point() else x * 1.5 + 0.1


def _changed(case: Case, name: str, showing: tuple[str, ...], plain: Lived, other: Lived) -> Iterator[Found]:
    going = plain.going & other.going
    seen = (plain.obs != other.obs)[going]
    if seen.any():
        terms = [n for n, at in slices(case.robot.task.contract.observation).items() if seen[:, at].any()]
        yield Found(
            f"Another '{name}' alone changes what the policy sees of {', '.join(terms)}, in "
            f"{100 * seen.any(1).mean():.0f}% of environments: it is not declared to."
        )
    contract, known = case.robot.task.contract, own_terms(case.robot)
    shown = (plain.critic != other.critic)[going]
    for term, at in slices((*contract.observation, *contract.privileged)).items():
        if shown[:, at].any() and term in known and term not in showing:
            yield Found(f"Another '{name}' alone changes what the critic sees of '{term}'.")
    for term in showing:
        where = slices((*contract.observation, *contract.privileged)).get(term)
        if where is not None and term in known and not shown[:, where].any():
            yield Found(f"What the critic sees of '{term}' does not follow '{name}'.")


def _next_commands(start: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the snapshot with other commands in all segments but the second, in which all of it stands."""
    commands = start["script.commands"].clone()
    if commands.shape[1] > 1:
        now = commands[:, 1].clone()
        commands = commands * 0.5 + 0.1
        commands[:, 1] = now
    return start | {"script.commands": commands}


def _future(case: Case, start: dict[str, Tensor], plain: Lived, other: Lived) -> Iterator[Found]:
    hz, contract = case.robot.recipe.control_hz, case.robot.task.contract
    segment = round(contract.command.resample_s * hz)
    age = int(start["task.age"][0]) + 1
    if start["script.commands"].shape[1] < 3 or (age - 1) // segment != 1 or age // segment != 1:
        return
    going = plain.going & other.going
    if (plain.obs != other.obs)[going].any() or (plain.critic != other.critic)[going].any():
        yield Found("Commands of other times than now change what is seen.")


def _strangers(case: Case, start: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the snapshot with every second environment's state exchanged for another's."""
    n = len(start["task.age"])
    rows = torch.arange(n)
    odd = rows[1::2]
    rows[1::2] = odd[torch.from_numpy(case.numbers("strangers").permutation(len(odd)))]
    return {k: v[rows] if v.ndim and len(v) == n and k != "reset_counts" else v for k, v in start.items()}


def _neighbours(case: Case, plain: Lived, other: Lived) -> Iterator[Found]:
    own = np.arange(len(plain.obs)) % 2 == 0
    off = (plain.obs != other.obs).any(1) | (plain.critic != other.critic).any(1)
    if (off & own).any():
        yield Found(
            f"What is seen in {int((off & own).sum())} of {int(own.sum())} environments follows the state "
            "of others."
        )


DETECTORS = (
    Detector(
        name="unseen",
        kind="proof",
        cause="observation",
        asks="Does the policy see nothing of what it is not declared to see, and the critic what it is told?",
        statistic="one step, again and again from the same states, with a body parameter, a memory, a plan "
        "for later or other environments' states exchanged before it: whatever is seen then",
        threshold="equality to the bit",
        means="The policy was trained with knowledge that a robot does not have, or that is another's.",
        remedy="Compare the named term's function with what the contract says it shows.",
        look=look,
        needs=("robot",),
    ),
)
