"""Is what is written of an episode what it was? Asked in environments whose episodes all end at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.forms import hold
from surefoot.audits.lived import Lived, edited, wild
from surefoot.audits.whole_steps import Env, Whole, everybody, live_wholly

ROUNDING = 1e-4
"""Relative allowance for sums in single precision, and as much of the sum of their sizes."""


def look(case: Case) -> list[Found]:
    """Ends all episodes in one step, each with another past, and reads their records."""
    env, numbers = everybody(case), case.numbers("episode-records")
    home, n = env.snapshot(), env.num_envs
    start = dict(home)
    age = numbers.integers(1, env.episode_steps - 1, n)
    age[: n // 2] = env.episode_steps - 1
    born = (age * numbers.random(n)).astype(np.int64)
    paid = numbers.normal(0, 3, (n, len(env.reward_names))).astype(np.float32)
    walked = numbers.uniform(0, 0.5, (n, 2)).astype(np.float32)
    episode = torch.from_numpy(numbers.integers(0, 500, n))
    for name, value in (("task.age", age), ("born", born), ("returns", paid), ("progress", walked)):
        start[name] = torch.from_numpy(value)
    start |= {"episode": episode, "script.episode": episode.clone()}
    kick = start["script.push_step"].clone()
    kick[n // 2 :, 0] = start["task.age"][n // 2 :]
    start |= {
        "script.push_step": kick,
        "script.push_velocity": torch.full_like(start["script.push_velocity"], 1e6),
    }
    env.restore(start)
    _stats(env)  # what was written before is forgotten
    whole = live_wholly(case, env, wild(case, "episode-records", env), 1)[0]
    step = whole.lived
    stats = _stats(env)
    env.restore(edited(home))
    ended = {k: np.concatenate([e[k] for e in stats.ended]) for k in (stats.ended[0] if stats.ended else {})}
    if ended:
        own = {k: v for k, v in case.episodes_form.items() if k != "update"}
        hold("A record of episodes that ended", ended, own, "bookkeeping")
    return [*_compared(case, env, whole, ended, start), *_counted(stats.resets, step)]


PROGRESS = ("walked_m", "commanded_m")
"""What levels of terrain go by, in the order in which environments sum it up."""


def _stats(env: Env) -> Any:
    return env.episode_stats({k: v.clone() for k, v in env.stats_tensors().items()})


def _compared(
    case: Case, env: Env, whole: Whole, ended: dict[str, np.ndarray], start: dict[str, torch.Tensor]
) -> Iterator[Found]:
    step = whole.lived
    over = np.flatnonzero(~step.going)
    contract = case.robot.task.contract
    if len(ended.get("steps", ())) != len(over):
        yield Found(f"{len(over)} episodes ended and {len(ended.get('steps', ()))} were recorded.")
        return
    was = {k: v.numpy() for k, v in start.items()}
    at = np.lexsort((was["script.member"][over], was["script.family"][over]))
    over = over[at]
    order = np.lexsort((ended["member"], ended["family"]))
    terms = was["returns"].astype(np.float64) + step.outcome["terms"]
    expected: dict[str, np.ndarray] = {
        "family": was["script.family"],
        "member": was["script.member"],
        "episode": was["episode"],
        "stratum": was["script.stratum"][:, 0],
        "level": was["script.level"],
        "steps": was["task.age"] + 1 - was["born"],
        "reason": step.outcome["reason"],
        "friction": was["parameters.friction"],
        "payload_kg": was["parameters.payload_kg"],
        "delay_s": was["parameters.delay_s"],
        "return": terms.sum(1),
        **{f"return.{name}": terms[:, k] for k, name in enumerate(env.reward_names)},
    }
    if contract.terrain_levels > 1:
        atlas = case.once("atlas", case.robot.atlas)
        assert atlas is not None
        expected["tile"] = was["script.tile"]
        expected["terrain"] = np.array([atlas.tiles[k].cls for k in was["script.tile"]])
        speed = np.hypot(*was["task.command"][:, :2].astype(np.float64).T)
        dt = 1.0 / case.robot.recipe.control_hz
        expected["commanded_m"] = was["progress"][:, 1] + speed * dt
        ahead = (whole.led["linear_velocity"][:, :2] * was["task.command"][:, :2]).sum(1)
        ahead = np.where(whole.led["failed"], 0.0, ahead / np.maximum(speed, 1e-6))
        expected["walked_m"] = was["progress"][:, 0] + ahead * dt
    for name, value in expected.items():
        said, right = ended[name][order], value[over]
        if right.dtype.kind in "US":
            bad = said.astype(str) != right
        else:
            allowed = ROUNDING * (1 + np.abs(right.astype(np.float64)))
            bad = ~(np.abs(said.astype(np.float64) - right) <= allowed)
        if bad.any():
            text = f"'{name}' of recorded episodes is not theirs, in {int(bad.sum())} of {len(bad)}."
            if name in PROGRESS and _summed_otherwise(case, env, PROGRESS.index(name)):
                text += " So it is summed up while they run: levels of terrain follow something else."
                yield Found(text, cause="randomisation")
            else:
                yield Found(text)


def _summed_otherwise(case: Case, env: Env, which: int) -> bool:
    """Returns whether a step adds something else to what levels of terrain go by than its robots walked, or
    were told to."""
    home = env.snapshot()
    env.restore(edited(home, task__age=env.episode_steps // 2))
    before = env.snapshot()["progress"].numpy().astype(np.float64)
    whole = live_wholly(case, env, wild(case, "progress", env), 1)[0]
    after = env.snapshot()["progress"].numpy().astype(np.float64)
    env.restore(home)
    command = whole.lived.before["task.command"][:, :2].astype(np.float64)
    speed = np.hypot(*command.T)
    along = (whole.led["linear_velocity"][:, :2] * command).sum(1) / np.maximum(speed, 1e-6)
    right = np.stack([along, speed], 1) / case.robot.recipe.control_hz
    off = np.abs(after - before - right)[whole.lived.going][:, which] > ROUNDING
    return bool(off.mean() > 0.02)


def _counted(resets: np.ndarray, step: Lived) -> Iterator[Found]:
    begun = step.after["script.stratum"][~step.going, 0]
    if (resets != np.bincount(begun, minlength=len(resets))).any():
        yield Found("Episodes that began are not counted by the stratum that they began in.")


DETECTORS = (
    Detector(
        name="episode-records",
        kind="proof",
        cause="bookkeeping",
        asks="Is what is written of a training episode what it was?",
        statistic="records of all environments, whose episodes end in one step after different lives: keys, "
        "length, reason, pay by term, body, ground and what was commanded",
        threshold="relative 1e-4: sums in single precision; counts and keys exactly",
        means="Episodes are written down with another's body, reason, length or pay; what is counted from "
        "them is void.",
        remedy="Compare what env/log.py and the compiled records take with the rows that ended.",
        look=look,
        needs=("robot",),
    ),
)
