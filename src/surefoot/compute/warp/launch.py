"""Runs Warp kernels on torch tensors: a launch is recorded once and repeated on torch's current stream."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import warp as wp
from torch import Tensor

from surefoot.compute.warp.start import start_warp


class Launch:
    """A kernel with its arguments. A call costs a microsecond or two, does not hold the interpreter's lock on
    a CPU, and is captured inside a CUDA graph's capture. Its tensors must keep their addresses."""

    def __init__(
        self,
        kernel: Any,
        dim: int,
        inputs: Sequence[Tensor | float],
        device: torch.device,
        block_dim: int = 128,
    ) -> None:
        start_warp()
        self._device = device
        self._kept = inputs  # the command holds addresses only
        kind = f"cuda:{device.index or 0}" if device.type == "cuda" else "cpu"
        arrays = [wp.from_torch(x, requires_grad=False) if isinstance(x, Tensor) else x for x in inputs]
        self._command = wp.launch(
            kernel, dim=dim, inputs=arrays, device=kind, block_dim=block_dim, record_cmd=True
        )
        self._call = self._on_stream if device.type == "cuda" else _packed(self._command)

    def __call__(self) -> None:
        self._call()

    def _on_stream(self) -> None:
        self._command.launch(stream=wp.stream_from_torch(torch.cuda.current_stream(self._device)))


def _packed(command: Any) -> Callable[[], object]:
    """Returns a command for the CPU as one call, with its arguments in the structure that the kernel takes.
    Warp's own `launch` fills that structure again every time, holding the interpreter's lock: ten
    microseconds and more."""
    assert command.block_dim == 1, "a kernel of tiles, which Warp calls differently"
    bounds, *values = command.params
    fields = [(x.label, type(value)) for x, value in zip(command.kernel.adj.args, values, strict=True)]
    arguments = type("Arguments", (ctypes.Structure,), {"_fields_": fields})(*values)
    return partial(command.hooks.forward, ctypes.byref(bounds), ctypes.byref(arguments))
