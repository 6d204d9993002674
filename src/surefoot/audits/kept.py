"""The rollout block that an audit leaves behind: what it lived, for whoever doubts what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from surefoot.audits.case import Case
from surefoot.runs import RunFolder, save_block

if TYPE_CHECKING:
    from surefoot.audits.iterated import Iterated


def keep_block(run: RunFolder, case: Case) -> None:
    """Keeps the first block that an audit lived, where one of its detectors lived any; a block that training
    kept stays."""
    lived: list[Iterated] | None = case.made("iterated")
    if not lived:
        return
    first, seeds = lived[0], case.probe_seeds
    numbers = case.chosen()
    arrays: dict[str, np.ndarray] = {f"block.{k}": v for k, v in first.block.items()}
    arrays |= {
        "env": numbers,
        "family": seeds.family_of(numbers),
        "member": seeds.member_of(numbers),
        "episode": first.steps[-1].after["episode"],
        "root": np.asarray(seeds.root),
        "split": np.asarray(seeds.split),
        "rng_version": np.asarray(seeds.rng_version),
        "update": np.asarray(run.record.figures.get("updates") or 0),
    }
    save_block(run, arrays, source="audit")
