"""What a run measures of itself besides its updates: how its process started, how often the host waited for
the device, and the closing figures in run.json."""

from __future__ import annotations

import time
from collections.abc import Mapping

import torch

from surefoot.compute import SyncCount, process_seconds
from surefoot.compute.warp import compiled
from surefoot.training.plan import Plan
from surefoot.training.selection import Progress


class Clock:
    """The wall-clock of a run, over all processes that work on it.

    `spent`: seconds of this process before the run was asked for, its imports.
    """

    def __init__(self, spent: float = 0.0) -> None:
        self._begun = time.perf_counter() - spent
        self._total, self._prepared, self._confirmed = 0.0, 0.0, 0.0
        self._ready: float | None = None

    def resume(self, figures: Mapping[str, float | int | None], elapsed: float = 0.0) -> None:
        """Counts what earlier processes took: as their `figures` say, or the ledger (`elapsed`) where the
        last of them was killed."""
        self._total = max(float(figures.get("total_seconds") or 0.0), elapsed)
        self._prepared = float(figures.get("preparation_seconds") or 0.0)
        self._confirmed = float(figures.get("confirmation_seconds") or 0.0)

    def ready(self, ago: float = 0.0) -> None:
        """Notes that the first update begins, or began some seconds `ago`; later calls change nothing."""
        if self._ready is None:
            self._ready = time.perf_counter() - self._begun - ago

    def elapsed(self) -> float:
        """Returns the seconds since the run began, in all processes."""
        return self._total + time.perf_counter() - self._begun

    def figures(self, confirming: float = 0.0) -> dict[str, float | int | None]:
        """Returns the seconds in all, those before the first update and those of closing evaluations, of
        which this one has taken `confirming`, as run.json has them."""
        now = time.perf_counter() - self._begun
        ready = now if self._ready is None else self._ready
        return {
            "total_seconds": self._total + now,
            "preparation_seconds": self._prepared + ready,
            "confirmation_seconds": self._confirmed + confirming or None,
        }


class ProcessMeasurements:
    """Measures the process that trains a run; nothing of it comes back on resume."""

    def __init__(self, plan: Plan, clock: Clock | None = None) -> None:
        self.syncs = SyncCount(torch.device(plan.device), plan.recipe.horizon)
        self._startup: dict[str, float | int | None] = {}
        self._first_update = 0
        self.clock = clock or Clock()

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
        } | self.clock.figures()
