"""Warp kernels on torch tensors: recorded once, launched on torch's current stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import warp as wp
from torch import Tensor

from surefoot.engines.warp import start_warp


class Launch:
    """A kernel with its arguments. Repeating it costs a few microseconds, on a CPU without the interpreter's
    lock, and inside a CUDA graph's capture it is captured. Tensors must keep their addresses."""

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

    def __call__(self) -> None:
        if self._device.type == "cuda":
            self._command.launch(stream=wp.stream_from_torch(torch.cuda.current_stream(self._device)))
        else:
            self._command.launch()
