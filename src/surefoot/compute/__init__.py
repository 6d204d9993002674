"""The machine: its cores, threads, devices and processes.

On the ground floor: importing this imports no torch and no Warp; what runs on torch imports it when called.
Warp kernels are in the inner room `surefoot.compute.warp`. Main names: `cores`, `connect`, `ThreadTeam`.
"""

from __future__ import annotations

from surefoot.compute.background import Writer
from surefoot.compute.cores import ONE_CORE, cores, cpu_name, prepare_torch, process_seconds, warm_up_gpu
from surefoot.compute.devices import check_device, memory_bytes
from surefoot.compute.distributed import SINGLE, PeerLost, ProcessGroup, connect, local_device, world_info
from surefoot.compute.host_syncs import SyncCount
from surefoot.compute.packages import missing_package
from surefoot.compute.threads import ThreadTeam, chunk_sizes

__all__ = [
    "ONE_CORE",
    "SINGLE",
    "PeerLost",
    "ProcessGroup",
    "SyncCount",
    "ThreadTeam",
    "Writer",
    "check_device",
    "chunk_sizes",
    "connect",
    "cores",
    "cpu_name",
    "local_device",
    "memory_bytes",
    "missing_package",
    "prepare_torch",
    "process_seconds",
    "warm_up_gpu",
    "world_info",
]
