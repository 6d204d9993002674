"""Reward terms. Only a function's own source is hashed into the contract: pass numbers as parameters."""

from __future__ import annotations

from torch import Tensor

from surefoot.tasks import View


def prance(v: View, height_m: float) -> Tensor:
    """How high swinging feet are carried, as a share of `height_m`, mean over all feet; 0 when standing."""
    carried = (v.ground.feet / height_m).clamp(0.0, 1.0) * ~v.task.contact
    return carried.mean(1) * v.moving
