"""What a lab is, fixed before it runs: task, learners, seeds, budget, and the one perturbation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.contract import Column, Frozen, Panel, SurefootError, Timeouts, columns
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
"""Of all runs together, so that a quick lab is as quick whatever it trains."""
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
    """One run of the lab."""

    learner: str
    seed: int
    sparse: bool = False

    @property
    def name(self) -> str:
        return f"{self.learner}{'-sparse' if self.sparse else ''}-seed{self.seed}"


class LabDesign(Frozen):
    """design.json: what must be the same for a lab to be continued."""

    schema_version: int = 1
    task: str
    quick: bool
    learners: tuple[str, ...]
    seeds: tuple[int, ...]
    """Training seeds: the outer cluster of every interval over learners."""
    updates: int
    """Of every run; with the recipe's T x N its sample budget."""
    perturbation: str
    """As asked for."""
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
        """The perturbation in words."""
        known = OFFERED.get(self.perturbation)
        return known[1] if known else self.perturbation.replace("_", " ")

    def jobs(self) -> tuple[Job, ...]:
        """Seeds outside, so that a lab that is cut short has all learners with the seeds that it has."""
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


def make_lab(
    task: str,
    *,
    quick: bool = False,
    learners: tuple[str, ...] = ("ppo", "rsl_rl"),
    seeds: int | None = None,
    first_seed: int = 1,
    updates: int | None = None,
    perturbation: str = DEFAULT,
    timeouts: Timeouts = "stock",
    engine: str = "auto",
    device: str = "cpu",
    overrides: dict[str, Any] | None = None,
) -> tuple[LabDesign, dict[Job, RobotPlan]]:
    """The design and the plans of all its runs: every contradiction, and every library that is not there, is
    found before anything is trained or written."""
    count = seeds if seeds is not None else QUICK_SEEDS if quick else SEEDS
    check_learners(learners, count)
    if "ppo" not in learners:
        raise SurefootError("The lab sets Surefoot's own PPO beside others; put ppo into --learners.")
    if updates is not None and updates < 1:
        raise SurefootError(f"--updates is {updates}; use 1 or more.")
    known = robot_plan(task, engine=engine, device=device)
    changed = (QUICK | {"eval_families": min(32, known.panel.seeds.families)} if quick else {}) | (
        overrides or {}
    )
    column = choose_column(known.panel, perturbation)
    runs = count * len(learners) * (2 if column is None else 1)
    design = LabDesign(
        task=task,
        quick=quick,
        learners=learners,
        seeds=tuple(range(first_seed, first_seed + count)),
        updates=updates or (max(1, QUICK_UPDATES // runs) if quick else UPDATES),
        perturbation=perturbation,
        column=column,
        timeouts=timeouts,
        engine=engine,
        device=device,
        overrides=changed,
    )
    return design, {job: design.plan(job) for job in design.jobs()}


def choose_column(panel: Panel, asked: str) -> Column | None:
    """The one column that `asked` stands for: a word of `OFFERED`, or as in `surefoot evaluate`."""
    name = OFFERED[asked][0] if asked in OFFERED else asked
    if name is None:
        return None
    if asked not in OFFERED and asked in ("all", "none", "nominal"):
        raise SurefootError(
            f"The lab has one perturbation, and '{asked}' is not one; choose of {', '.join(OFFERED)}, or a "
            "column such as push_1.0."
        )
    found = columns(panel, (name,))
    if len(found) > 1:
        names = ", ".join(c.name for c in found)
        raise SurefootError(
            f"'{asked}' has several strengths; say which: --perturbation with one of {names}."
        )
    return found[0]


def default_folder(design: LabDesign) -> Path:
    parts = ["lab", design.task.split(":")[-1], *(["quick"] if design.quick else [])]
    parts += [design.perturbation] if design.perturbation != DEFAULT else []
    return Path("runs") / "-".join(parts)
