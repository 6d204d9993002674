"""Keyed randomness: the same draws as `contract.seeds`, for tensors and as kernel text."""

from __future__ import annotations

from surefoot.keyed.cpp import draws
from surefoot.keyed.torch import Draw, Keyed, box_muller

__all__ = [
    "Draw",
    "Keyed",
    "box_muller",
    "draws",
]
