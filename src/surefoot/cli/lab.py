"""`surefoot lab`: baselines, Surefoot's PPO and a maintained library on one panel, in one folder."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from tyro.conf import OmitArgPrefixes

from surefoot.cli.options import UNCHANGED, RecipeOptions
from surefoot.contract import Timeouts


@dataclass(frozen=True)
class LabCommand:
    """The reproducible panel in one command and one folder: what the task promises, what baselines do, what
    Surefoot's PPO and a maintained library learn from the same samples on the same seeds, how all of them do
    on the same held-out scenarios and under one perturbation, and two failures or more to live again.

    Read lab.html; lab.json and lab.csv hold all of it. Started again with the same options it goes on where
    it stopped: runs that are there are not trained again, and nothing is overwritten.

    First look, under 5 minutes on two cores: surefoot lab --quick
    """

    task: str = "trot-flat"
    """Task name (see `surefoot tasks`) or package.module:name of your own."""
    quick: bool = False
    """A lab of a few minutes: one training seed, networks of 64 x 64, 4 epochs, half of the panel, and a
    budget of 240 updates that all runs share. Options that you give go before these."""
    perturbation: str = "delay"
    """What is made harder: delay (120 ms from action to effect), noise (observation noise doubled), friction
    (0.3), gains (motors at 80%), mass (3 kg more), sparse (in training: the learners again with a sparse
    reward), or a column as in `surefoot evaluate`, such as push_1.5."""
    learners: tuple[str, ...] = ("ppo", "rsl_rl")
    """Surefoot's own PPO and one or more others: rsl_rl, skrl, rl_games, sb3, tianshou, cleanrl
    (docs/learners.md says how to install them)."""
    seeds: int | None = None
    """Training seeds of each learner, from --seed on (default 3, with --quick 1)."""
    panel2: bool = False
    """Judge all policies on a second panel too, of other held-out seeds, and report only what both measured.
    May be added to a lab that is done."""
    updates: int | None = None
    """Updates of each run (default 200, with --quick the shared budget)."""
    timeouts: Timeouts = "stock"
    """As for `surefoot train`, for every library that it is wrong in."""
    options: OmitArgPrefixes[RecipeOptions] = UNCHANGED
    out: str | None = None
    """Folder of the lab (default: runs/lab-<task>, with -quick and the perturbation behind it)."""
    json: bool = False
    """Print lab.json at the end; everything else then goes to stderr."""

    def run(self, console: Console) -> int:
        from surefoot.compute import warm_up_gpu

        warm_up_gpu(self.options.device)
        from surefoot.experiments.lab import make_lab, run_lab

        o = self.options
        design, plans = make_lab(
            self.task,
            quick=self.quick,
            learners=self.learners,
            seeds=self.seeds,
            first_seed=o.seed,
            updates=self.updates,
            perturbation=self.perturbation,
            timeouts=self.timeouts,
            engine=o.engine,
            device=o.device,
            overrides=o.overrides(),
        )
        console = Console(stderr=True) if self.json else console
        return run_lab(console, design, plans, self.out, self.panel2, self.json)
