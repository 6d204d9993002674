"""Is what training adds to its mean actions the noise of each step's key, of the size that the policy has?"""

from __future__ import annotations

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.iterated import Iterated, iterated
from surefoot.audits.slow_noise import exploration

ROUNDING = 1e-4
"""Allowance for actions and normals in single precision, relative to 1 + size; clean runs: below 3e-6."""


def look(case: Case) -> list[Found]:
    """Works out the exploration of two collected blocks by the keys of their steps."""
    found = []
    for it in iterated(case):
        expected = drawn(case, it)
        std = np.exp(it.policy.log_std)
        mean, action = it.block["mean"].astype(np.float64), it.block["action"].astype(np.float64)
        right = mean + std * expected
        off = (np.abs(action - right) > ROUNDING * (1 + np.abs(right))).any(2)
        off[0] = False  # drawn before ages were set
        if off.any():
            z = (action - mean) / std
            z, expected = z[off], expected[off]
            size = float(np.sqrt(np.mean(z**2) / np.mean(expected**2)))
            along = float(np.sum(z * expected) / np.sum(expected**2))
            share = f"in {100 * off[1:].mean():.0f}% of samples"
            found.append(
                Found(
                    f"Exploration is not that of its steps' keys {share}: its size is {size:.2f} of the "
                    f"policy's, and {along:.2f} of it as drawn."
                )
            )
    return found[:1]


def drawn(case: Case, it: Iterated) -> np.ndarray:
    """Returns standard normals [T, N, A] of every step, by family, member, episode and age."""
    plan = case.plan.seeds.model_copy(update={"root": 2**31 + case.seed})
    envs, size = case.chosen(), it.block["action"].shape[2]
    family, member = envs // plan.envs_per_family, envs % plan.envs_per_family
    steps = (s.before for s in it.steps)
    return np.stack([exploration(plan, (family, member, b["episode"]), size, b["task.age"]) for b in steps])


DETECTORS = (
    Detector(
        name="exploration",
        kind="proof",
        cause="learning",
        asks="Is what training adds to its mean actions the noise of each step's key, of the policy's size?",
        statistic="actions of two collected blocks against mean plus standard deviation times normals by "
        "family, member, episode and step",
        threshold="1e-4 of 1 + size (clean runs: below 3e-6): rounding of single precision",
        means="Samples do not have the probabilities that the update takes them to have, or share noise.",
        remedy="Compare the exploration of the rollout with `mean + exp(log_std) * normal` and its key.",
        look=look,
        needs=("robot", "ppo"),
    ),
)
