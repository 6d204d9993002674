"""What `surefoot compare-learners` does: train every learner with every seed, judge all alike, note it."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from rich.console import Console

from surefoot.artifacts import atomic_write, write_json
from surefoot.contract import SurefootError, Timeouts, columns
from surefoot.evidence import LearnerComparison, LearnerFigures, compare_learners, rows_of
from surefoot.reporting import learner_chart, learner_page, plain_table
from surefoot.runs import RunFolder
from surefoot.statistics import Estimate
from surefoot.training import robot_plan, train_planned

INTERRUPTED = (130, 143)


def compare_all(
    console: Console,
    task: str,
    learners: tuple[str, ...],
    seeds: int,
    overrides: dict[str, Any],
    first_seed: int,
    engine: str,
    device: str,
    updates: int,
    perturb: tuple[str, ...],
    timeouts: Timeouts,
    out: str,
    as_json: bool,
) -> int:
    """Seed by seed, so that a comparison that is cut short has all learners with the seeds that it has. Runs
    that are already there, trained alike, are taken as they are."""
    check_learners(learners, seeds)
    plans = {
        (learner, seed): robot_plan(
            task, overrides=overrides, seed=seed, engine=engine, device=device, learner=learner,
            timeouts=timeouts,
        )
        for seed in range(first_seed, first_seed + seeds)
        for learner in learners
    }  # fmt: skip
    columns(next(iter(plans.values())).panel, perturb)
    runs: list[RunFolder] = []
    for k, ((learner, seed), plan) in enumerate(plans.items()):
        folder = Path(out) / f"{learner}-seed{seed}"
        console.print(f"[bold]{learner}, seed {seed}[/bold] ({k + 1} of {len(plans)})", highlight=False)
        code = train_planned(console, plan, folder, updates, perturb)
        if code in INTERRUPTED:
            return code
        runs.append(RunFolder.open(folder))
    return write_comparison(console, runs, Path(out), as_json)


def check_learners(learners: tuple[str, ...], seeds: int) -> None:
    if len(set(learners)) != len(learners) or len(learners) < 2:
        raise SurefootError(
            "A comparison needs two or more learners, each once, e.g. --learners ppo rsl_rl; "
            "`surefoot train TASK --learner L` trains one alone."
        )
    if seeds < 1:
        raise SurefootError(f"--seeds is {seeds}; use 1 or more.")


def write_comparison(console: Console, runs: list[RunFolder], out: Path, as_json: bool) -> int:
    """comparison.json, .csv, .svg and .html in `out`, and a table for people."""
    found = compare_learners(runs)
    write_json(out / "comparison.json", found)
    atomic_write(out / "comparison.csv", table_text(found).encode())
    atomic_write(out / "comparison.svg", learner_chart(found).encode())
    atomic_write(out / "comparison.html", learner_page(found).encode())
    if as_json:
        print(found.model_dump_json(indent=2))
    else:
        print_learners(console, found)
        console.print(f"\n{out / 'comparison.html'}", highlight=False, markup=False, soft_wrap=True)
    return 0


def table_text(found: LearnerComparison) -> str:
    rows = rows_of(found)
    names = list(dict.fromkeys(k for row in rows for k in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def print_learners(console: Console, c: LearnerComparison) -> None:
    table = plain_table(
        f"{c.task}: {c.samples:,} samples each, {c.panel}, {c.half} half; 95% intervals over training seeds",
        "learner", "seeds", "success", "steps/s", "minutes", "95% reached", "samples to it", "syncs/step",
    )  # fmt: skip
    for of in c.learners:
        table.add_row(
            of.learner if of.timeouts != "corrected" else f"{of.learner}, corrected",
            str(len(of.seeds)) + (f", {len(of.failed)} failed" if of.failed else ""),
            rate_text(of.columns["nominal"]),
            f"{of.steps_per_second.value:,.0f}",
            f"{of.train_minutes.value:.1f}",
            f"{of.reached.seeds} of {of.reached.of}",
            samples_text(of),
            "not measured" if of.host_syncs_per_step is None else f"{of.host_syncs_per_step:.1f}",
        )
    console.print(table, highlight=False)
    names = c.learners[0].column_names
    if len(names) > 1:
        worse = plain_table("Success under disturbances", "column", *[of.learner for of in c.learners])
        for name in names[1:]:
            worse.add_row(name, *[rate_text(of.columns[name]) for of in c.learners])
        console.print()
        console.print(worse, highlight=False)


def rate_text(f: Estimate) -> str:
    low, high = (100 * (x if x is not None else d) for x, d in ((f.low, 0.0), (f.high, 1.0)))
    return f"{100 * f.value:.1f}% ({low:.0f} to {high:.0f})"


def samples_text(of: LearnerFigures) -> str:
    """By seed: an interval only says something where every seed got there."""
    return " ".join("-" if s is None else f"{s / 1e6:.2f}M" for s in of.reached.samples)
