"""Would the run go on as if it had never stopped? Learner, environments and choice are taken up again from
what a checkpoint holds, and held to those that went on."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.iterated import copied, learner_of, learning
from surefoot.audits.lived import Lived, edited, live, robots, wild
from surefoot.audits.updates import extreme_block
from surefoot.env import VecEnv, join_snapshots, part_of_snapshot
from surefoot.env.compiled import CompiledEnv
from surefoot.learners import Ppo
from surefoot.runs import load_checkpoint, save_checkpoint, section
from surefoot.training import Progress

ENVS, STEPS = 32, 8
"""Environments that are taken up again, and steps that they take: every second one ends within them."""


def look(case: Case) -> list[Found]:
    """Takes up learner, environments and choice again, each from a file that it was written to."""
    found = [*_learner(case), *_progress(case)]
    return found if case.record.training_plant is None else [*found, *_environments(case)]


# ---- the learner


def _learner(case: Case) -> Iterator[Found]:
    """A learner that was saved and loaded has all that it had, and makes the next update to the bit."""
    went_on = _moved(case)
    before = copied(went_on)
    taken_up = learner_of(case, case.seed)
    taken_up.recipe = went_on.recipe
    with learning():
        taken_up.load(_through_a_file(before))
    after = copied(taken_up)
    if lost := _different(before, after):
        yield Found(f"A learner that is resumed does not have the {_named(lost)} that it was saved with.")
        return
    if taken_up.updates != went_on.updates:
        yield Found(f"A learner of {went_on.updates} updates is resumed as one of {taken_up.updates}.")
        return
    blocks = []
    for learner in (went_on, taken_up):
        with learning():
            blocks.append(extreme_block(learner, learner.recipe, case))
    for learner, block in zip((went_on, taken_up), blocks, strict=True):
        with learning():
            learner.update(block)
    if lost := _different(copied(went_on), copied(taken_up)):
        yield Found(
            f"The first update after a resume leads to another {_named(lost)} than if the run had gone on."
        )


def _moved(case: Case) -> Ppo:
    """Returns the run's learner after one more update, where it has nothing that a new one has."""
    learner = learner_of(case, case.seed)
    learner.load(case.tensors("latest", "learner"))
    with learning():
        learner.update(extreme_block(learner, learner.recipe, case))
        learner.state.scalars[0] *= 0.9
    return learner


def _through_a_file(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns tensors as they come back from a checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.safetensors"
        save_checkpoint(path, {f"learner.{k}": v for k, v in tensors.items()}, {})
        return section("learner", load_checkpoint(path).tensors)


def _different(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> list[str]:
    """Names what two have not to the bit."""
    odd = sorted(a.keys() ^ b.keys())
    return odd + [k for k in a if k in b and not torch.equal(torch.as_tensor(a[k]), torch.as_tensor(b[k]))]


def _named(lost: list[str]) -> str:
    parts = sorted({k.partition(".")[0] if "adam" not in k else k for k in lost})
    names = {"networks": "weights", "scalars": "learning rate or count of updates"}
    return ", ".join(names.get(p, p) for p in parts)


# ---- the choice


def _progress(case: Case) -> Iterator[Found]:
    """What was chosen so far comes back: every success, the best, and when it was."""
    numbers = case.numbers("resuming")
    own = Progress(
        update=int(numbers.integers(100, 200)),
        successes=[float(x) for x in numbers.random(3)],
        best=float(0.5 + numbers.random() / 2),
        best_update=int(numbers.integers(1, 100)),
    )
    fields = ("update", "successes", "best", "best_update")
    back = Progress()
    back.load({k: getattr(own, k) for k in fields})
    wrong = [k for k in fields if getattr(own, k) != getattr(back, k)]
    if wrong:
        yield Found(f"A run that is resumed has forgotten its {', '.join(wrong)}: another may be chosen.")


# ---- environments


def _environments(case: Case) -> Iterator[Found]:
    """Environments that a snapshot is restored into live on as those that it was taken of: through ends of
    episodes, pushes and delays, in one process or parted among two."""
    env = robots(case, ENVS)
    kept = env.snapshot()
    n, steps = env.num_envs, env.episode_steps
    age = torch.full_like(kept["task.age"], steps // 3) + torch.arange(n)
    age[::2] = steps - 2 - torch.arange(len(age[::2])) % (STEPS - 3)
    push = kept["script.push_step"].clone()
    push[1::4, 0] = age[1::4] + 3
    asked = edited(kept, task__age=age, script__push_step=push, born=age // 2)
    env.restore(asked)
    if odd := _different(asked, env.snapshot()):
        env.restore(kept)
        yield Found(
            f"Environments that are resumed do not have the {', '.join(odd[:3])} that they had.",
            cause="reset",
        )
        return
    live(env, wild(case, "before", env), 4)
    held = env.snapshot()
    actions = [wild(case, "resuming", env)(t) for t in range(STEPS)]
    went_on = live(env, lambda t: actions[t], STEPS)
    ended = env.snapshot()
    env.restore(kept)
    plan = dataclasses.replace(case.plan, seeds=case.probe_seeds, device="cpu")
    other = plan.environments(case.chosen(ENVS).tolist())
    try:
        assert isinstance(other, VecEnv | CompiledEnv)
        live(other, wild(case, "elsewhere", other), 2)
        parts = [part_of_snapshot(held, range(0, n // 2)), part_of_snapshot(held, range(n // 2, n))]
        joined = join_snapshots(parts)
        if odd := _different(held, joined):
            yield Found(
                f"A snapshot that is parted and joined has another {', '.join(odd[:3])}.", cause="reset"
            )
            return
        other.restore(joined)
        if odd := _different(held, other.snapshot()):
            yield Found(
                f"Environments that are resumed do not have the {', '.join(odd[:3])} that they had.",
                cause="reset",
            )
            return
        taken_up = live(other, lambda t: actions[t], STEPS)
        yield from _apart(went_on, taken_up)
        if odd := _different(ended, other.snapshot()):
            yield Found(
                f"Environments that were resumed come to another {', '.join(odd[:3])} than others.",
                cause="reset",
            )
    finally:
        other.close()


def _apart(a: list[Lived], b: list[Lived]) -> Iterator[Found]:
    for t, (one, two) in enumerate(zip(a, b, strict=True)):
        pairs: dict[str, tuple[Any, Any]] = {"observations": (one.obs, two.obs), "states": (
            one.robot["joint_position"], two.robot["joint_position"])}  # fmt: skip
        pairs |= {k: (one.outcome[k], two.outcome[k]) for k in ("reward", "terminated", "truncated")}
        for name, (x, y) in pairs.items():
            off = (x != y).reshape(len(x), -1).any(1)
            if off.any():
                share = f"{100 * float(np.mean(off)):.0f}% of environments"
                text = f"{t + 1} steps after a resume {name} are not those of going on, in {share}."
                yield Found(text, cause="reset")
                return


DETECTORS = (
    Detector(
        name="resuming",
        kind="proof",
        cause="learning",
        asks="Would the run go on from its checkpoint as if it had never stopped?",
        statistic="a learner saved and loaded through a file, and its next update; environments restored "
        "from a parted snapshot, through ends and pushes; what was chosen so far: against those that went on",
        threshold="none: the same to the bit",
        means="A run that was stopped and resumed is another experiment than the one that it states.",
        remedy="Compare `tensors` and `load` of the learner, `snapshot` and `restore` of the environments.",
        look=look,
        needs=("ppo",),
    ),
)
