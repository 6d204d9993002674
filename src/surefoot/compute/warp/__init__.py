"""Warp kernels on torch tensors."""

from __future__ import annotations

from surefoot.compute.warp.launch import Launch
from surefoot.compute.warp.start import compiled, kernel_cache, start_warp

__all__ = [
    "Launch",
    "compiled",
    "kernel_cache",
    "start_warp",
]
