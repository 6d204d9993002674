"""Counts how often the host waits for the device, as torch notices it. On a CPU there is nothing to count."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

COUNTED_UPDATE = 5
"""The update that is counted: late enough for everything to be compiled and captured."""
_SAYS = "synchronizing CUDA operation"


class SyncCount:
    """Counts the waits of one update of `steps` control steps; `per_step` is None before it, and without
    CUDA."""

    def __init__(self, device: torch.device, steps: int) -> None:
        self._cuda, self._steps = device.type == "cuda", steps
        self._catcher: warnings.catch_warnings[list[warnings.WarningMessage]] | None = None
        self._caught: list[warnings.WarningMessage] = []
        self.per_step: float | None = None

    def before(self, update: int) -> None:
        if not self._cuda or update != COUNTED_UPDATE:
            return
        import torch

        self._catcher = warnings.catch_warnings(record=True)
        self._caught = self._catcher.__enter__()
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")

    def after(self, update: int) -> None:
        if self._catcher is None:
            return
        import torch

        torch.cuda.set_sync_debug_mode("default")
        self._catcher.__exit__(None, None, None)
        self._catcher = None
        self.per_step = sum(_SAYS in str(w.message) for w in self._caught) / self._steps
