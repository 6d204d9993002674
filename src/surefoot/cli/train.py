"""`surefoot plan` and `train`: a run, before it is done and as it is done."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console

from surefoot.cli.fleet_options import NO_FLEET, FleetWords
from surefoot.cli.options import NOTHING_ASKED, RunOptions
from surefoot.cli.parser import Positional
from surefoot.contract import SurefootError
from surefoot.printing import make_console, say

if TYPE_CHECKING:
    from surefoot.sessions import TrainedRun

LIMITS = ("updates", "minutes", "until", "perturb", "sequential", "strict", "keep_block")
"""What a run that goes on may be given anew: when to stop, and how to be judged."""


@dataclass(frozen=True)
class PlanCommand:
    """Print what a run would do, before it does: contract, recipe, accounting, seeds, strata. Writes nothing
    but what --save and --freeze ask for.

    Example: surefoot plan walk-flat --envs 512
    """

    task: Positional[str]
    """Task name (see `surefoot tasks`) or package.module:name of your own."""
    options: RunOptions = NOTHING_ASKED
    save: str | None = None
    """Write task, options and ids to this new file, for `surefoot train --config`."""
    freeze: str | None = None
    """Write the environment manifest to this new file, for --manifest: terrain, ranges, resets, rewards,
    terminations, panel. --save repeats one run, recipe and seed included; --freeze fixes the environment and
    leaves open who learns in it, with what recipe and seed."""
    json: bool = False
    """Print one JSON object instead of tables."""

    def run(self, console: Console) -> int:
        from surefoot.api import plan
        from surefoot.runs import typed

        planned = plan(self.task, **self.options.settings())
        saved = planned.save(self.save) if self.save is not None else None
        frozen = planned.freeze(self.freeze) if self.freeze is not None else None
        if self.json:
            print(json.dumps(planned.as_json(), indent=2))
            return 0
        planned.show(console)
        if saved is not None:
            say(console, f"Train it with: {typed('train', '--config', saved)}")
        if frozen is not None:
            say(console, f"Hold a run to it with: {typed('train', self.task, '--manifest', frozen)}")
        return 0


@dataclass(frozen=True)
class TrainCommand:
    """Train a task, evaluate it on the held-out panel while it learns and at the end, and record everything.

    Stops at the first limit reached. Without --updates, --minutes or --until the task's own limits apply: two
    consecutive evaluations at 98% success on the selection half, or the task's minutes (`surefoot tasks`
    lists them). Those minutes are a limit, the same on every device; a GPU is done long before them.

    Example (under a minute on two cores): surefoot train trot-flat --until 0.95

    Example (go on with a run): surefoot train --resume runs/RUN --minutes 10
    """

    task: Positional[str] = ""
    """Task name (see `surefoot tasks`), package.module:name of your own, or an environment from outside:
    gym:ID, envpool:ID, mjlab:ID (docs/guides/outside.md). Not needed with --resume or --config."""
    options: RunOptions = NOTHING_ASKED
    config: str | None = None
    """Train what `surefoot plan --save` wrote to this file, as it was planned: other options than --out,
    --tracker, --quiet and --json are refused, and so is a plan that has other ids now."""
    manifest: str | None = None
    """Refuse to train in any other environment than the one that `surefoot plan --freeze` wrote to this
    file."""
    fleet: FleetWords = NO_FLEET
    out: str | None = None
    """Run folder to create (default: runs/<task>-<date>-<time>-<id>)."""
    resume: str | None = None
    """Continue this run folder from its latest checkpoint, exactly."""
    tracker: Literal["tensorboard", "wandb", "mlflow", "none"] = "tensorboard"
    """Show the ledger in a dashboard as well; wandb (honours WANDB_MODE) and mlflow (honours
    MLFLOW_TRACKING_URI) are optional extras."""
    quiet: bool = False
    """Do not print the contract and the recipe first."""
    json: bool = False
    """Print the closing summary as one JSON object; progress then goes to stderr."""

    def run(self, console: Console) -> int:
        with frozen_imports():
            from surefoot.compute import local_device, process_seconds, warm_up_gpu

            warm_up_gpu(local_device(self.options.device or "cpu"))
            from surefoot.api import resume, train
            from surefoot.printing import ConsoleObserver

        given, fleet = self.options.settings(), self.fleet.options()
        self._check(given)
        if self.json:
            console = make_console(stderr=True)
        observer = ConsoleObserver(console, with_plan=not self.quiet)
        spent = process_seconds() or 0.0
        if self.resume is not None:
            run = resume(
                self.resume, tracker=self.tracker, progress=observer, spent=spent, fleet=fleet, **given
            )
        else:
            run = train(
                self.task or None,
                config=self.config,
                manifest=self.manifest,
                out=self.out,
                tracker=self.tracker,
                progress=observer,
                spent=spent,
                fleet=fleet,
                **given,
            )
        assert run.outcome is not None
        return print_trained(console, run.outcome, self.json)

    def _check(self, given: dict[str, Any]) -> None:
        """Refuses what does not go together; `given` are the options about the run."""
        if self.resume is not None:
            others = (self.task or self.out or None, self.config, self.manifest)
            if any(o is not None for o in others) or not set(given) <= set(LIMITS):
                raise SurefootError(
                    "--resume continues a run as it was planned; "
                    "give only limits (--updates, --minutes, --until) with it."
                )
        elif self.config is not None:
            named = ["TASK"] * bool(self.task) + [f"--{name.replace('_', '-')}" for name in given]
            if named:
                raise SurefootError(
                    f"--config trains a run as it was planned; leave out {', '.join(named)}, or plan again."
                )
        elif not self.task:
            raise SurefootError(
                "Say what to train, e.g. `surefoot train walk-flat`; `surefoot tasks` lists what there is."
            )


def print_trained(console: Console, trained: TrainedRun, as_json: bool = False) -> int:
    """Prints what came of a run, or why it broke off; returns the exit code. One process of a group does."""
    from surefoot.evidence import judgement
    from surefoot.printing import print_summary
    from surefoot.runs import caveat, load_result, resumable, resume_hint, time_parts

    run, summary = trained.run, trained.summary
    if not trained.is_main:
        return trained.exit_status
    if trained.exit_status:
        try:
            hint = "" if trained.failure or (trained.found and not resumable(run)) else resume_hint(run)
            say(console, ending(trained, hint))
        except OSError:  # the terminal is gone, which is why the run was stopped
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    elif summary is not None and as_json:
        judged = judgement(load_result(run)).as_json()
        more = {"time": asdict(time_parts(run.record)), "caveat": caveat(run), "judgement": judged}
        print(json.dumps({"run_folder": str(run.path)} | summary.model_dump(mode="json") | more, indent=2))
    elif summary is not None:
        folder = (
            run.path / "panels" / run.record.panel / summary.half
        )  # a list grows with looks, and is renamed
        print_summary(console, trained.plan, run, folder, report=trained.report)
    return trained.exit_status


def ending(trained: TrainedRun, hint: str = "") -> str:
    """Says why a run did not get to its end, and `hint`, what to do about it."""
    if trained.found:
        return f"Stopped, as --strict asks. {trained.found} Saved. {hint}".rstrip()
    if trained.stopped is None:
        return trained.failure
    how = "Aborted within an update." if trained.aborted else f"Stopped by {trained.stopped.name}; saved."
    if trained.unconfirmed:
        how = (
            f"Stopped by {trained.stopped.name} in the closing evaluation; training is saved, not confirmed."
        )
    return f"{how} {hint}".rstrip()


@contextmanager
def frozen_imports() -> Iterator[None]:
    """Keeps what is imported inside to the end of the process: nothing of it is garbage, now or later.
    Looking for some in half a million objects would take a tenth of a second, at every capture of a CUDA
    graph for one."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
