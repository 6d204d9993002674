"""One rollout block as arrays, with the keys of what was drawn in it: what an audit may recompute."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from surefoot.contract import SeedPlan, SurefootError
from surefoot.env import TrainingEnv
from surefoot.rollout import RolloutBlock


def kept_block(
    block: RolloutBlock, env: TrainingEnv, seeds: SeedPlan, part: range, update: int
) -> dict[str, np.ndarray]:
    """Returns the fields of a block that has just been learned from, as `block.<field>` [T, N, ...], and
    where its draws come from: root seed, split, and each environment's number, family, member and episode as
    the block ended. `part` are the numbers of its environments."""
    numbers = np.asarray(part)
    out = {f"block.{f.name}": getattr(block, f.name).cpu().numpy().copy() for f in fields(block)}
    out |= {
        "env": numbers,
        "family": seeds.family_of(numbers),
        "member": seeds.member_of(numbers),
        "root": np.asarray(seeds.root),
        "split": np.asarray(seeds.split),
        "rng_version": np.asarray(seeds.rng_version),
        "update": np.asarray(update),
    }
    try:
        episode = env.snapshot().get("episode")
    except SurefootError:  # a simulator from outside whose state cannot be saved
        episode = None
    out["episode"] = np.full(len(numbers), -1) if episode is None else episode.cpu().numpy().copy()
    return out
