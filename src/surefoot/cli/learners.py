"""`surefoot compare-learners`: several learners on the same environments, samples and panel."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from surefoot.cli.options import UNCHANGED, RecipeOptions
from surefoot.cli.parser import Positional
from surefoot.cli.train import print_trained
from surefoot.contract import LEARNERS, Timeouts
from surefoot.printing import ConsoleObserver, make_console, plain_table, say

if TYPE_CHECKING:
    from surefoot.evidence import LearnerComparison, LearnerFigures
    from surefoot.sessions import TrainedRun
    from surefoot.statistics import Estimate


@dataclass(frozen=True)
class CompareLearnersCommand:
    """Train a task with several learners and seeds, and compare them: same environments, same samples, same
    panel.

    Writes a run folder for each, and comparison.json, .csv, .svg and .html beside them. Runs that are there
    already are not trained again, so an interrupted comparison goes on when it is started again.

    Example: surefoot compare-learners trot-flat --learners ppo rsl_rl --seeds 3
    """

    task: Positional[str]
    """Task name (see `surefoot tasks`) or package.module:name of your own."""
    options: RecipeOptions = UNCHANGED
    learners: tuple[str, ...] = LEARNERS
    """Who learns, e.g. --learners ppo rsl_rl sb3."""
    seeds: int = 3
    """Training seeds of each learner, from --seed on: the outer cluster of every interval."""
    updates: int = 200
    """Updates of each run; with the recipe's T x N the sample budget that all share."""
    perturb: tuple[str, ...] = ("push", "delay", "friction")
    """Disturbances to judge beside the nominal panel: perturbations or columns by name, all, or none."""
    timeouts: Timeouts = "stock"
    """As for `surefoot train`, for every library that it is wrong in."""
    manifest: str | None = None
    """Refuse to train in any other environment than the one that `surefoot plan --freeze` wrote to this
    file."""
    out: str | None = None
    """Folder for the runs and the comparison (default: runs/learners-<task>)."""
    json: bool = False
    """Print the comparison as one JSON object."""

    def run(self, console: Console) -> int:
        from surefoot.experiments import LearnersOptions, compare_all

        o = self.options
        options = LearnersOptions(
            task=self.task,
            out=Path(self.out or f"runs/learners-{self.task.split(':')[-1]}"),
            learners=self.learners,
            seeds=self.seeds,
            updates=self.updates,
            perturb=self.perturb,
            first_seed=o.seed,
            overrides=o.overrides(),
            engine=o.engine,
            device=o.device,
            timeouts=self.timeouts,
            manifest=self.manifest,
        )
        compared = compare_all(
            options, ComparisonDisplay(make_console(stderr=True) if self.json else console)
        )
        if compared.comparison is not None and self.json:
            print(compared.comparison.model_dump_json(indent=2))
        elif compared.comparison is not None:
            print_learners(console, compared.comparison)
            say(console, f"\n{compared.page}")
        return compared.exit_status


class ComparisonDisplay(ConsoleObserver):
    """Prints every run of a comparison as `surefoot train` does."""

    def run_begins(self, learner: str, seed: int, number: int, count: int) -> None:
        say(self.console, f"[bold]{learner}, seed {seed}[/bold] ({number} of {count})", markup=True)

    def run_ended(self, trained: TrainedRun) -> None:
        if not trained.already_there:
            print_trained(self.console, trained)


def print_learners(console: Console, c: LearnerComparison) -> None:
    """Prints a row per learner, and how they do under disturbances."""
    table = plain_table(
        f"{c.task}: {c.samples:,} samples each, {c.panel}, {c.half} half; typical seed and its interval",
        "learner", "seeds", "success", "steps/s", "minutes", "95% reached", "samples to it", "syncs/step",
    )  # fmt: skip
    for learner in c.learners:
        table.add_row(
            learner.learner if learner.timeouts != "corrected" else f"{learner.learner}, corrected",
            str(len(learner.seeds)) + (f", {len(learner.failed)} failed" if learner.failed else ""),
            rate_text(learner.columns["nominal"]),
            f"{learner.steps_per_second.value:,.0f}",
            f"{learner.train_minutes.value:.1f}",
            f"{learner.reached.seeds} of {learner.reached.of}",
            samples_text(learner),
            "not measured" if learner.host_syncs_per_step is None else f"{learner.host_syncs_per_step:.1f}",
        )
    console.print(table, highlight=False)
    names = c.learners[0].column_names
    if len(names) > 1:
        worse = plain_table(
            "Success under disturbances", "column", *[learner.learner for learner in c.learners]
        )
        for name in names[1:]:
            worse.add_row(name, *[rate_text(learner.columns[name]) for learner in c.learners])
        console.print()
        console.print(worse, highlight=False)


def rate_text(f: Estimate) -> str:
    """Writes a rate with its interval, in percent."""
    low, high = (100 * (x if x is not None else d) for x, d in ((f.low, 0.0), (f.high, 1.0)))
    return f"{100 * f.value:.1f}% ({low:.0f} to {high:.0f})"


def samples_text(learner: LearnerFigures) -> str:
    """Writes the samples to the target by seed: an interval says nothing unless every seed got there."""
    return " ".join("-" if s is None else f"{s / 1e6:.2f}M" for s in learner.reached.samples)
