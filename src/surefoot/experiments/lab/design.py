"""What a lab is, fixed before it runs: task, learners, seeds, budget, and the one perturbation."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surefoot.contract import NOMINAL, Column, Frozen, Panel, SurefootError, Timeouts, columns
from surefoot.experiments.learners import check_learners
from surefoot.tasks import SPARSE
from surefoot.training import RobotPlan, robot_plan

OFFERED: dict[str, tuple[str | None, str]] = {
    "delay": ("delay_120ms", "action delay: joint targets take effect 120 ms late"),
    "noise": ("noise_x2", "observation noise: that of every sensor doubled"),
    "friction": ("friction_0.3", "ground friction of 0.3, wet ice for a rubber foot"),
    "gains": ("strength_0.8", "a simulator parameter: motors with 80% of their gains and torque limits"),
    "mass": ("payload_+3kg", "a simulator parameter: 3 kg on the trunk"),
    "sparse": (None, "sparse reward, in training: paid only while on target, and for nothing else"),
}
"""Perturbations by a word: the panel's column (none: it happens in training), and what it is."""
DEFAULT = "delay"

UPDATES, SEEDS = 200, 3
QUICK_SEEDS = 1
QUICK_UPDATES = 240
"""Updates of all runs together, so that a quick lab is as quick whatever it trains."""
QUICK: dict[str, Any] = {
    "hidden": (64, 64),
    "epochs": 4,
    "eval_families": 32,
    "evaluate_every": 20,
    "checkpoint_every": 20,
}
"""Networks and reuse that a few minutes are enough for, and half of the panel; the same for all learners."""


@dataclass(frozen=True)
class Job:
    """Names one run of the lab."""

    learner: str
    seed: int
    sparse: bool = False

    @property
    def name(self) -> str:
        return f"{self.learner}{'-sparse' if self.sparse else ''}-seed{self.seed}"


class LabDesign(Frozen):
    """Holds design.json: what must be the same for a lab to be continued."""

    schema_version: int = 1
    task: str
    quick: bool
    learners: tuple[str, ...]
    seeds: tuple[int, ...]
    """Training seeds: the outer cluster of every interval over learners."""
    updates: int
    """Updates of every run; with the recipe's T x N its sample budget."""
    perturbation: str
    """The word or column that was asked for."""
    column: Column | None
    """The panel's column; None where training is perturbed and not the panel."""
    timeouts: Timeouts
    engine: str
    device: str
    overrides: dict[str, Any]
    """Recipe fields that are not the task's own."""

    @property
    def columns(self) -> tuple[Column, ...]:
        return () if self.column is None else (self.column,)

    @property
    def says(self) -> str:
        """Says the perturbation in words."""
        known = OFFERED.get(self.perturbation)
        return known[1] if known else self.perturbation.replace("_", " ")

    def jobs(self) -> tuple[Job, ...]:
        """Returns all runs, seeds outside, so that a lab that is cut short has all learners with the seeds
        that it has."""
        rewards = (False, True) if self.column is None else (False,)
        return tuple(Job(x, s, r) for s in self.seeds for r in rewards for x in self.learners)

    def plan(self, job: Job) -> RobotPlan:
        return robot_plan(
            f"{self.task}{SPARSE}" if job.sparse else self.task,
            overrides=self.overrides,
            seed=job.seed,
            engine=self.engine,
            device=self.device,
            learner=job.learner,
            timeouts=self.timeouts,
        )


@dataclass(frozen=True)
class LabOptions:
    """Says what a lab is asked for; what is not given follows from `quick`."""

    task: str
    quick: bool = False
    learners: tuple[str, ...] = ("ppo", "rsl_rl")
    seeds: int | None = None
    """Training seeds of each learner, from `first_seed` on."""
    first_seed: int = 1
    updates: int | None = None
    """Updates of each run."""
    perturbation: str = DEFAULT
    """A word of `OFFERED`, or a column as in `surefoot evaluate`."""
    timeouts: Timeouts = "stock"
    engine: str = "auto"
    device: str = "cpu"
    overrides: dict[str, Any] = field(default_factory=dict)
    """Recipe fields that are not to be the task's own."""


def make_lab(options: LabOptions) -> tuple[LabDesign, dict[Job, RobotPlan]]:
    """Returns the design and the plans of all its runs: every contradiction, and every library that is not
    there, is found before anything is trained or written."""
    o = options
    count = o.seeds if o.seeds is not None else QUICK_SEEDS if o.quick else SEEDS
    check_learners(o.learners, count)
    if "ppo" not in o.learners:
        raise SurefootError("The lab sets Surefoot's own PPO beside others; put ppo into --learners.")
    if o.updates is not None and o.updates < 1:
        raise SurefootError(f"--updates is {o.updates}; use 1 or more.")
    known = robot_plan(o.task, engine=o.engine, device=o.device)
    quick = QUICK | {"eval_families": min(32, known.panel.size)} if o.quick else {}
    column = choose_column(known.panel, o.perturbation)
    runs = count * len(o.learners) * (2 if column is None else 1)
    design = LabDesign(
        task=o.task,
        quick=o.quick,
        learners=o.learners,
        seeds=tuple(range(o.first_seed, o.first_seed + count)),
        updates=o.updates or (max(1, QUICK_UPDATES // runs) if o.quick else UPDATES),
        perturbation=o.perturbation,
        column=column,
        timeouts=o.timeouts,
        engine=o.engine,
        device=o.device,
        overrides=quick | o.overrides,
    )
    return design, {job: design.plan(job) for job in design.jobs()}


def choose_column(panel: Panel, perturbation: str) -> Column | None:
    """Returns the one column that `perturbation` stands for: a word of `OFFERED`, or as in `surefoot
    evaluate`."""
    name = OFFERED[perturbation][0] if perturbation in OFFERED else perturbation
    if name is None:
        return None
    if perturbation not in OFFERED and perturbation in ("all", "none", NOMINAL):
        raise SurefootError(
            f"The lab has one perturbation, and '{perturbation}' is not one; choose of "
            f"{', '.join(OFFERED)}, or a column such as push_1.0."
        )
    fitting = columns(panel, (name,))
    if len(fitting) > 1:
        names = ", ".join(c.name for c in fitting)
        raise SurefootError(
            f"'{perturbation}' has several strengths; say which: --perturbation with one of {names}."
        )
    return fitting[0]


def default_folder(design: LabDesign) -> Path:
    """Returns where a lab goes that nobody gave a place."""
    parts = ["lab", design.task.split(":")[-1], *(["quick"] if design.quick else [])]
    parts += [design.perturbation] if design.perturbation != DEFAULT else []
    return Path("runs") / "-".join(parts)
