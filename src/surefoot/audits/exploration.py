"""Does each environment explore by its own key, anew in every step? What it adds to means is drawn again."""

from __future__ import annotations

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.draws import percent
from surefoot.audits.iterated import Iterated, iterated
from surefoot.audits.slow_philox import TRAIN, normals

ROUNDING = 1e-4
"""Allowed for a standard normal that went through an action in single precision; clean runs: below 2e-6."""
LAG = 8
"""Steps back in which noise that repeats is looked for."""


def look(case: Case) -> list[Found]:
    """Compares exploration of two blocks with the normals of the keys."""
    for k, it in enumerate(iterated(case)):
        said = (it.block["action"] - it.block["mean"]).astype(np.float64) / np.exp(it.policy.log_std)
        expected = np.stack([_drawn(case, it, t) for t in range(len(said))])
        # What an action was rounded to says little of noise that is small beside it.
        size = np.abs(it.block["action"]) / np.exp(it.policy.log_std)
        off = (np.abs(said - expected) > ROUNDING * (1 + np.abs(expected)) + 1e-6 * size).any(-1)
        # Ages were set before the first block: what is drawn ahead was drawn for others.
        off[: int(k == 0)] = False
        if off.any():
            return [_told(said, expected, off)]
    return []


def _drawn(case: Case, it: Iterated, t: int) -> np.ndarray:
    """Returns [N, A], the normals of step `t`: each step of an episode has whole blocks of its own."""
    before, count = it.steps[t].before, it.block["action"].shape[-1]
    family, member, episode = (before[f"script.{k}"] for k in ("family", "member", "episode"))
    first = before["task.age"] * (-(-count // 4) * 4)
    return normals(case.root, TRAIN, family, member, episode, "action noise", count, first)


def _told(said: np.ndarray, expected: np.ndarray, off: np.ndarray) -> Found:
    share = f"{percent(off)} of samples"
    wrong = said[off]
    at = np.argwhere(off)
    for lag in range(1, min(LAG, len(said) - 1) + 1):
        back = at[:, 0] >= lag
        if back.any():
            earlier = said[at[back, 0] - lag, at[back, 1]]
            if (np.abs(wrong[back] - earlier) < ROUNDING).all(-1).mean() > 0.5:
                return Found(f"Exploration is that of {lag} steps before, in {share}.", cause="batch")
    gap = np.abs(wrong[:200, None] - expected[at[:200, 0]]).max(-1)  # [K, N] against all of the same step
    if (gap.min(1) < ROUNDING).mean() > 0.5:
        return Found(f"Environments explore with the noise of others, in {share}.", cause="batch")
    along = float((wrong * expected[off]).sum() / (expected[off] ** 2).sum())
    left = wrong - along * expected[off]
    if np.abs(left).mean() < 0.05:
        text = f"Exploration is {along:.2f} times what the policy's standard deviation says, in {share}."
        return Found(text, cause="learning")
    return Found(f"Exploration is not drawn by the keys of environment, episode and step, in {share}.")


DETECTORS = (
    Detector(
        name="exploration-keys",
        kind="proof",
        cause="batch",
        asks="Does every environment explore by its own key, anew in each step, as wide as the policy says?",
        statistic="actions less means over the policy's standard deviation, in two blocks, against normals "
        "drawn again by another cipher",
        threshold="1e-4 of 1 + size: polynomials of logarithm and cosine in single precision",
        means="Samples share their exploration, or repeat it: they are fewer than they look.",
        remedy="Look at the address of exploration's draws: family, member, episode, and age times width.",
        look=look,
        needs=("robot", "ppo"),
    ),
)
