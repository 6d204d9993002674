"""`surefoot plan` and `train`: a run, before it is done and as it is done."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from tyro.conf import OmitArgPrefixes, Positional

from surefoot.cli.options import UNCHANGED, RecipeOptions
from surefoot.cli.terminal import say
from surefoot.contract import LearnerName, SurefootError, Timeouts

if TYPE_CHECKING:
    from surefoot.training import TrainedRun


@dataclass(frozen=True)
class PlanCommand:
    """Print what a run would do, before it does: contract, recipe, accounting, seeds, strata. Writes
    nothing."""

    task: Positional[str]
    """Task name (see `surefoot tasks`) or package.module:name of your own."""
    options: OmitArgPrefixes[RecipeOptions] = UNCHANGED
    success_return: float | None = None
    """As for `surefoot train`."""
    json: bool = False
    """Print one JSON object instead of tables."""

    def run(self, console: Console) -> int:
        from surefoot.cli.tables import print_plan
        from surefoot.training import make_plan

        o = self.options
        plan = make_plan(
            self.task,
            overrides=o.overrides(),
            seed=o.seed,
            engine=o.engine,
            device=o.device,
            success_return=self.success_return,
        )
        if self.json:
            print(json.dumps(plan.as_json(), indent=2))
        else:
            print_plan(console, plan)
        return 0


@dataclass(frozen=True)
class TrainCommand:
    """Train a task, evaluate it on the held-out panel while it learns and at the end, and record everything.

    Stops at the first limit reached. Without --updates, --minutes or --until the task's own limits apply: two
    consecutive evaluations at 98% success on the selection half, or the task's minutes (walk-flat 6,
    trot-flat 4, walk-rough 20; `surefoot plan` shows a task's).
    """

    task: Positional[str] = ""
    """Task name (see `surefoot tasks`), package.module:name of your own, or an environment from outside:
    gym:ID, envpool:ID, mjlab:ID (docs/outside.md). Not needed with --resume."""
    options: OmitArgPrefixes[RecipeOptions] = UNCHANGED
    updates: int | None = None
    """Stop after this many updates in all (resumed ones included)."""
    minutes: float | None = None
    """Stop after this many minutes of training; evaluation time does not count."""
    until: float | None = None
    """Stop when two consecutive evaluations on the selection half reach this success, e.g. 0.95."""
    learner: LearnerName = "ppo"
    """Who learns: Surefoot's own PPO, or a library (optional extras, see docs/learners.md)."""
    timeouts: Timeouts = "stock"
    """Episodes that run out of time: as the library treats them, or bootstrapped from their final observation
    where the library does not. Surefoot's own PPO always does, and refuses corrected."""
    success_return: float | None = None
    """Return that makes an episode of an environment from outside a success (default: what it registers as
    its reward threshold, else to last to its time limit)."""
    out: str | None = None
    """Run folder to create (default: runs/<task>-<date>-<time>-<id>)."""
    resume: str | None = None
    """Continue this run folder from its latest checkpoint, exactly."""
    tracker: Literal["tensorboard", "wandb", "mlflow", "none"] = "tensorboard"
    """Show the ledger in a dashboard as well; wandb (honours WANDB_MODE) and mlflow (honours
    MLFLOW_TRACKING_URI) are optional extras."""
    perturb: tuple[str, ...] = ("all",)
    """Columns of the closing evaluation beside the nominal one: all, perturbations by name (see `surefoot
    evaluate`), or none, which leaves out the baselines too."""
    quiet: bool = False
    """Do not print the contract and the recipe first."""
    json: bool = False
    """Print the closing summary as one JSON object; progress then goes to stderr."""

    def run(self, console: Console) -> int:
        with frozen_imports():
            from surefoot.compute import local_device, process_seconds, warm_up_gpu

            warm_up_gpu(local_device(self.options.device))
            from surefoot.cli.display import ConsoleObserver
            from surefoot.training import TrainOptions, resume, train

        if self.json:
            console = Console(stderr=True)
        observer = ConsoleObserver(console, with_plan=not self.quiet)
        spent = process_seconds() or 0.0
        if self.resume is not None:
            changed = self.options != UNCHANGED or self.success_return is not None
            other = self.learner != "ppo" or self.timeouts != "stock"
            if self.task or self.out or changed or other:
                raise SurefootError(
                    "--resume continues a run as it was planned; "
                    "give only limits (--updates, --minutes, --until) with it."
                )
            trained = resume(
                self.resume,
                observer,
                updates=self.updates,
                minutes=self.minutes,
                until=self.until,
                tracker=self.tracker,
                perturb=self.perturb,
                spent=spent,
            )
            return print_trained(console, trained, self.json)
        if not self.task:
            raise SurefootError(
                "Say what to train, e.g. `surefoot train walk-flat`; `surefoot tasks` lists what there is."
            )
        o = self.options
        options = TrainOptions(
            task=self.task,
            overrides=o.overrides(),
            seed=o.seed,
            engine=o.engine,
            device=o.device,
            learner=self.learner,
            timeouts=self.timeouts,
            success_return=self.success_return,
            updates=self.updates,
            minutes=self.minutes,
            until=self.until,
            out=self.out,
            tracker=self.tracker,
            perturb=self.perturb,
        )
        return print_trained(console, train(options, observer, spent=spent), self.json)


def print_trained(console: Console, trained: TrainedRun, as_json: bool = False) -> int:
    """Prints what came of a run, or why it broke off; returns the exit code. One process of a group does."""
    from surefoot.cli.tables import print_summary
    from surefoot.runs import caveat, resume_hint, time_parts

    run, summary = trained.run, trained.summary
    if not trained.is_main:
        return trained.exit_status
    if trained.exit_status:
        try:
            say(console, ending(trained, "" if trained.failure else resume_hint(run)))
        except OSError:  # the terminal is gone, which is why the run was stopped
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    elif summary is not None and as_json:
        more = {"time": asdict(time_parts(run.record)), "caveat": caveat(run)}
        print(json.dumps({"run_folder": str(run.path)} | summary.model_dump(mode="json") | more, indent=2))
    elif summary is not None:
        print_summary(console, trained.plan, run, summary, report=trained.report)
    return trained.exit_status


def ending(trained: TrainedRun, hint: str = "") -> str:
    """Says why a run did not get to its end, and `hint`, what to do about it."""
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
