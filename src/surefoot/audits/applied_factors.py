"""Is what was drawn for training environments what their physics has? Whether it is what the contract says is
asked of the draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.explained import Explanation, explain, far, many
from surefoot.audits.fresh_lives import FreshLives, fresh_lives
from surefoot.audits.twin import PARAMETERS, Steps, Twin, gap

ROWS = 1600
"""Steps that the twin takes."""
GRAVITY = 9.81
READ = 2e-5
"""Rounding of what engines read back: single precision, of sums of masses too."""
NAMES = {
    "payload_kg": "payload",
    "com_m": "com",
    "kp_scale": "gains",
    "kd_scale": "gains",
    "delay_s": "delay",
}
"""Parameters by the contract's factor, where it is called otherwise."""


def unlike(declared: Mapping[str, np.ndarray], read: Mapping[str, np.ndarray], dt_s: float) -> dict[str, int]:
    """Returns in how many environments a parameter that was read back is not the declared one, by name.
    Delays are whole physics steps."""
    out = {}
    for k in PARAMETERS:
        given, there = (np.asarray(x[k], np.float64).reshape(len(x[k]), -1) for x in (declared, read))
        if k == "delay_s":
            off = np.abs(there - given) > (0.5 + 1e-3) * dt_s
            off |= np.abs(there / dt_s - np.rint(there / dt_s)) > 1e-3
        else:
            off = ~(np.abs(there - given) <= READ * (1 + np.abs(given)))
        if off.any():
            out[k] = int(off.any(1).sum())
    return out


def look(case: Case) -> list[Found]:
    """Reads parameters back after resets, and holds lived steps to a twin that has what was declared."""
    lives = fresh_lives(case)
    return [*_read_back(case, lives), *_physics(case, lives)]


def _read_back(case: Case, lives: FreshLives) -> Iterator[Found]:
    said: set[str] = set()
    for number, b in enumerate(lives.begun):
        declared = {k: b.declared[f"parameters.{k}"] for k in PARAMETERS}
        for name, count in unlike(declared, b.read, lives.plant.dt_s).items():
            if name not in said:
                said.add(name)
                when = "the first reset" if number == 0 else "a reset"
                yield Found(
                    f"After {when} the engine has another '{NAMES.get(name, name)}' than was drawn in "
                    f"{count} of {len(b.read[name])} environments ({name} read back)."
                )


def chosen(s: Steps, numbers: np.random.Generator, control_s: float, rows: int = ROWS) -> Steps:
    """Returns at most `rows` steps: half of them pushed, where so many are, and of the others those first
    that something holds up, because who falls freely shows few parameters."""
    if len(s) <= rows:
        return s
    order = numbers.permutation(len(s))
    pushed = np.abs(s.push).any(1)[order]
    held_up = (np.abs(s.after[:, 2] - s.linear[:, 2] + GRAVITY * control_s) > 0.02)[order]
    taken = order[pushed][: rows // 2]
    others = np.concatenate([order[~pushed & held_up], order[~pushed & ~held_up]])[: rows - len(taken)]
    return s.take(np.sort(np.concatenate([taken, others])))


def _physics(case: Case, lives: FreshLives) -> Iterator[Found]:
    plan, plant = case.robot, case.record.training_plant
    assert plant is not None
    robot, contract = plan.task.robot, plan.task.contract
    if (lives.engine, lives.plant) != (case.record.engine, plant):
        text = f"Training environments run on {lives.engine} and a plant of {lives.plant.model_dump()}, which"
        yield Found(f"{text} is not what run.json states.", cause="physics")
    control_s = 1.0 / plan.recipe.control_hz
    s = chosen(lives.steps, case.numbers("applied"), control_s)
    gaps = gap(s, Twin(robot, contract, plant).step(s), control_s)
    off, pushed = far(gaps, robot), np.abs(s.push).any(1)
    if many(off & ~pushed, s.env):
        rows = off & ~pushed
        why = explain(s.take(rows), robot, contract, plant)
        yield Found(_statement(why, rows, s, len(np.unique(s.env[rows]))), cause=cause(why, "physics"))
    elif pushed.any() and (off & pushed).sum() >= 3 and off[pushed].mean() > 0.02:
        yield Found(
            f"Pushes are not what episodes say of them in {int((off & pushed).sum())} of "
            f"{int(pushed.sum())}: the velocity of the base does not change by what was drawn, when it was.",
            cause="randomisation",
        )


def _statement(why: Explanation, off: np.ndarray, s: Steps, envs: int) -> str:
    text = (
        f"{int(off.sum())} of {len(s)} control steps, in {envs} of {len(np.unique(s.env))} environments, are "
        "not what MuJoCo makes of the declared parameters and training plant"
    )
    return text + (f"; {why.name} explains it." if why.name else ".")


def cause(why: Explanation, otherwise: str) -> str:
    """Returns the class of cause of an explanation in training."""
    return {"push": "randomisation", "action": "action"}.get(why.kind, otherwise)


DETECTORS = (
    Detector(
        name="applied-factors",
        kind="proof",
        cause="physics",
        asks="Do training environments have the friction, payload, centre of mass, strength, gains, delay "
        "and pushes that were drawn for them, on the declared plant?",
        statistic="parameters read back after the first and later resets; 1600 steps of up to 256 "
        "environments, none of them restored, against native MuJoCo with the declared parameters",
        threshold="read-back to rounding (2e-5); velocities to 1e-4 m/s, 1e-3 and 5e-3 rad/s, torque to 5e-3 "
        "N m and 1e-4 of its limit, in more than 1% of steps or a third of an environment's",
        means="Environments were not randomised as the contract says, or simulated otherwise than declared.",
        remedy="Follow the named factor from its draw through the reset into the engine's model.",
        look=look,
        needs=("robot",),
    ),
)
