"""Train legged robots in thousands of parallel environments, and prove what they learned."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.markup import escape
from tyro.conf import OmitArgPrefixes, Positional

from surefoot.cli_lab import LabCommand
from surefoot.cli_recipe import UNCHANGED, RecipeOptions
from surefoot.cli_replay import ReplayCommand
from surefoot.cli_study import StudyCommands
from surefoot.contract import SurefootError


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
        from surefoot.plan import make_plan
        from surefoot.tables import print_plan

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
    learner: Literal["ppo", "rsl_rl", "skrl", "rl_games", "sb3", "tianshou", "cleanrl"] = "ppo"
    """Who learns: Surefoot's own PPO, or a library (optional extras, see docs/learners.md)."""
    timeouts: Literal["stock", "corrected"] = "stock"
    """Episodes that run out of time: as the library treats them, or bootstrapped from their final observation
    where the library does not. Surefoot's own PPO always does."""
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
        with lasting():
            from surefoot.cores import wake
            from surefoot.fellows import local_device

            wake(local_device(self.options.device))
            from surefoot.commands import resume_run, start_run

        if self.json:
            console = Console(stderr=True)
        if self.resume is not None:
            changed = self.options != UNCHANGED or self.success_return is not None
            if self.task or self.out or changed or self.learner != "ppo":
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
        from surefoot.evaluating import evaluate_run

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


@dataclass(frozen=True)
class CompareCommand:
    """Compare runs on the scenarios that they share: paired differences with intervals, by stratum.

    Every run is compared with the first. Runs that were not measured alike (another construct id) are
    refused with exit code 3 and the fields that differ; training may differ in anything and is shown.
    """

    run_folders: Positional[tuple[str, ...]]
    """Run folders, two or more; the first is A."""
    panel_half: str = "confirmation"
    """Which half: confirmation, selection or all (which needs `surefoot evaluate --half all` first)."""
    column: str = "nominal"
    """Which pass over the panel: nominal, or a perturbation such as friction_0.3."""
    shared_panel: bool = False
    """Where only the panel differs: compare on the scenarios that both have."""
    json: bool = False
    """Print one JSON list, an object per comparison."""

    def run(self, console: Console) -> int:
        from surefoot.comparing import compare_runs

        return compare_runs(
            console, self.run_folders, self.panel_half, self.column, self.shared_panel, self.json
        )


@dataclass(frozen=True)
class CompareLearnersCommand:
    """Train a task with several learners and seeds, and compare them: same environments, same samples, same
    panel.

    Writes a run folder for each, and comparison.json, .csv, .svg and .html beside them. Runs that are there
    already are not trained again, so an interrupted comparison goes on when it is started again.
    """

    task: Positional[str]
    """Task name (see `surefoot tasks`) or package.module:name of your own."""
    options: OmitArgPrefixes[RecipeOptions] = UNCHANGED
    learners: tuple[str, ...] = ("ppo", "rsl_rl", "skrl", "rl_games", "sb3", "tianshou", "cleanrl")
    """Who learns, e.g. --learners ppo rsl_rl sb3."""
    seeds: int = 3
    """Training seeds of each learner, from --seed on: the outer cluster of every interval."""
    updates: int = 200
    """Updates of each run; with the recipe's T x N the sample budget that all share."""
    perturb: tuple[str, ...] = ("push", "delay", "friction")
    """Disturbances to judge beside the nominal panel: perturbations or columns by name, all, or none."""
    timeouts: Literal["stock", "corrected"] = "stock"
    """As for `surefoot train`, for every library that it is wrong in."""
    out: str | None = None
    """Folder for the runs and the comparison (default: runs/learners-<task>)."""
    json: bool = False
    """Print the comparison as one JSON object."""

    def run(self, console: Console) -> int:
        from surefoot.comparing_learners import compare_all

        o = self.options
        return compare_all(
            Console(stderr=True) if self.json else console,
            self.task,
            self.learners,
            self.seeds,
            o.overrides(),
            o.seed,
            o.engine,
            o.device,
            self.updates,
            self.perturb,
            self.timeouts,
            self.out or f"runs/learners-{self.task.split(':')[-1]}",
            self.json,
        )


@dataclass(frozen=True)
class PromoteCommand:
    """Decide whether a candidate may replace a baseline run: only if it is better under held-out disturbances
    and on a second simulator, both at once, scenario by scenario, and works by itself.

    Exit code 0: promoted. 1: not promoted. 3: not measured alike.
    """

    candidate: Positional[str]
    """Run folder of the candidate."""
    baseline: Positional[str]
    """Run folder of what it would replace."""
    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self, console: Console) -> int:
        from surefoot.promoting import promote_run

        return promote_run(console, self.candidate, self.baseline, self.json)


@dataclass(frozen=True)
class PostmortemCommand:
    """Write a run's postmortem: five sentences, each tied to a figure of an artifact, and two failures."""

    run_folder: Positional[str]
    """Run folder, as `surefoot train` printed it."""
    json: bool = False
    """Print the sentences with their evidence as one JSON object."""

    def run(self, console: Console) -> int:
        from surefoot.postmortems import postmortem_run

        return postmortem_run(console, self.run_folder, self.json)


@dataclass(frozen=True)
class ReportCommand:
    """Write one self-contained HTML page about a run, or about several side by side. Opens from disk and
    needs no network."""

    run_folders: Positional[tuple[str, ...]]
    """Run folders, as `surefoot train` printed them."""
    out: str | None = None
    """File to write (default: report.html in the first run's folder)."""
    dollars_per_hour: float | None = None
    """Price of this machine, to state what the run cost."""

    def run(self, console: Console) -> int:
        from surefoot.report import write_report

        path = write_report(self.run_folders, self.out, self.dollars_per_hour)
        size = path.stat().st_size / 1e6
        console.print(f"{path} ({size:.1f} MB)", highlight=False, markup=False, soft_wrap=True)
        return 0


@dataclass(frozen=True)
class ServeCommand:
    """Serve the reports of all runs, with an index and comparisons. Read-only."""

    runs: str = "runs"
    """Folder of run folders."""
    port: int = 8642
    """Port to listen on; 0 takes a free one."""
    host: str = "127.0.0.1"
    """Address to listen on. Anything but this machine's own lets others read your runs."""
    dollars_per_hour: float | None = None
    """Price of this machine, to state what runs cost."""

    def run(self, console: Console) -> int:
        from surefoot.report import make_server

        server = make_server(self.runs, self.host, self.port, self.dollars_per_hour)
        console.print(f"{server.url} serves {self.runs}; stop with Ctrl-C.", highlight=False, soft_wrap=True)
        console.file.flush()  # whoever reads this through a pipe must see it before the server ends
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
        finally:
            server.server_close()
        return 0


@dataclass(frozen=True)
class TrackCommand:
    """Show a run's ledger in a dashboard, as `train --tracker` does while it trains."""

    run_folder: Positional[str]
    """Run folder, as `surefoot train` printed it."""
    tracker: Literal["tensorboard", "wandb", "mlflow"] = "tensorboard"
    """Which one; what it was shown of this run before is replaced."""

    def run(self, console: Console) -> int:
        from surefoot.commands import track_run

        return track_run(console, self.run_folder, self.tracker)


@dataclass(frozen=True)
class TasksCommand:
    """List the tasks that can be trained, built in and from installed packages."""

    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self, console: Console) -> int:
        from surefoot.tables import print_tasks

        print_tasks(console, self.json)
        return 0


@dataclass(frozen=True)
class EnginesCommand:
    """List the simulators, what each is for, and what stride can and cannot represent."""

    json: bool = False
    """Print one JSON object instead of tables."""

    def run(self, console: Console) -> int:
        from surefoot.tables import print_engines

        print_engines(console, self.json)
        return 0


@dataclass(frozen=True)
class PanelMakeCommand:
    """Regenerate a shipped panel, bit for bit, into a file."""

    name: Positional[str]
    """Panel name, e.g. walk-flat-v1."""
    out: str | None = None
    """File to write (default: <name>.json here). An existing file is only replaced if it is the same
    panel."""

    def run(self, console: Console) -> int:
        from pathlib import Path

        from surefoot.artifacts import atomic_write
        from surefoot.contract import dump_panel, make_panel

        panel = make_panel(self.name)
        path, text = Path(self.out or f"{self.name}.json"), dump_panel(panel).encode()
        if path.exists() and path.read_bytes() != text:
            raise SurefootError(f"{path} exists and is another file; choose another --out.")
        atomic_write(path, text)
        console.print(
            f"{path}: {len(panel.scenarios)} scenarios, digest {panel.digest[:12]}", highlight=False
        )
        return 0


@dataclass(frozen=True)
class PanelShowCommand:
    """Describe a panel: its scenarios, families, halves and digest."""

    name: Positional[str] = ""
    """Panel name or file; without one, all shipped panels are listed."""
    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self, console: Console) -> int:
        from surefoot.tables import print_panels

        print_panels(console, self.name, self.json)
        return 0


Commands = (
    Annotated[PlanCommand, tyro.conf.subcommand("plan")]
    | Annotated[TrainCommand, tyro.conf.subcommand("train")]
    | Annotated[EvaluateCommand, tyro.conf.subcommand("evaluate")]
    | Annotated[CompareCommand, tyro.conf.subcommand("compare")]
    | Annotated[CompareLearnersCommand, tyro.conf.subcommand("compare-learners")]
    | Annotated[LabCommand, tyro.conf.subcommand("lab")]
    | Annotated[PromoteCommand, tyro.conf.subcommand("promote")]
    | Annotated[PostmortemCommand, tyro.conf.subcommand("postmortem")]
    | Annotated[ReplayCommand, tyro.conf.subcommand("replay")]
    | Annotated[ReportCommand, tyro.conf.subcommand("report")]
    | Annotated[ServeCommand, tyro.conf.subcommand("serve")]
    | Annotated[TrackCommand, tyro.conf.subcommand("track")]
    | Annotated[TasksCommand, tyro.conf.subcommand("tasks")]
    | Annotated[EnginesCommand, tyro.conf.subcommand("engines")]
    | Annotated[
        Annotated[PanelShowCommand, tyro.conf.subcommand("show")]
        | Annotated[PanelMakeCommand, tyro.conf.subcommand("make")],
        tyro.conf.subcommand("panel"),
    ]
    | Annotated[StudyCommands, tyro.conf.subcommand("study")]
)


@contextmanager
def lasting() -> Iterator[None]:
    """Imports what stays to the end of the process: nothing of it is garbage, now or later. Looking for some
    in half a million objects would take a tenth of a second, at every capture of a CUDA graph for one."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Errors a user can cause are one sentence on stderr and exit code 2."""
    console = Console()
    try:
        command: Any = tyro.cli(Commands, prog="surefoot", description=__doc__, args=arguments)
        code = command.run(console)
    except SurefootError as error:
        Console(stderr=True).print(
            f"[red]surefoot:[/red] {escape(str(error))}", highlight=False, soft_wrap=True
        )
        code = 2
    except (
        KeyboardInterrupt
    ):  # outside the training loop, which handles it itself: nothing is lost, files are whole
        code = 130
    except BrokenPipeError:  # the reader of our output went away, e.g. `| head`
        code = 0
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    sys.exit(code)
