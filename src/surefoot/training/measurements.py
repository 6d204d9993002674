"""What a run measures of itself besides its updates: how its process started, how often the host waited for
the device, and the closing figures in run.json."""

from __future__ import annotations

import torch

from surefoot.compute import SyncCount, process_seconds
from surefoot.compute.warp import compiled
from surefoot.training.plan import Plan
from surefoot.training.selection import Progress


class ProcessMeasurements:
    """Measures the process that trains a run; nothing of it comes back on resume."""

    def __init__(self, plan: Plan) -> None:
        self.syncs = SyncCount(torch.device(plan.device), plan.recipe.horizon)
        self._startup: dict[str, float | int | None] = {}
        self._first_update = 0

    def updated(self, number: int) -> None:
        """Takes the seconds from the start of this process to the end of its first update, and the kernel
        modules that it compiled for that; none of those: a warm start."""
        if not self._startup:
            self._startup = {"seconds.startup": process_seconds(), "startup.compiled": compiled()}
            self._first_update = number

    def startup(self, number: int) -> dict[str, float | int | None]:
        """Returns what the ledger's row of update `number` says about the start; only the first does."""
        return self._startup if number == self._first_update else {}

    def figures(self, plan: Plan, progress: Progress, chosen: str) -> dict[str, float | int | None]:
        """Returns the figures of run.json, where the result is stated on the checkpoint `chosen`."""
        p, samples = progress, plan.accounting.samples_per_update * progress.update
        return {
            "updates": p.update,
            "samples": samples,
            "train_seconds": p.train_seconds,
            "evaluation_seconds": p.evaluation_seconds,
            "steps_per_second": samples / p.train_seconds if p.train_seconds else None,
            "best_selection_success": p.best if p.best >= 0 else None,
            "best_update": p.best_update,
            "chosen_update": p.best_update if chosen == "best" else p.update,
            "startup_seconds": self._startup.get("seconds.startup"),
            "startup_compiled": self._startup.get("startup.compiled"),
            "host_syncs_per_step": self.syncs.per_step,
        }
