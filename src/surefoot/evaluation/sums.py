"""Sums over the steps of episodes that have the same bits for an episode alone and among others."""

from __future__ import annotations

from torch import Tensor


def total(x: Tensor) -> Tensor:
    """Sums [K, T, N] over time, one step after the other: the same bits for an episode alone and among
    others."""
    return x.cumsum(1)[:, -1]


def length(x: Tensor) -> Tensor:
    """Returns the length of the first two components."""
    return (x[..., 0] ** 2 + x[..., 1] ** 2).sqrt()
