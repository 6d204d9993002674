"""`surefoot plan`, `train` and `evaluate`: a run from what it would do to what it can do."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from tyro.conf import OmitArgPrefixes, Positional

from surefoot.cli.options import UNCHANGED, RecipeOptions
from surefoot.contract import LearnerName, SurefootError, Timeouts


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
    """Of an environment from outside: the return that makes an episode a success (default: what it
    registers as its reward threshold, else to last to its time limit)."""
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
            from surefoot.compute import local_device, warm_up_gpu

            warm_up_gpu(local_device(self.options.device))
            from surefoot.training import resume_run, start_run

        if self.json:
            console = Console(stderr=True)
        if self.resume is not None:
            changed = self.options != UNCHANGED or self.success_return is not None
            other = self.learner != "ppo" or self.timeouts != "stock"
            if self.task or self.out or changed or other:
                raise SurefootError(
                    "--resume continues a run as it was planned; "
                    "give only limits (--updates, --minutes, --until) with it."
                )
            return resume_run(
                console,
                self.resume,
                self.updates,
                self.minutes,
                self.until,
                self.tracker,
                self.perturb,
                self.json,
            )
        if not self.task:
            raise SurefootError(
                "Say what to train, e.g. `surefoot train walk-flat`; `surefoot tasks` lists what there is."
            )
        o = self.options
        return start_run(
            console,
            self.task,
            o.overrides(),
            o.seed,
            o.engine,
            o.device,
            self.updates,
            self.minutes,
            self.until,
            self.out,
            self.tracker,
            self.quiet,
            self.perturb,
            self.json,
            self.learner,
            self.timeouts,
            success_return=self.success_return,
        )


@contextmanager
def frozen_imports() -> Iterator[None]:
    """Imports what stays to the end of the process: nothing of it is garbage, now or later. Looking for some
    in half a million objects would take a tenth of a second, at every capture of a CUDA graph for one."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@dataclass(frozen=True)
class EvaluateCommand:
    """Evaluate a run's policy on a held-out panel: one pass a column, deterministic actions, every episode a
    row on disk.

    Columns are the panel's own scenarios, with the same keys, under a perturbation; baselines run on the same
    panel.
    """

    run_folder: Positional[str]
    """Run folder, as `surefoot train` printed it."""
    panel: str | None = None
    """Panel name or file (default: the task's)."""
    half: str = "confirmation"
    """Which half: confirmation, selection (the one that training looked at) or all."""
    engine: str = "auto"
    """auto: the nominal column on mujoco, the others on the fastest engine that can take the robot. Another
    name: all columns on it, and how far its nominal column agrees with mujoco's (sim-to-sim)."""
    checkpoint: str = "confirmed"
    """confirmed (what the run's result is stated on), best, latest, a checkpoint file of this run, or a
    baseline: baseline:hold-pose, baseline:random, baseline:open-loop-trot."""
    perturb: tuple[str, ...] = ("all",)
    """all, none, perturbations (noise, delay in s, friction, payload in kg, push in m/s, strength, dropout;
    on terrain: curbs, stones) or columns at any strength (friction_0.25, delay_60ms, payload_+2kg)."""
    sweep: bool = False
    """Every declared strength of the chosen perturbations, for curves of success against strength."""
    baselines: bool = True
    """Whether hold-pose, random and open-loop-trot run on the same panel."""
    json: bool = False
    """Print the summary as one JSON object."""

    def run(self, console: Console) -> int:
        from surefoot.training import evaluate_run

        summary = evaluate_run(
            console,
            self.run_folder,
            self.panel,
            self.half,
            self.engine,
            self.checkpoint,
            self.perturb,
            self.sweep,
            self.baselines,
            quiet=self.json,
        )
        if self.json:
            print(json.dumps(summary.model_dump(mode="json"), indent=2))
        return 0
