"""Does each environment live by its own state alone? States are exchanged, keys and ages changed, and others
disturbed: what should not move must not, by a bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.lived import NEVER, Actions, edited, live, wild
from surefoot.audits.whole_steps import Env, everybody

STEPS = 5
SHARED = ("reset_counts",)
PAID = ("reward", "terms")
ENDED = ("terminated", "truncated", "reason")
CAUSES = {
    "reward": "reward",
    "terms": "reward",
    "terminated": "termination",
    "truncated": "termination",
    "reason": "termination",
    "obs": "observation",
    "critic": "observation",
    "final_critic": "observation",
    "returns": "bookkeeping",
    "progress": "bookkeeping",
}
"""Causes of what differs; of states and of all that environments remember it is another."""

Snapshot = dict[str, Tensor]
Arrays = dict[str, np.ndarray]


@dataclass
class Stretch:
    """What some steps led to, step by step, and where environments stood after the last one."""

    each: list[Arrays]  # [N, ...] by name
    going: np.ndarray  # [T, N] whether the episode had not ended before the step
    end: Snapshot

    def same(self, other: Stretch, to: np.ndarray, names: tuple[str, ...]) -> dict[str, np.ndarray]:
        """Returns [N] by name, where a value differs of which row i here should be row `to[i]` of the other,
        in steps of episodes that had not ended before."""
        out: dict[str, np.ndarray] = {}
        for a, b, going in zip(self.each, other.each, self.going, strict=True):
            for name in names:
                apart = ~_equal(a[name], b[name][to]).reshape(len(to), -1).all(1)
                if name not in (*PAID, *ENDED, "final_critic"):  # the next episode's, where one ended
                    apart &= ~(a["terminated"] | a["truncated"])
                if name == "final_critic":
                    apart &= a["truncated"]
                out[name] = out.get(name, np.zeros(len(to), bool)) | (apart & going)
        return out


def _equal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns where two arrays have the same values; NaN is NaN."""
    return np.asarray((a == b) | ((a != a) & (b != b)))


def stretch(env: Env, start: Snapshot, actions: list[Tensor]) -> Stretch:
    """Lives some steps from a snapshot."""
    env.restore(start)
    given: Actions = lambda t: actions[t]  # noqa: E731
    each, going, alive = [], [], np.ones(env.num_envs, bool)
    for step in live(env, given, len(actions)):
        robot = {f"robot.{k}": v for k, v in step.robot.items()}
        own = {k: v for k, v in step.after.items() if k.startswith("task.")}
        each.append(step.outcome | robot | own | {"obs": step.obs, "critic": step.critic})
        going.append(alive)
        alive = alive & step.going
    return Stretch(each, np.stack(going), env.snapshot())


def begun(case: Case) -> tuple[Env, Snapshot, list[Tensor]]:
    """Returns environments in the middle of episodes that are all different, and actions for the steps that
    follow."""

    def make() -> tuple[Snapshot, list[Tensor]]:
        env = everybody(case)
        home = env.snapshot()
        numbers = case.numbers("locality")
        most = env.episode_steps - 60
        age = torch.from_numpy(numbers.integers(20, most, env.num_envs))
        env.restore(edited(home, script__push_step=NEVER) | {"task.age": age})
        act = wild(case, "locality", env)
        live(env, act, 6)
        start = env.snapshot()
        env.restore(home)
        return start, [act(t) for t in range(STEPS)]

    start, actions = case.once("locality", make)
    return everybody(case), start, actions


def look(case: Case) -> list[Found]:
    """Makes four comparisons with one and the same stretch."""
    env, start, actions = begun(case)
    home = env.snapshot()
    usual = stretch(env, start, actions)
    found = [
        *_exchanged(case, env, start, actions, usual),
        *_renamed(env, start, actions, usual),
        *_disturbed(case, env, start, actions, usual),
    ]
    env.restore(home)
    return found


def _names(s: Stretch) -> tuple[str, ...]:
    return tuple(s.each[0])


def _exchanged(
    case: Case, env: Env, start: Snapshot, actions: list[Tensor], usual: Stretch
) -> Iterator[Found]:
    """Environments that stand in each other's places, with all that is theirs, do what those did."""
    to = case.numbers("exchanged").permutation(env.num_envs)
    index = torch.from_numpy(to)
    moved = {k: v if k in SHARED else v[index] for k, v in start.items()}
    there = stretch(env, moved, [a[index] for a in actions])
    apart = there.same(usual, to, _names(usual))
    yield from _said(apart, "Environments that exchange their states do not exchange {what}")


def _renamed(env: Env, start: Snapshot, actions: list[Tensor], usual: Stretch) -> Iterator[Found]:
    """Keys and ages decide noise and what is to come, not what a step leads to."""
    everyone = np.arange(env.num_envs)
    lasting = start | {  # the command stays, whatever the age
        "script.commands": start["task.command"][:, None].expand_as(start["script.commands"]).clone()
    }
    plain = stretch(env, lasting, actions)
    others = torch.roll(torch.arange(env.num_envs), 7)
    renamed = lasting | {f"script.{k}": lasting[f"script.{k}"][others] for k in ("family", "member")}
    renamed |= {"script.episode": lasting["script.episode"] + 3}
    aged = lasting | {"task.age": lasting["task.age"] + 17, "born": lasting["born"] + 5}
    seen = tuple(k for k in _names(usual) if k not in ("obs", "task.age"))
    for snapshot, text in (
        (renamed, "Under other keys, in the same states, {what} differs"),
        (aged, "At another time of the episode, in the same states, {what} differs"),
    ):
        apart = stretch(env, snapshot, actions).same(plain, everyone, seen)
        yield from _said(apart, text)


def _disturbed(
    case: Case, env: Env, start: Snapshot, actions: list[Tensor], usual: Stretch
) -> Iterator[Found]:
    """Half of the environments do something else, fall, run out of time or fail: the others do not notice."""
    numbers, n = case.numbers("disturbed"), env.num_envs
    everyone, first = np.arange(n), numbers.random(n) < 0.5
    for half in (first, ~first):
        whom = torch.from_numpy(half)
        kick = start["script.push_step"].clone()
        hit = torch.from_numpy(half & (numbers.random(n) < 0.3))
        kick[hit, 0] = start["task.age"][hit] + 1
        age = start["task.age"].clone()
        late = torch.from_numpy(half & (numbers.random(n) < 0.3)) & ~hit
        age[late] = env.episode_steps - 3
        speed = start["script.push_velocity"].clone()
        speed[hit] = 1e6
        other = start | {"script.push_step": kick, "script.push_velocity": speed, "task.age": age}
        other |= {"task.command": torch.where(whom[:, None], -start["task.command"], start["task.command"])}
        acts = [torch.where(whom[:, None], -3.0 * a, a) for a in actions]
        there = stretch(env, other, acts)
        apart = {k: v & ~half for k, v in there.same(usual, everyone, _names(usual)).items()}
        for name, value in there.end.items():
            if name not in SHARED:
                differs = ~_equal(value.numpy(), usual.end[name].numpy()).reshape(n, -1).all(1)
                apart[f"end of {name}"] = differs & ~half
        if any(v.any() for v in apart.values()):
            text = "When other environments do something else, {what} of those left alone changes"
            yield from _said(apart, text, cause="batch")
            return


def _said(apart: dict[str, np.ndarray], text: str, cause: str = "") -> Iterator[Found]:
    """Says what differs first and in how many environments: what follows from it is not said again."""
    wrong = {k: v for k, v in apart.items() if v.any()}
    if not wrong:
        return
    named = [k for k in wrong if k in CAUSES]
    states = [k for k in wrong if k.startswith("robot.")]
    shown = ", ".join(f"'{k}'" for k in (states or named or list(wrong))[:3])
    what = "physics" if states else CAUSES[named[0]] if named else "batch"
    most = max(int(v.sum()) for v in wrong.values())
    size = len(next(iter(wrong.values())))
    yield Found(f"{text.format(what=shown)} ({most} of {size} environments).", cause=cause or what)


DETECTORS = (
    Detector(
        name="locality",
        kind="proof",
        cause="batch",
        asks="Does what happens to an environment depend on its own state and action, and on nothing else?",
        statistic="states, rewards, ends, observations and memory over five steps of all environments, when "
        "they exchange places, have other keys or ages, and when half of them do something else",
        threshold="none: the same to the bit",
        means="Environments influence each other, or a rule depends on which environment it is, on its key "
        "or on the time: rewards and states are not those of the robots they belong to.",
        remedy="Look at what is computed over the batch, by an environment's number, or by a step's.",
        look=look,
        needs=("robot",),
    ),
)
