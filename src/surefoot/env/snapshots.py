"""Snapshots of environments that several processes have a part of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

SUMMED = ("reset_counts",)
"""What a snapshot has of all environments together; of all else it has a row per environment."""


def join_snapshots(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Returns the snapshot of all environments from those of some, in their order."""
    return {
        k: torch.stack([p[k] for p in parts]).sum(0) if k in SUMMED else torch.cat([p[k] for p in parts])
        for k in parts[0]
    }


def part_of_snapshot(snapshot: Mapping[str, Tensor], part: range) -> dict[str, Tensor]:
    """Returns the snapshot of some environments. What is counted of all together goes to those that begin
    with the first."""
    return {
        k: v * (part.start == 0) if k in SUMMED else v[part.start : part.stop] for k, v in snapshot.items()
    }
