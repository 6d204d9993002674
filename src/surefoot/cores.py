"""How many cores there are, and how torch is told to leave them to us."""

from __future__ import annotations

import os

import torch


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def prepare_torch() -> None:
    """One thread per operation: physics and the learner spread whole pieces of work over the cores."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # denormal activations slow a CPU update several times
