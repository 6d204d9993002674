"""The machine: its cores, threads, devices and processes."""

from __future__ import annotations

from surefoot.compute.background import Writer
from surefoot.compute.cores import cores, prepare_torch, process_seconds, wake
from surefoot.compute.devices import check_device
from surefoot.compute.distributed import ALONE, Fellows, Lost, join, launched, local_device
from surefoot.compute.host_syncs import SyncCount
from surefoot.compute.threads import Crew, shares

__all__ = [
    "ALONE",
    "Crew",
    "Fellows",
    "Lost",
    "SyncCount",
    "Writer",
    "check_device",
    "cores",
    "join",
    "launched",
    "local_device",
    "prepare_torch",
    "process_seconds",
    "shares",
    "wake",
]
