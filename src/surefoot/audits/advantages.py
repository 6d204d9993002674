"""Are advantages those of the declared discounts, for every environment and however its episodes end?"""

from __future__ import annotations

import numpy as np
import torch

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found
from surefoot.audits.forms import hold_size
from surefoot.rollout import gae

MOST = 1024
"""Environments, at most."""
ENDED = 0.12
"""Share of steps that end an episode, for each way to end; a real block has few such steps."""
ROUNDING = 1e-4
"""Relative to the largest: single precision, added up over a block; clean runs: below 1e-6."""


def look(case: Case) -> list[Found]:
    """Gives the run's own code a made-up block in which much ends, and adds up what it should be."""
    recipe, g = case.record.recipe, case.numbers("advantages")
    size = (recipe.horizon, min(recipe.envs, MOST))
    reward, value, follows = (g.standard_normal(size).astype(np.float32) for _ in range(3))
    terminated = g.random(size) < ENDED
    truncated = ~terminated & (g.random(size) < ENDED)
    paid, held, after = (torch.from_numpy(x) for x in (reward, value, follows))
    ends, over = torch.from_numpy(terminated), torch.from_numpy(truncated)
    there = gae(paid, held, after, ends, over, recipe.gamma, recipe.lam)
    hold_size("Advantages", there, size, "learning")
    right = summed(reward, value, follows, terminated, truncated, recipe.gamma, recipe.lam)
    off = ~(np.abs(there.double().numpy() - right) <= ROUNDING * np.abs(right).max())
    if not off.any():
        return []
    goes_on = ~(terminated | truncated)
    shares = [100 * off[at].mean() if at.any() else 0.0 for at in (terminated, truncated, goes_on)]
    ended, timed, others = shares
    return [
        Found(
            f"In a made-up block advantages are not the declared sums in {100 * off.any(0).mean():.0f}% of "
            f"environments: in {ended:.0f}% of steps that end in a termination, {timed:.0f}% of those that "
            f"run out of time, {others:.0f}% of others."
        )
    ]


def summed(
    reward: np.ndarray,
    value: np.ndarray,
    follows: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    gamma: float,
    lam: float,
) -> np.ndarray:
    """Returns [T, N] discounted sums of one-step errors, forwards in time, each to its episode's end."""
    reward, value, follows = (x.astype(np.float64) for x in (reward, value, follows))
    error = reward + gamma * np.where(terminated, 0.0, follows) - value
    out = np.zeros_like(error)
    for t in range(len(error)):
        alive, weight = np.ones(error.shape[1], bool), 1.0
        for k in range(t, len(error)):
            out[t] += np.where(alive, weight * error[k], 0.0)
            alive &= ~(terminated[k] | truncated[k])
            weight *= gamma * lam
    return out


DETECTORS = (
    Detector(
        name="advantages",
        kind="proof",
        cause="learning",
        asks="Are advantages the declared sums for every environment, however its episodes end?",
        statistic="a made-up block of as many environments as are trained in, of whose steps a quarter ends "
        "an episode, through the run's own code, against sums of one-step errors in double precision",
        threshold="1e-4 of the largest: rounding of single precision (clean runs: below 1e-6)",
        means="What followed the end of an episode was learned as if it belonged to it, or the reverse.",
        remedy="Look at rollout/advantages.py: what `terminated` and `truncated` cut, and at which step.",
        look=look,
        needs=("ppo",),
        short=True,
    ),
)
