"""The processes that train one run together, each with seed families of its own; by default there is one.

torchrun starts them. What every sample adds to (gradients, statistics, counts) is summed where it lies, on
the device; what the run folder gets is gathered on the host by the main process, rank 0. All of them call the
same methods in the same order.

torch is imported where it is used: how this process was started is asked where there is no torch, too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from surefoot.contract import SurefootError

if TYPE_CHECKING:
    from torch import Tensor

TIMEOUT = timedelta(minutes=10)
"""How long a process waits for the others: longer than an evaluation, during which all wait for the main
one."""


@dataclass(frozen=True)
class WorldInfo:
    """Says how this process was started: as one of `world`, of which `local_world` are on this machine."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1


NAMES = {"rank": "RANK", "world": "WORLD_SIZE", "local_rank": "LOCAL_RANK", "local_world": "LOCAL_WORLD_SIZE"}


def world_info(environ: Mapping[str, str] = os.environ) -> WorldInfo:
    """Reads torchrun's variables; without them this is a process of its own."""
    given = {field: environ[name] for field, name in NAMES.items() if name in environ}
    if not given:
        return WorldInfo()
    shown = ", ".join(f"{NAMES[k]}={v}" for k, v in given.items())
    missing = [name for name in NAMES.values() if name not in environ]
    if len(given) == len(NAMES) and all(v.isdecimal() for v in given.values()):
        here = WorldInfo(**{k: int(v) for k, v in given.items()})
        if here.world > 1:
            missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if name not in environ]
        inside = here.rank < here.world and here.local_rank < here.local_world <= here.world
        if inside and not missing:
            return here
    without = f" without {' and '.join(missing)}" if missing else ""
    raise SurefootError(
        f"The environment says {shown}{without}, which torchrun would not; start Surefoot with "
        "`torchrun --nproc-per-node=K -m surefoot train ...`, or unset these variables for one process."
    )


def local_device(device: str) -> str:
    """Returns the device of this process: each process of a machine has a GPU of its own."""
    here = world_info()
    return f"cuda:{here.local_rank}" if here.world > 1 and device.startswith("cuda") else device


class PeerLost(SurefootError):
    """Says that another process of the run is gone, or was not heard of within TIMEOUT."""


class ProcessGroup:
    """A process on its own: there is nothing to wait for, and every sum and list is already complete."""

    rank, world = 0, 1
    capture_mode = "global"
    """How CUDA graphs are captured. NCCL's own thread queries its events at any time, which is allowed only
    during captures that are local to another thread."""

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes, prints and evaluates."""
        return self.rank == 0

    def env_range(self, envs: int) -> range:
        """Returns the environments of this process, of `envs` in all: whole families, contiguous."""
        share = envs // self.world
        return range(self.rank * share, (self.rank + 1) * share)

    # ---- tensors: reduced on their device, without a host synchronisation

    def all_reduce_sum_(self, x: Tensor) -> None:
        """Sums `x` over all processes, in place."""

    def all_reduce_max_(self, x: Tensor) -> None:
        """Takes the largest of all processes' values, element by element, in place."""

    def gather(self, x: Tensor, dim: int = 0) -> Tensor:
        """Concatenates all processes' tensors along `dim`, the dimension of environments."""
        return x

    def std_mean(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns standard deviation and mean of all processes' numbers."""
        import torch

        return torch.std_mean(x)

    def var(self, x: Tensor) -> Tensor:
        """Returns the variance of all processes' numbers."""
        return x.var()

    # ---- Python objects, on the host

    def gather_objects(self, thing: Any) -> list[Any]:
        """Gives the main process what every process has, in the order of ranks; the others get nothing."""
        return [thing]

    def broadcast_object(self, thing: Any) -> Any:
        """Gives every process what the main one has."""
        return thing

    @contextmanager
    def fail_together(self) -> Iterator[None]:
        """Ends all processes where one is refused something; the first refused one says why."""
        yield

    def bind_device(self, device: str) -> None:
        """Prepares reductions on `device`; called once, before the first of them."""

    def shutdown(self) -> None:
        """Leaves the group; called when nothing more is reduced or gathered."""


SINGLE = ProcessGroup()


class TorchGroup(ProcessGroup):
    """One of the processes that torchrun started. It uses gloo on the host and NCCL on GPUs, whose calls can
    be captured in a CUDA graph."""

    capture_mode = "thread_local"

    def __init__(self, here: WorldInfo) -> None:
        import torch.distributed as dist

        self.rank, self.world, self._dist = here.rank, here.world, dist
        self._gpu_group: dist.ProcessGroup | None = None
        try:
            dist.init_process_group("gloo", rank=self.rank, world_size=self.world, timeout=TIMEOUT)
        except (RuntimeError, ValueError) as error:
            where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
            raise SurefootError(
                f"The {self.world} processes of this run did not find each other at {where} "
                f"({_line(error)}); check that torchrun runs on every machine with the same --master-addr."
            ) from error

    def bind_device(self, device: str) -> None:
        if device.startswith("cuda"):
            import torch

            torch.cuda.set_device(device)
            self._gpu_group = self._dist.new_group(backend="nccl", timeout=TIMEOUT)

    def _group(self, x: Tensor) -> Any:
        return self._gpu_group if x.is_cuda else None

    @contextmanager
    def _exchange(self) -> Iterator[None]:
        """Turns gloo's errors (a closed connection, a timeout) into PeerLost."""
        try:
            yield
        except RuntimeError as error:
            raise PeerLost(
                f"Process {self.rank} of {self.world} lost another one of this run ({_line(error)})."
            ) from error

    def all_reduce_sum_(self, x: Tensor) -> None:
        with self._exchange():
            self._dist.all_reduce(x, group=self._group(x))

    def all_reduce_max_(self, x: Tensor) -> None:
        with self._exchange():
            self._dist.all_reduce(x, op=self._dist.ReduceOp.MAX, group=self._group(x))

    def gather(self, x: Tensor, dim: int = 0) -> Tensor:
        import torch

        plain = (x.to(torch.uint8) if x.dtype == torch.bool else x).contiguous()
        parts = [torch.empty_like(plain) for _ in range(self.world)]
        with self._exchange():
            self._dist.all_gather(parts, plain, group=self._group(x))
        return torch.cat(parts, dim).to(x.dtype)

    def std_mean(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, var = self._moments(x)
        return var.sqrt().to(x.dtype), mean.to(x.dtype)

    def var(self, x: Tensor) -> Tensor:
        return self._moments(x)[1].to(x.dtype)

    def _moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns mean and unbiased variance, computed in double precision, where squares can be summed
        directly."""
        import torch

        wide, n = x.double(), self.world * x.numel()
        sums = torch.stack([wide.sum(), (wide * wide).sum()])
        self.all_reduce_sum_(sums)
        mean = sums[0] / n
        return mean, (sums[1] - n * mean * mean).clamp_min(0) / (n - 1)

    def gather_objects(self, thing: Any) -> list[Any]:
        out: list[Any] = [None] * self.world if self.is_main else []
        with self._exchange():
            self._dist.gather_object(thing, out if self.is_main else None)
        return out

    def broadcast_object(self, thing: Any) -> Any:
        box = [thing]
        with self._exchange():
            self._dist.broadcast_object_list(box)
        return box[0]

    @contextmanager
    def fail_together(self) -> Iterator[None]:
        import torch

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
    """Joins the processes that torchrun started together with this one; returns SINGLE without torchrun."""
    here = world_info()
    return TorchGroup(here) if here.world > 1 else SINGLE


def _line(error: BaseException) -> str:
    """Shortens a library's message to its first sentence, without the place in its source."""
    text = re.sub(r"^\[[^\]]*\]\s*", "", str(error).strip()) or type(error).__name__
    return text.splitlines()[0].split(". ")[0].rstrip(".")
