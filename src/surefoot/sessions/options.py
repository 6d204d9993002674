"""What may be asked of a session, and what came of one."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from surefoot.contract import Timeouts
from surefoot.fleet import FleetOptions
from surefoot.runs import RunFolder
from surefoot.statistics import PanelSummary
from surefoot.training import Plan


@dataclass(frozen=True)
class TrainOptions:
    """Says what to train and how to close; what is not given is the task's own."""

    task: str
    """A task's name, package.module:name, or an environment from outside such as gym:ID."""
    overrides: dict[str, Any] = field(default_factory=dict)
    """Recipe fields that are not to be the task's own."""
    seed: int = 1
    engine: str = "auto"
    device: str = "cpu"
    learner: str = "ppo"
    timeouts: Timeouts = "stock"
    success_return: float | None = None
    """The return that makes an episode from outside a success."""
    updates: int | None = None
    """Stop after this many; without any of these three limits the task's own apply."""
    minutes: float | None = None
    """Stop after this much training; evaluation does not count."""
    until: float | None = None
    """Stop when two consecutive evaluations on the selection half reach this success."""
    out: str | None = None
    """Run folder to create; None: a new one in runs/."""
    tracker: str = "none"
    perturb: tuple[str, ...] = ("all",)
    """Columns of the closing evaluation beside the nominal one."""
    baselines: bool = True
    """Whether baselines run on the same panel at the end; they do not where nothing is perturbed."""
    scenarios: int | None = None
    """Scenarios to confirm on, where the panel is drawn; None: as many as it ships with."""
    sequential: bool = False
    """Whether the confirmation half is looked at as it grows, until the verdict is decided."""
    strict: bool = False
    """Whether training stops at the first thing that a live check finds."""
    keep_block: bool = False
    """Whether the last rollout block is kept in the run folder."""
    manifest: str | None = None
    """File of the environment manifest that the run is held to."""
    fleet: FleetOptions | None = None
    """Says who collects; None: this process."""


@dataclass(frozen=True)
class TrainedRun:
    """Says what came of a run."""

    plan: Plan
    run: RunFolder
    summary: PanelSummary | None = None
    """How the chosen checkpoint did on the confirmation half; None where the run did not get there."""
    report: Path | None = None
    stopped: signal.Signals | None = None
    """The signal that ended training before its limits."""
    aborted: bool = False
    """Whether it was stopped within an update, so that only the last checkpoint stands."""
    unconfirmed: bool = False
    """Whether it was stopped in its closing evaluation: training has ended, its result is not confirmed."""
    failure: str = ""
    """Why a library broke off."""
    found: str = ""
    """What a live check found that strict training was ended for."""
    already_there: bool = False
    """Whether the run had ended before, and nothing was done."""
    is_main: bool = True
    """Whether this process is the one of its group that evaluates and writes; the others have no summary."""

    @property
    def exit_status(self) -> int:
        """Returns what a program should exit with, as shells do: 130 after SIGINT, 143 after SIGTERM, 129
        after SIGHUP."""
        if self.stopped is not None:
            return 128 + self.stopped
        return 1 if self.failure or self.found else 0


class ResumeOptions(TypedDict, total=False):
    """What a run that goes on may be asked anew, as in `TrainOptions`. Limits count what was done before; how
    it is judged is as it was asked for at the start, or last, unless it is given."""

    updates: int | None
    minutes: float | None
    until: float | None
    tracker: str
    perturb: tuple[str, ...]
    baselines: bool
    sequential: bool
    strict: bool
    keep_block: bool
    fleet: FleetOptions | None
