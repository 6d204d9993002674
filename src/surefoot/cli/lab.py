"""`surefoot lab`: baselines, Surefoot's PPO and a maintained library on one panel, in one folder."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from surefoot.cli.options import UNCHANGED, RecipeOptions
from surefoot.cli.train import ending
from surefoot.contract import Timeouts
from surefoot.printing import ConsoleObserver, make_console, plain_table, say, say_commands

if TYPE_CHECKING:
    from surefoot.experiments.lab import Entry, LabDesign, LabRecord, Stage, Who
    from surefoot.sessions import TrainedRun
    from surefoot.training import RobotPlan


@dataclass(frozen=True)
class LabCommand:
    """Do the whole comparison in one command and one folder. It holds what the task promises, what baselines
    do, what Surefoot's PPO and a maintained library learn from the same samples on the same seeds, how all of
    them do on the same held-out scenarios and under one perturbation, and two failures or more to live again.

    Read lab.html; lab.json and lab.csv hold all of it. Started again with the same options it goes on where
    it stopped: runs that are there are not trained again, and nothing is overwritten.

    Example (under 5 minutes on two cores): surefoot lab --quick
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
    (docs/guides/learners.md says how to install them)."""
    seeds: int | None = None
    """Training seeds of each learner, from --seed on (default 3, with --quick 1)."""
    panel2: bool = False
    """Judge all policies on a second panel too, of other held-out seeds, and report only what both measured.
    May be added to a lab that is done."""
    updates: int | None = None
    """Updates of each run (default 200, with --quick the shared budget)."""
    timeouts: Timeouts = "stock"
    """As for `surefoot train`, for every library that it is wrong in."""
    options: RecipeOptions = UNCHANGED
    out: str | None = None
    """Folder of the lab (default: runs/lab-<task>, with -quick and the perturbation behind it)."""
    json: bool = False
    """Print lab.json at the end; everything else then goes to stderr."""

    def run(self, console: Console) -> int:
        from surefoot.compute import warm_up_gpu

        warm_up_gpu(self.options.device)
        from surefoot.experiments.lab import LabOptions, make_lab, run_lab
        from surefoot.runs import typed

        o = self.options
        design, plans = make_lab(
            LabOptions(
                task=self.task,
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
        )
        console = make_console(stderr=True) if self.json else console
        lab = run_lab(design, plans, LabDisplay(console), out=self.out, panel2=self.panel2)
        command = typed(*sys.argv[1:])
        if lab.record is None:
            say(console, f"Go on with: {command}")
        elif self.json:
            from surefoot.artifacts import plain

            print(json.dumps(plain(lab.record), indent=2))
        else:
            print_lab(console, lab.path, lab.record, command)
        return lab.exit_status


class LabDisplay(ConsoleObserver):
    """Prints which piece of work of a lab begins, and what came of every run in a line."""

    def lab_begins(self, path: Path, design: LabDesign, plan: RobotPlan, runs: int) -> None:
        r, a = plan.recipe, plan.accounting
        say(
            self.console,
            f"Lab folder: {path}\n{design.task}: {', '.join(design.learners)} x seeds "
            f"{', '.join(map(str, design.seeds))} = {runs} runs of "
            f"{design.updates * a.samples_per_update:,} samples "
            f"({design.updates} updates of {r.horizon} x {r.envs}, "
            f"networks {' x '.join(map(str, r.hidden))}, {r.epochs} epochs); "
            f"panel {plan.panel.name}; perturbation: {design.says}.",
        )

    def stage_begins(self, stage: Stage) -> None:
        left = "?" if stage.left_s is None else _clock(stage.left_s)
        say(
            self.console,
            f"[bold]{stage.number} of {stage.count}[/bold]  {stage.says}"
            f"[dim]  {_clock(stage.spent_s)} so far, ETA {left}[/dim]",
            markup=True,
        )

    def run_ended(self, trained: TrainedRun) -> None:
        from surefoot.runs import load_audit, resume_hint

        if trained.exit_status:
            say(self.console, ending(trained, resume_hint(trained.run) if trained.aborted else ""))
        s, f = trained.summary, trained.run.record.figures
        if s is not None:
            say(
                self.console,
                f"  {100 * s.success:.1f}% held-out success ({100 * s.success_low:.1f}% to "
                f"{100 * s.success_high:.1f}%, {s.episodes} episodes), "
                f"{f.get('steps_per_second') or 0:,.0f} steps/s, "
                f"{f.get('train_seconds') or 0:.0f} s of training",
            )
        audit = load_audit(trained.run.path) if s is not None else None
        if audit is not None:
            say(self.console, f"  {audit.says}", style="bold red" if audit.proof else None)


def _clock(seconds: float) -> str:
    return f"{int(seconds // 60)}:{int(seconds % 60):02d}"


def print_lab(console: Console, path: Path, lab: LabRecord, command: str) -> None:
    """Prints who did what, where it is and what to type next; `command` is what asked for the lab."""
    from surefoot.experiments.lab import headings, policies, shown
    from surefoot.runs import surefoot_command, typed

    p = lab.panels[0]
    two = f" | {lab.panels[1].name}" if len(lab.panels) > 1 else ""
    names = [h.title for h in headings(lab)]
    table = plain_table(
        f"{lab.design.task}: success on {p.episodes} held-out episodes of {p.name}{two}",
        "policy", *names,
    )  # fmt: skip
    for who in policies(lab):
        cells = [_success(lab, who, h.column, h.engine, h.sparse) for h in headings(lab)]
        table.add_row(who.title, *cells)
    console.print()
    console.print(table, highlight=False)
    for who in policies(lab):
        nominal = shown(lab, who, "nominal", headings(lab)[0].engine)
        if who.seed is not None and nominal is not None:
            say(console, f"{who.title} failed by: {_labels(nominal)}")
    for run in lab.runs:
        if run.status == "failed":
            say(console, f"{run.folder} failed: {run.error} (remove it to train it again)", style="red")
        if run.unproven:
            say(console, f"{run.folder} is Unproven by its audit: {run.unproven}", style="bold red")
    me, here = surefoot_command(), shlex.quote(str(path))
    verified = sum(c.verified for c in lab.cases)
    say(
        console,
        f"\n{verified} of {len(lab.cases)} failure cases verified by replay. {lab.cases_note}".rstrip(),
    )
    console.print("\n[bold]Where[/bold]")
    for name, what in (
        ("lab.html", "all of it on one page, the failures to play"),
        ("lab.json, lab.csv", "configuration, seeds, metrics, traces, labels"),
        ("runs/", "every run with its report, ledger, checkpoints and traces"),
    ):
        say(console, f"  {path}/{name}   # {what}")
    console.print("\n[bold]Next[/bold]")
    commands = [(f"cd {here} && {me} {c.replay}", f"{c.case.label} again") for c in lab.cases[:1]]
    commands += [(typed("serve", "--runs", path / "runs"), "every run's report, side by side")]
    if len(lab.panels) == 1:
        commands += [(f"{command} --panel2", "all of them on a second panel too")]
    say_commands(console, commands)


def _success(lab: LabRecord, who: Who, column: str, engine: str, sparse: bool) -> str:
    from surefoot.experiments.lab import shown

    if sparse and who.seed is None:
        return "not trained"
    e = shown(lab, who, column, engine, sparse=sparse)
    if e is None:
        return "not measured"
    f = e.found
    if len(lab.panels) > 1:
        again = shown(lab, who, column, engine, sparse=sparse, panel=2)
        return f"{100 * f.success:.1f}% | {100 * again.found.success:.1f}%" if again else "not both"
    return f"{100 * f.success:.1f}% ({100 * f.success_low:.0f} to {100 * f.success_high:.0f})"


def _labels(e: Entry) -> str:
    labels = sorted(e.found.labels.items(), key=lambda x: -x[1])
    return ", ".join(f"{k} {v}" for k, v in labels) or "none"
