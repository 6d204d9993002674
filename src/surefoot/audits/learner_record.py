"""Has the learner done what the ledger says? Its checkpoints have counters of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.slow_policy import EPSILON
from surefoot.runs import CHECKPOINTS, waited

Arrays = dict[str, np.ndarray]
BEGUN = 1e-4
"""What a normaliser's count begins at."""
SINGLE = 2e-6
"""Relative rounding of a number in single precision."""
NORMALISERS = ("obs_normalizer", "critic_normalizer")
IMAGE = 1e-4
"""Relative to a standard deviation: sums of thousands of samples in single precision (clean: below 1e-6)."""


def look(case: Case) -> list[Found]:
    """Reads the learner's tensors in every checkpoint, in the order of their updates."""
    kept: dict[int, Arrays] = {}
    found: list[Found] = []
    for name in CHECKPOINTS:
        if not case.run.checkpoint_path(name).exists():
            continue
        checkpoint = case.run.load_checkpoint(name)
        learner = {k: v.numpy() for k, v in case.tensors(name, "learner").items()}
        policy = {k: v.numpy() for k, v in case.tensors(name, "policy").items()}
        update = int(checkpoint.meta["update"])
        if "scalars" not in learner:
            continue
        kept[update] = learner
        found += [*_counted(case, update, learner), *_acts_alike(case, name, learner, policy)]
        found += _mirrored(case, update, learner)
    found += [*_moved(case, kept), *(_lag(case) if waited(case.record.collection) else [])]
    return [f for k, f in enumerate(found) if f.statement not in {g.statement for g in found[:k]}]


def _counted(case: Case, update: int, learner: Arrays) -> Iterator[Found]:
    """Updates, gradient steps and samples seen are as many as the recipe makes of them."""
    recipe = case.record.recipe
    rows = [r for r in case.ledger if r["update"] <= update]
    if int(learner["scalars"][1]) != update:
        yield Found(f"The checkpoint of update {update} says that {int(learner['scalars'][1])} were learned.")
    skipped = sum(int(r.get("skipped_steps") or 0) for r in rows)
    steps = update * recipe.epochs * recipe.minibatches - skipped
    taken = float(learner.get("adam.step", np.zeros(())))
    if len(rows) == update and not math.isclose(taken, steps, rel_tol=SINGLE):
        text = f"{taken:.0f} gradient steps were taken until update {update}, where the recipe makes {steps}."
        yield Found(text, cause="learning")
    if not recipe.normalise:
        return
    seen = min(BEGUN + update * recipe.samples_per_update, recipe.normaliser_window)
    for name in NORMALISERS:
        count = float(learner[f"{name}.count"])
        if not math.isclose(count, seen, rel_tol=SINGLE):
            what = f"The {name.replace('_', ' ')} has taken in {count:.0f} samples until update {update}"
            yield Found(f"{what}, and not {seen:.0f}.")


def _acts_alike(case: Case, name: str, learner: Arrays, policy: Arrays) -> Iterator[Found]:
    """The policy that is judged has the learner's weights and moments."""
    if "mean" not in policy:
        return
    mean, std = np.zeros_like(policy["mean"]), np.ones_like(policy["mean"])
    if case.record.recipe.normalise:
        mean = learner["obs_normalizer.mean"]
        std = np.sqrt(learner["obs_normalizer.var"].astype(np.float64)) + EPSILON
    if not (
        np.allclose(policy["mean"], mean, SINGLE, 1e-7) and np.allclose(policy["std"], std, SINGLE, 1e-7)
    ):
        yield Found(f"The policy of checkpoint '{name}' normalises otherwise than its learner did.")
    pairs = []
    for kind in ("weight", "bias"):
        theirs = _in_order({k: v for k, v in policy.items() if k.endswith(f".{kind}")})
        actors = {k: v for k, v in learner.items() if k.startswith("networks.actor.") and k.endswith(kind)}
        pairs += list(zip(_in_order(actors), theirs, strict=True))
    memory = [k for k in policy if k.startswith("memory.")]
    pairs += [(learner[f"networks.{k}"].reshape(policy[k].shape), policy[k]) for k in memory]
    if not all(np.array_equal(a, b) for a, b in pairs):
        yield Found(
            f"The policy of checkpoint '{name}' has other weights than its learner.", cause="learning"
        )


def _mirrored(case: Case, update: int, learner: Arrays) -> Iterator[Found]:
    """Learning from mirror images too gives moments that are their own mirror image."""
    mirror = case.plan.mirror(torch.device("cpu")) if case.record.recipe.mirror else None
    if mirror is None or not case.record.recipe.normalise or not update:
        return
    for name, image in zip(NORMALISERS, (mirror.observation, mirror.critic), strict=True):
        mean, var = (learner[f"{name}.{k}"].astype(np.float64) for k in ("mean", "var"))
        index, sign = image.index.numpy(), image.sign.numpy()
        gap = np.abs(mean[index] * sign - mean) / np.sqrt(var + EPSILON)
        if (gap > IMAGE).any() or (np.abs(var[index] - var) > IMAGE * (var + EPSILON)).any():
            what = f"The {name.replace('_', ' ')} of update {update} is not its own mirror image"
            text = f"{what}: samples were not mirrored, as the recipe has it."
            yield Found(text, cause="learning")


def _in_order(layers: Arrays) -> list[np.ndarray]:
    """Returns layers by their numbers, which stand before the last point."""
    return [layers[k] for k in sorted(layers, key=lambda k: int(k.split(".")[-2]))]


def _moved(case: Case, kept: dict[int, Arrays]) -> Iterator[Found]:
    """From one checkpoint to a later one moments and weights have moved."""
    for a, b in pairwise(sorted(kept)):
        before, after = kept[a], kept[b]
        if float(after.get("adam.step", 0.0)) == float(before.get("adam.step", 0.0)):
            continue  # every step was left out, or counted wrongly, which was found
        if case.record.recipe.normalise:
            for name in NORMALISERS:
                same = [before[f"{name}.{k}"] == after[f"{name}.{k}"] for k in ("mean", "var")]
                if all(x.all() for x in same):
                    text = f"The {name.replace('_', ' ')} did not move from update {a} to update {b}."
                    yield Found(text)
        for part in ("actor", "critic"):
            names = [k for k in before if k.startswith(f"networks.{part}.")]
            if all(np.array_equal(before[k], after[k]) for k in names):
                text = f"The {part} did not move from update {a} to update {b}."
                yield Found(text, cause="learning")


def _lag(case: Case) -> Iterator[Found]:
    """What the ledger says of policy lag is the recipe's."""
    r = case.record.recipe
    stated = {
        "freshness.horizon_steps": r.horizon,
        "freshness.mean_age_steps": (r.horizon - 1) / 2,
        "freshness.epochs": r.epochs,
        "freshness.gradient_steps": r.epochs * r.minibatches,
    }
    for name, value in stated.items():
        off = [row["update"] for row in case.ledger if row.get(name, value) != value]
        if off:
            yield Found(
                f"The ledger's {name} is not the recipe's {value:g} in {len(off)} updates (first {off[0]}).",
                cause="bookkeeping",
            )


DETECTORS = (
    Detector(
        name="learner-record",
        kind="proof",
        cause="normaliser",
        asks="Has the learner learned and normalised as often as recipe and ledger say, until the end?",
        statistic="in every checkpoint: updates, Adam's steps, samples in the normalisers, whether moments "
        "and weights still moved, and whether the judged policy has them; policy lag in every row",
        threshold="none for counts; 2e-6 for what passed through single precision",
        means="Samples were learned from or normalised by more often, less often or not until the end.",
        remedy="Look at who updates the normaliser and how many steps an update takes.",
        look=look,
        needs=("ppo", "ledger"),
        short=True,
    ),
)
