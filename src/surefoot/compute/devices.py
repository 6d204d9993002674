"""The devices of this machine."""

from __future__ import annotations

import os
from pathlib import Path

from surefoot.compute.distributed import world_info
from surefoot.contract import SurefootError


def memory_bytes() -> int | None:
    """Returns the memory of this machine, or of the container that this process may use; None where the
    system does not say."""
    try:
        have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(limit).read_text().strip()
        except OSError:
            continue
        have = min(have, int(text)) if text.isdecimal() else have
    return have


def check_device(device: str) -> None:
    """Refuses a device that torch cannot use here, or that has fewer GPUs than processes."""
    import torch

    try:
        kind = torch.device(device).type
    except RuntimeError as error:
        raise SurefootError(f"There is no device '{device}'; use --device cpu or --device cuda.") from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise SurefootError(
            "--device cuda needs a CUDA GPU and a CUDA build of torch, and there is none here; "
            "use --device cpu."
        )
    here = world_info()
    if kind == "cuda" and here.world > 1 and torch.cuda.device_count() < here.local_world:
        gpus = torch.cuda.device_count()
        raise SurefootError(
            f"--device cuda takes a GPU for each process, and this machine has {gpus} for "
            f"{here.local_world}; use --nproc-per-node {gpus}."
        )
    if kind not in ("cpu", "cuda"):
        raise SurefootError(f"Device '{device}' is not supported; use --device cpu or --device cuda.")
