"""`surefoot study`: did more environments, a longer horizon or more epochs help?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console
from tyro.conf import OmitArgPrefixes, Positional

from surefoot.contract import SurefootError

if TYPE_CHECKING:
    from surefoot.experiments.studies import Kind


@dataclass(frozen=True)
class StudyOptions:
    """Budgets, seeds, scoring; recipe options hold for all runs."""

    seeds: int = 5
    """Training seeds per value, 2 or more: the intervals are over these."""
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
    """Gain of held-out success below which more counts as no help, 0 to 1."""
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
    """Of the networks' matrix products."""
    hidden: tuple[int, ...] | None = None
    """Widths of both networks' hidden layers."""
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
    from surefoot.experiments.studies import make_design, open_study, resume_study, start_study

    if o.json:
        console = Console(stderr=True)
    if o.resume is not None:
        same = StudyOptions(resume=o.resume, quiet=o.quiet, json=o.json)
        if task or values or recipe or o != same:
            raise SurefootError(
                "--resume continues a study as it was designed; give no task and no other options with it."
            )
        code, folder = resume_study(console, o.resume, kind, o.quiet)
    else:
        if not task:
            raise SurefootError(f"Say what to study, e.g. `surefoot study {kind} walk-flat`.")
        design = make_design(
            kind,
            task,
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
        )
        code, folder = start_study(console, design, o.out, o.quiet)
    if o.json and code == 0:
        print(json.dumps(open_study(folder).model_dump(mode="json"), indent=2))
    return code


def _given(**options: int | None) -> dict[str, Any]:
    return {k: v for k, v in options.items() if v is not None}


@dataclass(frozen=True)
class ParallelismCommand:
    """Did more environments help? Trains each number of environments with the same samples and with the same
    training time, over several seeds, and judges all policies on one held-out panel.

    The number of minibatches stays (so they grow) and so do the seed families, unless told otherwise; both
    are printed and recorded. Writes study.json, study.csv and study.html beside the run folders.

    Example, minutes on two cores: surefoot study parallelism trot-flat --envs 256 1024 --seeds 3
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
    options: OmitArgPrefixes[StudyOptions] = StudyOptions()

    def run(self, console: Console) -> int:
        fixed = _given(horizon=self.horizon, epochs=self.epochs)
        return _study(console, "parallelism", self.task, self.envs, self.options, fixed)


@dataclass(frozen=True)
class HorizonCommand:
    """Did a longer horizon help? As `study parallelism`, with the control steps per update varied: longer
    blocks bootstrap less, and their samples are older when they are learned from."""

    task: Positional[str] = ""
    """Task name or package.module:name of your own. Not needed with --resume."""
    horizons: tuple[int, ...] = ()
    """Control steps per update, two values or more (default: half of the task's own, its own, twice it)."""
    envs: int | None = None
    """Environments, the same for all."""
    epochs: int | None = None
    """Passes over each rollout block, the same for all."""
    options: OmitArgPrefixes[StudyOptions] = StudyOptions()

    def run(self, console: Console) -> int:
        fixed = _given(envs=self.envs, epochs=self.epochs)
        return _study(console, "horizon", self.task, self.horizons, self.options, fixed)


@dataclass(frozen=True)
class EpochsCommand:
    """Did more epochs help? As `study parallelism`, with the passes over each block varied: the same samples
    are learned from more often, by a policy that is further from the one that collected them."""

    task: Positional[str] = ""
    """Task name or package.module:name of your own. Not needed with --resume."""
    epochs: tuple[int, ...] = ()
    """Passes over each block, two values or more (default: half of the task's own, its own, twice it)."""
    envs: int | None = None
    """Environments, the same for all."""
    horizon: int | None = None
    """Control steps per environment and update, the same for all."""
    options: OmitArgPrefixes[StudyOptions] = StudyOptions()

    def run(self, console: Console) -> int:
        fixed = _given(envs=self.envs, horizon=self.horizon)
        return _study(console, "epochs", self.task, self.epochs, self.options, fixed)


StudyCommands = (
    Annotated[ParallelismCommand, tyro.conf.subcommand("parallelism")]
    | Annotated[HorizonCommand, tyro.conf.subcommand("horizon")]
    | Annotated[EpochsCommand, tyro.conf.subcommand("epochs")]
)
