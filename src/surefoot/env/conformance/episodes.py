"""What environments say of their episodes adds up with what rollouts show."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import torch

from surefoot.env.conformance.scaffold import (
    ENVS,
    Check,
    Make,
    column,
    hold,
    joined,
    live,
    roll,
    stats_of,
)


def check_first_episodes_end_apart(make: Make) -> None:
    """Environments that start together would end together, and reset together for a long time."""
    with closing(make(range(ENVS))) as env:
        ends = torch.cat([r.ends for r in live(env)])
    first = ends.to(torch.uint8).argmax(0)[ends.any(0)]
    hold(ends.any(0), "Every environment ends an episode within an episode's steps.")
    most = int(first.bincount().max())
    hold(most <= ENVS // 2, f"First episodes end apart; here {most} of {ENVS} end in one step.")


def check_scenarios_differ(make: Make) -> None:
    with closing(make(range(ENVS))) as env:
        rows = len(torch.unique(env.content(), dim=0))
        hold(rows == ENVS, f"Each environment has an episode of its own; here {rows} of {ENVS} differ.")


def check_episodes_add_up(make: Make) -> None:
    """Every end is logged once, with its reason, steps and return; every step belongs to an episode."""
    with closing(make(range(ENVS))) as env:
        names, reasons = env.reward_names, len(env.reasons)
        hold(stats_of(env).resets.sum() == ENVS, "Each environment begins one episode when it is made.")
        rolled = live(env, 4.0)
    ends, reason = torch.cat([r.ends for r in rolled]).cpu(), joined(rolled, "reason").cpu()
    logged, shown = (
        np.bincount(x, minlength=reasons) for x in (column(rolled, "reason").astype(int), reason[ends])
    )
    hold((logged == shown).all(), f"Ends are told as rollouts show them, by reason: {logged} for {shown}.")
    order = torch.arange(1, len(ends) + 1)[:, None]
    lasted = (ends * order).amax(0)  # [N] steps up to the last end
    steps = int(column(rolled, "steps").sum())
    hold(steps == int(lasted.sum()), f"Episodes have the steps that were taken: {steps} for {lasted.sum()}.")
    counted = (order <= lasted)[..., None]
    terms = (joined(rolled, "terms").cpu().double() * counted).sum((0, 1))
    for k, name in enumerate(names):
        returned = float(column(rolled, f"return.{name}").sum())
        promise = f"Returns are the sums of reward terms; '{name}' is {returned:g} for {float(terms[k]):g}."
        hold(abs(returned - float(terms[k])) <= 1e-3 * (1 + abs(float(terms[k]))), promise)
    whole, parts = column(rolled, "return"), sum(column(rolled, f"return.{n}") for n in names)
    hold(np.allclose(whole, parts, rtol=1e-3, atol=1e-3), "An episode's return is the sum of its terms'.")


def check_resets_are_counted_by_stratum(make: Make) -> None:
    with closing(make(range(ENVS))) as env:
        stats_of(env)
        rolled = live(env, 4.0)
        following = roll(env)
    ends = torch.cat([r.ends for r in rolled])
    stratum = joined([*rolled, following], "stratum")
    begun = stratum[1 : len(ends) + 1][ends].cpu().numpy()
    resets = np.sum([r.stats.resets for r in rolled], 0)
    shown = np.bincount(begun, minlength=len(resets))
    hold((resets == shown).all(), "Resets are counted by the stratum of an episode's first step.")


def check_everybody_stands_somewhere(make: Make) -> None:
    """Each environment on terrain is in one class and on one level."""
    with closing(make(range(ENVS))) as env:
        occupancy = roll(env).stats.terrain_occupancy
    counted = sum(int(levels.sum()) for levels in occupancy.values())
    hold(not occupancy or counted == ENVS, f"Terrain is occupied by {ENVS} environments; here by {counted}.")


CHECKS: tuple[Check, ...] = (
    check_first_episodes_end_apart,
    check_scenarios_differ,
    check_episodes_add_up,
    check_resets_are_counted_by_stratum,
    check_everybody_stands_somewhere,
)
