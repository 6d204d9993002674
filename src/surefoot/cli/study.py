"""`surefoot study`: did more environments, a longer horizon, more epochs or a memory help?"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.markup import escape

from surefoot.cli.parser import Positional
from surefoot.contract import SurefootError
from surefoot.printing import ConsoleObserver, StudyProgress, make_console, plain_table, say

if TYPE_CHECKING:
    from surefoot.experiments.studies import Design, Group, Kind, StudyRecord
    from surefoot.statistics import Estimate
    from surefoot.training import RobotPlan


@dataclass(frozen=True)
class StudyOptions:
    """Budgets, seeds, scoring; recipe options hold for all runs."""

    seeds: int = 8
    """Training seeds per value, 2 or more. Eight can show a difference among up to six comparisons; fewer
    describe, and the verdict says that they decide nothing."""
    seed: int = 1
    """The first of them; the others follow."""
    samples: int | None = None
    """Sample budget of every run (rounded down to whole updates at every value; default: 300 updates of the
    task's own recipe)."""
    updates: int | None = None
    """The sample budget as this many updates of the largest value, for small studies on a laptop."""
    seconds: float | None = None
    """Time budget of every run, in training seconds (default: what the first run takes for the samples, and
    no more than the task's own minutes)."""
    margin: float = 0.03
    """Difference of held-out success, either way, below which it counts as none, 0 to 1."""
    engine: str = "auto"
    """Simulator of the panel: auto (the fastest that can take the robot, on the training device) or mujoco
    (native, on the CPU). Training always takes auto."""
    perturb: tuple[str, ...] | None = None
    """Columns beside the nominal one, as in `surefoot evaluate` (default: delay_40ms, friction_0.3 and
    pushes of 0.5 to 2 m/s; none: nominal alone)."""
    sweep: bool = False
    """Every declared strength, for whole curves: of the chosen perturbations, or of all of them."""
    keep: Literal["minibatches", "minibatch-size"] = "minibatches"
    """What stays as a rollout block grows: the number of minibatches (so they grow), or their size (so there
    are more gradient steps)."""
    device: str = "cpu"
    """Where all runs train: cpu or cuda."""
    minibatches: int | None = None
    """Minibatches per epoch (with --keep minibatch-size: of the smallest value)."""
    control_hz: float | None = None
    """Control rate, Hz."""
    families: int | None = None
    """Training seed families, the same for all runs; must divide every number of environments."""
    eval_families: int | None = None
    """Seed families of the held-out panel to use (even; default all of them)."""
    precision: Literal["fp32", "tf32", "bf16"] | None = None
    """Precision of the networks' matrix products."""
    hidden: tuple[int, ...] | None = None
    """Widths of both networks' hidden layers."""
    manifest: str | None = None
    """Refuse to train in any other environment than the one that `surefoot plan --freeze` wrote to this
    file."""
    out: str | None = None
    """Study folder to create (default: runs/study-<kind>-<task>-<date>-<time>)."""
    resume: str | None = None
    """Continue this study folder where it stopped; runs that are done are kept as they are."""
    quiet: bool = False
    """Do not print the design first."""
    json: bool = False
    """Print study.json at the end; everything else then goes to stderr."""

    def recipe(self) -> dict[str, Any]:
        names = ("minibatches", "control_hz", "families", "eval_families", "precision", "hidden")
        return {n: getattr(self, n) for n in names if getattr(self, n) is not None}


def _study(
    console: Console, kind: Kind, task: str, values: tuple[int, ...], o: StudyOptions, recipe: dict[str, Any]
) -> int:
    from surefoot.compute import warm_up_gpu

    warm_up_gpu(o.device)
    from surefoot.experiments.studies import DesignOptions, make_design, open_study, resume_study, start_study
    from surefoot.runs import typed

    if o.json:
        console = make_console(stderr=True)
    observer = StudyDisplay(console, with_plan=not o.quiet)
    if o.resume is not None:
        same = StudyOptions(resume=o.resume, quiet=o.quiet, json=o.json)
        if task or values or recipe or o != same:
            raise SurefootError(
                "--resume continues a study as it was designed; give no task and no other options with it."
            )
        study = resume_study(o.resume, kind, observer)
    else:
        if not task:
            raise SurefootError(f"Say what to study, e.g. `surefoot study {kind} walk-flat`.")
        options = DesignOptions(
            kind=kind,
            task=task,
            values=values,
            seeds=o.seeds,
            seed=o.seed,
            overrides=o.recipe() | recipe,
            samples=o.samples,
            updates=o.updates,
            seconds=o.seconds,
            device=o.device,
            scored_on=o.engine,
            perturb=o.perturb,
            sweep=o.sweep,
            margin=o.margin,
            keep=o.keep,
            manifest=o.manifest,
        )
        study = start_study(make_design(options), observer, o.out)
    if study.exit_status:
        say(console, f"Stopped; continue with: {typed('study', kind, '--resume', study.path)}")
        return study.exit_status
    print_results(console, study.record)
    say(console, f"Report: {study.page}")
    if o.json:
        print(json.dumps(open_study(study.path).model_dump(mode="json"), indent=2))
    return 0


class StudyDisplay(ConsoleObserver):
    """Prints what a study does."""

    def designed(self, record: StudyRecord, plan: RobotPlan) -> None:
        if self.with_plan:
            print_design(self.console, record, plan)

    def runs(self, design: Design, todo: Sequence[tuple[int, int]]) -> StudyProgress:
        return StudyProgress(self.console, design, todo)


def print_design(console: Console, record: StudyRecord, plan: RobotPlan) -> None:
    """Prints what a study will do: values, budgets, panel."""
    from surefoot.experiments.studies import panel_device

    d = record.design
    say(
        console,
        f"[bold]Study of {d.kind}[/bold] on {escape(d.task)}: {len(d.values)} values x {len(d.seeds)} seeds "
        f"= {len(d.values) * len(d.seeds)} runs, each to both budgets, trained on {d.engine}, {d.device}",
        markup=True,
    )
    seconds = (
        f"{d.seconds:g} s of training"
        if d.seconds is not None
        else "as many seconds of training as the first run takes for the samples "
        f"({60 * plan.task.minutes:g} at most)"
    )
    lines = [
        *record.scaled,
        f"Budgets: {d.samples:,} samples; {seconds}.",
        f"Scored: the last policy of each budget on the confirmation half of {record.panel} "
        f"({len(plan.panel.select('confirmation'))} episodes), on {d.scored_on} ({panel_device(d)}), "
        f"columns: {', '.join(['nominal', *(c.name for c in d.columns)])}.",
        f"A difference of less than {100 * d.margin:g} points of success, either way, counts as none.",
        *_too_few(d),
    ]
    for line in lines:
        say(console, f"  {line}")


def _too_few(d: Design) -> list[str]:
    """Says before anything is trained that so few seeds can show nothing."""
    from surefoot.statistics import ALPHA, seeds_needed

    comparisons = 2 * (len(d.values) - 1)
    need = seeds_needed(ALPHA / comparisons)
    if len(d.seeds) >= need:
        return []
    return [
        f"{len(d.seeds)} seeds describe, they decide nothing: to show a difference at 95% among "
        f"{comparisons} comparisons takes {need} (--seeds {need})."
    ]


def print_results(console: Console, record: StudyRecord) -> None:
    """Prints the figures under each budget, and the verdict on them."""
    from surefoot.experiments.studies import BUDGETS

    d = record.design
    for budget in BUDGETS:
        groups = record.groups_of(budget)
        if not groups:
            continue
        what = f"{d.samples:,} samples" if budget == "samples" else f"{record.seconds or 0:.3g} s of training"
        table = plain_table(f"With the same {what}", d.knob.unit, *(f"{g.value:,}" for g in groups))
        for name, cells in _rows(groups).items():
            table.add_row(name, *cells)
        console.print(table, highlight=False)
        verdict = record.verdict_of(budget)
        if verdict is not None:
            say(console, f"[bold]{escape(verdict.sentence)}", markup=True)
            for s in verdict.steps:
                say(console, f"  {s.sentence}")
    say(
        console,
        f"[dim]Typical (median) seed of {len(d.seeds)} and its interval; panel on {d.scored_on}. All steps "
        "share an error of 5% (Holm).",
        markup=True,
    )


def _rows(groups: list[Group]) -> dict[str, list[str]]:
    """Returns a row per figure, with a cell per value."""

    def cells(name: str, text: Callable[[Estimate], str]) -> list[str]:
        return [text(g.figures[name]) if name in g.figures else "not measured" for g in groups]

    rows = {
        "training, s": cells("train_seconds", lambda f: f"{f.value:.2f}"),
        "samples": cells("samples", lambda f: f"{f.value:,.0f}"),
        "steps/s": cells("steps_per_second", lambda f: f"{f.value:,.0f}"),
        "n of a rollout block": cells("block_samples", lambda f: f"{f.value:,.0f}"),
        "n_eff of it, by return": cells("n_eff_return", lambda f: f"{f.value:,.0f}"),
        "age of a sample, steps": cells("age_steps", lambda f: f"{f.value:g}"),
        "reuse, epochs": cells("reuse", lambda f: f"{f.value:g}"),
        "policy change, KL": cells("kl", lambda f: f"{f.value:.4f}"),
        "success": cells("success", _rate),
        "collapsed seeds": [f"{g.collapses.count} of {g.collapses.n}" for g in groups],
        "falls": cells("fall", _rate),
        "success, disturbed": cells("disturbed_success", _rate),
    }
    for name in list(groups[0].columns)[1:]:
        rows[f"  {name}"] = [_rate(g.columns[name]) for g in groups]
    rows["failures"] = [_most(g.labels) for g in groups]
    return rows


def _rate(f: Estimate) -> str:
    if f.low is None or f.high is None:
        return f"{100 * f.value:.1f}%"
    return f"{100 * f.value:.1f}% ({100 * f.low:.0f} to {100 * f.high:.0f})"


def _most(labels: dict[str, int]) -> str:
    most = sorted(labels.items(), key=lambda x: -x[1])[:2]
    return ", ".join(f"{name} {count}" for name, count in most) or "none"


def _given(**options: int | None) -> dict[str, Any]:
    return {k: v for k, v in options.items() if v is not None}


@dataclass(frozen=True)
class ParallelismCommand:
    """Did more environments help? Trains each number of environments with the same samples and with the same
    training time, over several seeds, and judges all policies on one held-out panel.

    The number of minibatches stays (so they grow) and so do the seed families, unless told otherwise; both
    are printed and recorded. Writes study.json, study.csv and study.html beside the run folders.

    Example (minutes on two cores): surefoot study parallelism trot-flat --envs 256 1024 --seeds 3
    --samples 1000000
    """

    task: Positional[str] = ""
    """Task name (see `surefoot tasks`) or package.module:name of your own. Not needed with --resume."""
    envs: tuple[int, ...] = ()
    """Numbers of environments, two or more (default: a quarter of the task's own, its own, four times it)."""
    horizon: int | None = None
    """Control steps per environment and update, the same for all."""
    epochs: int | None = None
    """Passes over each rollout block, the same for all."""
    options: StudyOptions = StudyOptions()

    def run(self, console: Console) -> int:
        fixed = _given(horizon=self.horizon, epochs=self.epochs)
        return _study(console, "parallelism", self.task, self.envs, self.options, fixed)


@dataclass(frozen=True)
class HorizonCommand:
    """Did a longer horizon help? As `study parallelism`, with the control steps per update varied: longer
    blocks bootstrap less, and their samples are older when they are learned from.

    Example: surefoot study horizon trot-flat --horizons 8 16 32 --seeds 3
    """

    task: Positional[str] = ""
    """Task name or package.module:name of your own. Not needed with --resume."""
    horizons: tuple[int, ...] = ()
    """Control steps per update, two values or more (default: half of the task's own, its own, twice it)."""
    envs: int | None = None
    """Environments, the same for all."""
    epochs: int | None = None
    """Passes over each rollout block, the same for all."""
    options: StudyOptions = StudyOptions()

    def run(self, console: Console) -> int:
        fixed = _given(envs=self.envs, epochs=self.epochs)
        return _study(console, "horizon", self.task, self.horizons, self.options, fixed)


@dataclass(frozen=True)
class EpochsCommand:
    """Did more epochs help? As `study parallelism`, with the passes over each block varied: the same samples
    are learned from more often, by a policy that is further from the one that collected them.

    Example: surefoot study epochs trot-flat --epochs 2 4 8 --seeds 3
    """

    task: Positional[str] = ""
    """Task name or package.module:name of your own. Not needed with --resume."""
    epochs: tuple[int, ...] = ()
    """Passes over each block, two values or more (default: half of the task's own, its own, twice it)."""
    envs: int | None = None
    """Environments, the same for all."""
    horizon: int | None = None
    """Control steps per environment and update, the same for all."""
    options: StudyOptions = StudyOptions()

    def run(self, console: Console) -> int:
        fixed = _given(envs=self.envs, horizon=self.horizon)
        return _study(console, "epochs", self.task, self.epochs, self.options, fixed)


@dataclass(frozen=True)
class MemoryCommand:
    """Did a memory help? As `study parallelism`, with the last observations varied that the policy sees: one
    is no memory, more are --memory window:K. First layers grow with them, and so does the time of an update.

    Example: surefoot study memory trot-flat --windows 1 5 10 --seeds 3
    """

    task: Positional[str] = ""
    """Task name or package.module:name of your own. Not needed with --resume."""
    windows: tuple[int, ...] = ()
    """Observations that the policy sees, two values or more (default: 1 and 10)."""
    envs: int | None = None
    """Environments, the same for all."""
    horizon: int | None = None
    """Control steps per environment and update, the same for all."""
    options: StudyOptions = StudyOptions()

    def run(self, console: Console) -> int:
        fixed = _given(envs=self.envs, horizon=self.horizon)
        return _study(console, "memory", self.task, self.windows, self.options, fixed)
