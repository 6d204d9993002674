"""`surefoot compare`, `compare-learners` and `promote`: runs against each other."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from tyro.conf import OmitArgPrefixes, Positional

from surefoot.cli.options import UNCHANGED, RecipeOptions
from surefoot.contract import LEARNERS, Timeouts


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
        from surefoot.cli.compare_print import compare_runs

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
    out: str | None = None
    """Folder for the runs and the comparison (default: runs/learners-<task>)."""
    json: bool = False
    """Print the comparison as one JSON object."""

    def run(self, console: Console) -> int:
        from surefoot.experiments import compare_all

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
        from surefoot.cli.promote_print import promote_run

        return promote_run(console, self.candidate, self.baseline, self.json)
