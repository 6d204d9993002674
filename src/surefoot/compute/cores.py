"""How many cores there are, and how torch is told to leave them to us."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import torch

from surefoot.compute.distributed import world_info


def cores() -> int:
    """Cores that this process may use: its share, where torchrun started several."""
    all_of_them = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, all_of_them // world_info().local_world)


def prepare_torch() -> None:
    """One thread per operation: physics and the learner spread whole pieces of work over the cores."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # denormal activations slow a CPU update several times


def warm_up_gpu(device: str) -> None:
    """Lets a GPU get ready (its context takes a third of a second) while the rest is still being imported."""
    if device.startswith("cuda") and torch.cuda.is_available():
        threading.Thread(target=lambda: torch.zeros(1, device=device), daemon=True).start()


def process_seconds() -> float | None:
    """Since this process was started, imports and all; None where the system does not say (not Linux)."""
    try:
        begun = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        up = float(Path("/proc/uptime").read_text().split()[0])
    except OSError:
        return None
    return up - begun / os.sysconf("SC_CLK_TCK")
