"""Is a rollout block what was lived: actions of the policy, values of what truly followed, advantages by the
book?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import ndtr

from surefoot.audits.case import Case
from surefoot.audits.chance import kolmogorov_smirnov
from surefoot.audits.detector import Detector, Found
from surefoot.audits.iterated import Iterated, iterated

ROUNDING = 3e-4
"""Allowance for networks and sums in single precision, relative to 1 + size."""


def wrong(said: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Returns where single-precision figures are not what they should be."""
    said, expected = (np.asarray(x, np.float64) for x in (said, expected))
    out: np.ndarray = ~(np.abs(said - expected) <= ROUNDING * (1 + np.abs(expected)))
    return out


def look(case: Case) -> list[Found]:
    """Recomputes two blocks that the run's learner collects in the probe's environments."""
    found, recipe = [], case.record.recipe
    for it in iterated(case):
        found = [*_lived(it), *_behaviour(it), *_values(it, recipe.gamma, recipe.lam)]
        if found:
            return found
    return list(_exploration(iterated(case)))


def _lived(it: Iterated) -> Iterator[Found]:
    """The block holds what happens when its own actions are taken one by one from the same states."""
    for name in ("reward", "terms", "terminated", "truncated", "reason"):
        lived = np.stack([s.outcome[name] for s in it.steps])
        off = (lived != it.block[name]).reshape(len(lived), lived.shape[1], -1).any(2)
        if off.any():
            share = f"{100 * off.mean():.0f}% of steps"
            yield Found(
                f"'{name}' of a block is not what its own actions lead to, in {share}.", cause="batch"
            )
    for name, at in (("obs", "obs"), ("critic", "critic")):
        first = it.start[name].numpy()  # as the iteration began
        lived = np.stack([first, *(getattr(s, at) for s in it.steps[:-1])])
        off = (lived != it.block[name]).any(2)
        if off.any():
            share = f"{100 * off.mean():.0f}% of steps"
            where = " The first step alone has what an earlier rollout saw." if not off[1:].any() else ""
            text = f"'{name}' of a block is not what is seen as its actions are taken, in {share}.{where}"
            yield Found(text, cause="observation")


def _behaviour(it: Iterated) -> Iterator[Found]:
    b, p = it.block, it.policy
    mean = p.mean(it.features)
    if (off := wrong(b["mean"], mean).any(-1)).any():
        share = f"{100 * off.mean():.0f}% of samples"
        cause, why = _why(b["mean"].astype(np.float64), mean)
        text = f"Means of a block are not the policy's for the observations beside them, in {share}: {why}."
        yield Found(text, cause=cause)
        return
    log_prob = p.log_prob(b["mean"].astype(np.float64), b["action"].astype(np.float64))
    if (off := wrong(b["log_prob"], log_prob)).any():
        yield Found(f"Log-probabilities are not those of the actions, in {100 * off.mean():.0f}% of samples.")


def _why(said: np.ndarray, expected: np.ndarray) -> tuple[str, str]:
    """Says what means [T, N, A] are instead: those of the step before, or ever further from the policy's."""
    if wrong(said[1:], expected[:-1]).any(-1).mean() < 0.5:
        return "observation", "they are those of the observations a step before"
    gap = np.abs(said - expected).mean((1, 2))
    if len(gap) >= 8 and np.corrcoef(gap, np.arange(len(gap)))[0, 1] > 0.9 and gap[-1] > 2 * gap[0]:
        return "normaliser", "the gap grows with every step, as where a normaliser moves meanwhile"
    return "learning", "the policy, what it saw, or its normaliser was another"


def _values(it: Iterated, gamma: float, lam: float) -> Iterator[Found]:
    """Values are the critic's; after a timeout comes the episode's own last state; GAE is the paper's."""
    b, value = it.block, it.policy.value(it.block["critic"])
    if (off := wrong(b["value"], value)).any():
        yield Found(f"Values of a block are not the critic's, in {100 * off.mean():.0f}% of samples.")
    final = it.policy.value(np.stack([s.outcome["final_critic"] for s in it.steps]))
    goes_on = np.concatenate([value[1:], it.policy.value(it.steps[-1].critic)[None]])
    follows = np.where(b["truncated"], final, goes_on)
    off = wrong(b["next_value"], follows) & ~b["terminated"]
    for where, text in ((b["truncated"], "timeouts"), (~b["truncated"], "steps that go on")):
        if (off & where).any():
            share = 100 * (off & where).sum() / max((where & ~b["terminated"]).sum(), 1)
            yield Found(f"Values after {text} are not those of what truly followed, in {share:.0f}% of them.")
    # Each from its own definition, forwards in time: sums of discounted one-step errors to the episode's end.
    reward, now = (np.asarray(b[k], np.float64) for k in ("reward", "value"))
    error = reward + gamma * np.where(b["terminated"], 0.0, follows) - now
    over = b["terminated"] | b["truncated"]
    advantage = np.zeros_like(error)
    for t in range(len(error)):
        weight, alive = 1.0, np.ones(error.shape[1], bool)
        for k in range(t, len(error)):
            advantage[t] += np.where(alive, weight * error[k], 0.0)
            alive &= ~over[k]
            weight *= gamma * lam
    if (off := wrong(b["advantage"], advantage)).any():
        share = 100 * off.mean()
        after = 100 * off[over].mean() if over.any() else 0.0
        yield Found(
            f"Advantages are not those of the declared discounts, in {share:.0f}% of samples and "
            f"{after:.0f}% of episodes' last steps."
        )
    if wrong(b["returns"], advantage + now).any() and not off.any():
        yield Found("Returns that values learn from are not advantages plus values.")


def _exploration(pair: list[Iterated]) -> Iterator[Found]:
    """What actions add to means is standard normal after scaling, and independent of all but itself."""
    first, second = (
        (i.block["action"] - i.block["mean"]).astype(np.float64) / np.exp(i.policy.log_std) for i in pair
    )
    z = np.concatenate([first, second])  # [2T, N, A]
    count = z.size
    means = np.concatenate([i.block["mean"] for i in pair]).astype(np.float64)
    means = means - means.mean((0, 1))
    tests = {
        "its mean is not zero": z.sum() / np.sqrt(count),
        "its size is not the policy's": ((z**2).sum() - count) / np.sqrt(2 * count),
        "steps share it": (z[1:] * z[:-1]).sum() / np.sqrt(z[1:].size),
        "environments share it": (z[:, 1:] * z[:, :-1]).sum() / np.sqrt(z[:, 1:].size),
        "joints share it": (z[..., 1:] * z[..., :-1]).sum() / np.sqrt(z[..., 1:].size),
        "updates share it": (first * second).sum() / np.sqrt(first.size),
        "it follows the mean action": (z * means).sum() / np.sqrt((means**2).sum() + 1e-30),
        "all environments share a part of it": _common(z.sum(1), z.shape[1]),
        "all steps share a part of it": _common(z.sum(0), z.shape[0]),
    }
    size = {f"joint {k} explores otherwise": _size(z[..., k]) for k in range(z.shape[-1])}
    every = tests | size
    worst = max(every, key=lambda name: abs(every[name]))
    p = min(1.0, 2 * len(every) * float(ndtr(-abs(every[worst]))))
    yield Found(f"Exploration is not what is declared: {worst} (z = {every[worst]:.1f}).", p)
    yield Found("Exploration is not normally distributed.", kolmogorov_smirnov(ndtr(z.ravel())))


def _common(sums: np.ndarray, count: int) -> float:
    """Returns a z score: are sums of `count` standard normals of variance `count`?"""
    return float(((sums**2).sum() / count - sums.size) / np.sqrt(2 * sums.size))


def _size(z: np.ndarray) -> float:
    return float(((z**2).sum() - z.size) / np.sqrt(2 * z.size))


DETECTORS = (
    Detector(
        name="rollout",
        kind="proof",
        cause="learning",
        asks="Does a rollout block hold what was lived, seen and done, with values of what truly followed?",
        statistic="two blocks of up to 256 environments from the latest checkpoint, in which many episodes "
        "run out of time: taken again step by step; means, log-probabilities, values, bootstraps, advantages "
        "and returns in double precision; exploration by tests of mean, size, shape and independence",
        threshold="rounding of single precision (3e-4); exploration by normal tests at the common error rate",
        means="The learner learns from something other than what happened, or bootstraps ends wrongly.",
        remedy="Compare what `collect` writes into the block with what the environments did.",
        look=look,
        needs=("robot", "ppo"),
    ),
)
