"""Ray: one on this machine for this run, or the cluster at an address.

On this machine every socket of Ray's is bound to 127.0.0.1, no statistics are sent and there is no dashboard.
Who can reach a cluster's ports can run programs on it; docs/guides/fleet.md says how to close them.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from surefoot.contract import SurefootError

LEAST_STORE = 128 << 20
"""Bytes of shared memory that Ray is given at least."""
SHARED_MEMORY = Path("/dev/shm")
VERSIONS = re.compile(r"Ray: (\S+)\s+Python: (\S+)")
"""In what Ray says where a cluster has other versions than whoever joins it."""
ALONE = {"memory_monitor_refresh_ms": 0, "worker_register_timeout_seconds": 600}
"""Settings of a Ray on this machine: it does not kill actors where memory runs short. It would look at the
whole machine's, whoever uses it, and take the youngest process of its own; the kernel takes who uses most.
And it waits longer for processes that begin: a busy machine takes minutes for many at once."""


def import_ray() -> Any:
    """Imports Ray, with its statistics off; refused in a sentence where it is not installed."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # 15 unless told: actors would wait for all else
    try:
        import ray
    except ImportError as error:
        raise SurefootError(
            f"--actors needs Ray, which cannot be imported here ({error}); pip install 'surefoot[fleet]'."
        ) from error
    return ray


class Cluster:
    """The Ray that a fleet runs on. What was running before is left running by `close`."""

    def __init__(self, address: str | None, processes: int, store_bytes: int) -> None:
        self.ray = import_ray()
        self.folder: str | None = None
        """Where a Ray that was begun here keeps its files while it runs; it is in its processes' names."""
        self._own = not self.ray.is_initialized()
        if not self._own:
            return
        if address is None:
            self._begin(processes, max(LEAST_STORE, store_bytes))
        else:
            self._join(address)
            self._check_store(address, store_bytes)

    def _begin(self, processes: int, store_bytes: int) -> None:
        free = shutil.disk_usage(SHARED_MEMORY).free if SHARED_MEMORY.is_dir() else store_bytes
        if free < store_bytes:
            raise SurefootError(
                f"The fragments of this fleet need {store_bytes / 1e6:.0f} MB of shared memory and "
                f"{free / 1e6:.0f} MB of {SHARED_MEMORY} are free; use fewer --envs or a smaller --max-lag, "
                "or make it larger."
            )
        self.folder = tempfile.mkdtemp(prefix="surefoot-ray-")
        try:
            with _on_loopback(), _found_as_here():
                self.ray.init(
                    address="local",
                    num_cpus=processes,
                    num_gpus=0,
                    object_store_memory=store_bytes,
                    include_dashboard=False,
                    log_to_driver=False,
                    configure_logging=False,
                    logging_level="ERROR",
                    _temp_dir=self.folder,
                    _system_config=ALONE,
                )
        except Exception as error:  # Ray's own are of no kind: "The current node timed out during startup."
            self.close()
            said = (str(error).splitlines() or [type(error).__name__])[0]
            raise SurefootError(
                f"Ray did not start on this machine ({said}); if other work keeps it busy, try again later."
            ) from error

    def _join(self, address: str) -> None:
        host, colon, port = address.removeprefix("ray://").rpartition(":")
        if address != "auto" and not (colon and port.isdecimal()):
            raise SurefootError(f"--ray is '{address}'; give the head node's address, HOST:PORT, or auto.")
        try:
            if colon:
                socket.create_connection((host, int(port)), timeout=5).close()
            self.ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except (OSError, ConnectionError, RuntimeError) as error:
            self.ray.shutdown()  # it may be half in it
            there = VERSIONS.findall(str(error))
            if len(there) == 2:  # theirs, and this process'
                theirs, ours = (f"Ray {ray} and Python {python}" for ray, python in there)
                raise SurefootError(
                    f"The cluster at {address} runs {theirs}, and this process {ours}; install the same on "
                    "all machines of the fleet."
                ) from error
            said = (str(error).splitlines() or [type(error).__name__])[0]
            raise SurefootError(
                f"No Ray cluster answers at {address} ({said}); start one with `ray start --head`, or leave "
                "out --ray for one on this machine."
            ) from error

    def _check_store(self, address: str, store_bytes: int) -> None:
        """Refuses a cluster whose store on the learner's node has no room for what waits there."""
        here = self.ray.get_runtime_context().get_node_id()
        node = next(n for n in self.ray.nodes() if n["NodeID"] == here)
        there = node["Resources"].get("object_store_memory", 0)
        if there < store_bytes:
            self.close()
            raise SurefootError(
                f"The fragments of this fleet need {store_bytes / 1e6:.0f} MB of Ray's object store, and the "
                f"cluster at {address} has {there / 1e6:.0f} MB on this machine; use fewer --envs or a "
                "smaller --max-lag, or start Ray here with a larger --object-store-memory."
            )

    @property
    def cores(self) -> int:
        """The cores of all its nodes, as Ray counts them."""
        return int(self.ray.cluster_resources().get("CPU", 0))

    def close(self) -> None:
        """Ends the Ray that was begun here, with all of its processes."""
        if self._own and self.ray.is_initialized():
            self.ray.shutdown()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Lets Ray take 127.0.0.1 for the address of this machine, as it does on macOS and Windows. Ray has no
    option for that on Linux: it replaces a loopback address that it is given by one that others can
    reach."""
    from ray._private import ray_constants

    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def _found_as_here() -> Iterator[None]:
    """Lets Ray's processes look for modules where this one does: a task may be in the folder that the program
    was started in."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(str(Path(p).resolve()) for p in sys.path)
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
