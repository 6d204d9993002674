"""The cores of this machine: how many there are, and how torch is told to leave them to Surefoot."""

from __future__ import annotations

import os
import platform
import threading
from pathlib import Path

from surefoot.compute.distributed import world_info

ONE_CORE = "SUREFOOT_ONE_CORE"
"""Environment variable of a process that is to use one core, whichever: one of many on its machine."""


def cores() -> int:
    """Returns how many cores this process may use: its share, where torchrun started several."""
    if os.environ.get(ONE_CORE):
        return 1
    all_of_them = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, all_of_them // world_info().local_world)


def cpu_name() -> str:
    """Returns what the processor calls itself: episodes repeat to the bit on the same kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (x.partition(":")[2].strip() for x in lines if x.startswith("model name"))
    return next(names, platform.machine())


def prepare_torch() -> None:
    """Gives torch one thread per operation: physics and the learner spread whole pieces of work over the
    cores themselves."""
    import torch

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # denormal activations slow a CPU update several times


def warm_up_gpu(device: str) -> None:
    """Lets a GPU get ready (its context takes a third of a second) while the rest is still being imported."""
    if not device.startswith("cuda"):
        return
    import torch

    if torch.cuda.is_available():
        threading.Thread(target=lambda: torch.zeros(1, device=device), daemon=True).start()


def process_seconds() -> float | None:
    """Returns the seconds since this process was started, imports included; None where the system does not
    say (not Linux)."""
    try:
        begun = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        up = float(Path("/proc/uptime").read_text().split()[0])
    except OSError:
        return None
    return up - begun / os.sysconf("SC_CLK_TCK")
