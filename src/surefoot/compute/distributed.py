"""The processes that train one run together, each with seed families of its own; by default there is one.

torchrun starts them. What every sample adds to (gradients, statistics, counts) is summed where it lies, on
the device; what the run folder gets is collected by the lead, rank 0, on the host. All of them call the same
methods in the same order.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor

from surefoot.contract import SurefootError

PATIENCE = timedelta(minutes=10)
"""For which a process waits for the others: longer than an evaluation, during which all wait for the lead."""


@dataclass(frozen=True)
class WorldInfo:
    """How this process was started: as one of `world`, of which `local_world` are on this machine."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1


NAMES = {"rank": "RANK", "world": "WORLD_SIZE", "local_rank": "LOCAL_RANK", "local_world": "LOCAL_WORLD_SIZE"}


def world_info(environ: Mapping[str, str] = os.environ) -> WorldInfo:
    """What torchrun's variables say; nothing of them: a process of its own."""
    found = {field: environ[name] for field, name in NAMES.items() if name in environ}
    if not found:
        return WorldInfo()
    said = ", ".join(f"{NAMES[k]}={v}" for k, v in found.items())
    missing = [name for name in NAMES.values() if name not in environ]
    if len(found) == len(NAMES) and all(v.isdecimal() for v in found.values()):
        here = WorldInfo(**{k: int(v) for k, v in found.items()})
        if here.world > 1:
            missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if name not in environ]
        inside = here.rank < here.world and here.local_rank < here.local_world <= here.world
        if inside and not missing:
            return here
    without = f" without {' and '.join(missing)}" if missing else ""
    raise SurefootError(
        f"The environment says {said}{without}, which torchrun would not; start Surefoot with "
        "`torchrun --nproc-per-node=K -m surefoot train ...`, or unset these variables for one process."
    )


def local_device(device: str) -> str:
    """A GPU of its own for every process of this machine."""
    here = world_info()
    return f"cuda:{here.local_rank}" if here.world > 1 and device.startswith("cuda") else device


class PeerLost(SurefootError):
    """Another process of the run is gone, or has not been heard of for PATIENCE."""


class ProcessGroup:
    """A process on its own: nothing to wait for, and all of everything is here."""

    rank, world = 0, 1
    capture_mode = "global"
    """Of CUDA graphs. NCCL's own thread asks about its events at any time, which only other threads' captures
    forgive."""

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes, prints and evaluates."""
        return self.rank == 0

    def env_range(self, envs: int) -> range:
        """The environments of this process, of `envs` in all: whole families, one after the other."""
        share = envs // self.world
        return range(self.rank * share, (self.rank + 1) * share)

    # ---- tensors, on their device, which is not asked anything

    def all_reduce_sum_(self, x: Tensor) -> None:
        """Over all processes, in place."""

    def all_reduce_max_(self, x: Tensor) -> None:
        """Of all processes, in place."""

    def gather(self, x: Tensor, dim: int = 0) -> Tensor:
        """All processes' tensors, one after the other along the dimension of environments."""
        return x

    def std_mean(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Of all processes' numbers."""
        return torch.std_mean(x)

    def var(self, x: Tensor) -> Tensor:
        return x.var()

    # ---- things, on the host

    def gather_objects(self, thing: Any) -> list[Any]:
        """For the lead what every process has, in the order of ranks; for the others nothing."""
        return [thing]

    def broadcast_object(self, thing: Any) -> Any:
        """What the lead has."""
        return thing

    @contextmanager
    def fail_together(self) -> Iterator[None]:
        """What is refused to one process is refused to all; the first of those says why."""
        yield

    def bind_device(self, device: str) -> None:
        """Before anything on `device` is done together."""

    def shutdown(self) -> None:
        """When there is nothing more to do together."""


SINGLE = ProcessGroup()


class TorchGroup(ProcessGroup):
    """One of the processes that torchrun started: gloo for what is on the host, NCCL for what is on a GPU,
    whose calls can be captured in a CUDA graph."""

    capture_mode = "thread_local"

    def __init__(self, here: WorldInfo) -> None:
        import torch.distributed as dist

        self.rank, self.world, self._dist = here.rank, here.world, dist
        self._on_gpus: dist.ProcessGroup | None = None
        try:
            dist.init_process_group("gloo", rank=self.rank, world_size=self.world, timeout=PATIENCE)
        except (RuntimeError, ValueError) as error:
            where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
            raise SurefootError(
                f"The {self.world} processes of this run did not find each other at {where} "
                f"({_line(error)}); check that torchrun runs on every machine with the same --master-addr."
            ) from error

    def bind_device(self, device: str) -> None:
        if device.startswith("cuda"):
            torch.cuda.set_device(device)
            self._on_gpus = self._dist.new_group(backend="nccl", timeout=PATIENCE)

    def _group(self, x: Tensor) -> Any:
        return self._on_gpus if x.is_cuda else None

    @contextmanager
    def _meeting(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # gloo's, of a closed connection or of patience that ran out
            raise PeerLost(
                f"Process {self.rank} of {self.world} lost another one of this run ({_line(error)})."
            ) from error

    def all_reduce_sum_(self, x: Tensor) -> None:
        with self._meeting():
            self._dist.all_reduce(x, group=self._group(x))

    def all_reduce_max_(self, x: Tensor) -> None:
        with self._meeting():
            self._dist.all_reduce(x, op=self._dist.ReduceOp.MAX, group=self._group(x))

    def gather(self, x: Tensor, dim: int = 0) -> Tensor:
        plain = (x.to(torch.uint8) if x.dtype == torch.bool else x).contiguous()
        parts = [torch.empty_like(plain) for _ in range(self.world)]
        with self._meeting():
            self._dist.all_gather(parts, plain, group=self._group(x))
        return torch.cat(parts, dim).to(x.dtype)

    def std_mean(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, var = self._moments(x)
        return var.sqrt().to(x.dtype), mean.to(x.dtype)

    def var(self, x: Tensor) -> Tensor:
        return self._moments(x)[1].to(x.dtype)

    def _moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and unbiased variance; in double precision, where squares can be summed as they are."""
        wide, n = x.double(), self.world * x.numel()
        sums = torch.stack([wide.sum(), (wide * wide).sum()])
        self.all_reduce_sum_(sums)
        mean = sums[0] / n
        return mean, (sums[1] - n * mean * mean).clamp_min(0) / (n - 1)

    def gather_objects(self, thing: Any) -> list[Any]:
        out: list[Any] = [None] * self.world if self.is_main else []
        with self._meeting():
            self._dist.gather_object(thing, out if self.is_main else None)
        return out

    def broadcast_object(self, thing: Any) -> Any:
        box = [thing]
        with self._meeting():
            self._dist.broadcast_object_list(box)
        return box[0]

    @contextmanager
    def fail_together(self) -> Iterator[None]:
        refusal: SurefootError | None = None
        try:
            yield
        except SurefootError as error:
            refusal = error
        refused = self.gather(torch.tensor([refusal is not None])).tolist()
        if refusal is not None and refused.index(True) == self.rank:
            raise refusal
        if any(refused):
            raise SystemExit(2)

    def shutdown(self) -> None:
        self._dist.destroy_process_group()


def connect() -> ProcessGroup:
    """The processes that torchrun started this one with; SINGLE without torchrun."""
    here = world_info()
    return TorchGroup(here) if here.world > 1 else SINGLE


def _line(error: BaseException) -> str:
    """What a library said, without the place in its source and its advice."""
    said = re.sub(r"^\[[^\]]*\]\s*", "", str(error).strip()) or type(error).__name__
    return said.splitlines()[0].split(". ")[0].rstrip(".")
