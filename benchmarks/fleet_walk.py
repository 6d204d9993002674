"""A fleet on two cores trains on native MuJoCo: with updates that wait and updates that do not, with the
policy in each actor and in one service, beside one process.

    python benchmarks/fleet_walk.py                    two cores: one run after the other
    python benchmarks/fleet_walk.py --cores 16         eight runs side by side, each on two cores of its own
    python benchmarks/fleet_walk.py --estimate         a few updates of one process: how long a run takes here
    python benchmarks/fleet_walk.py --quick --out /tmp/w.json --runs /tmp/w      shows that all of it runs

A run is what `surefoot train TASK --engine mujoco [--actors 2 ...]` makes, trained, confirmed, audited and
with its report, which is kept in fleet_walk_reports.tar.gz. Every evaluation on the selection half is judged
by the task's rule and, from the same episodes, by mean errors alone, as version 1 of the rule did: walk-flat
marches where it is told to stand, which today's rule takes for a failure (docs/measurements/learning.md). The
mark is the first of two evaluations in a row at 95%; by the task's rule training ends there. A run that is in
the JSON is not made again.
"""

from __future__ import annotations

import surefoot.cli  # noqa: F401  # isort: skip  # first: how waiting threads behave, before torch is loaded

import tarfile
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from fleet_judged import by_mean_errors, spoken
from fleet_slots import Job, Row, Table, run_all
from surefoot.artifacts import read_table
from surefoot.contract import Success
from surefoot.evidence import judgement
from surefoot.runs import RunFolder, load_audit, load_result, read_ledger

OUT = Path(__file__).with_name("fleet_walk.json")
MARK = 0.95
CASES: dict[str, tuple[str, ...]] = {
    "one process": (),
    "sync, local": ("--actors", "2", "--sync"),
    "async, local": ("--actors", "2"),
    "sync, central": ("--actors", "2", "--sync", "--inference", "central"),
    "async, central": ("--actors", "2", "--inference", "central"),
}
MEANS = (
    "fleet.lag.mean", "fleet.corrected_share", "fleet.clipped_share", "fleet.dropped_share",
    "fleet.learner.utilisation", "fleet.learner.waiting_s", "fleet.learner.busy_s", "fleet.read_s",
    "fleet.bytes_per_transition", "fleet.inference.rows", "fleet.inference.trip_ms.p50",
    "fleet.inference.trip_ms.p99",
)  # fmt: skip
"""Columns of the ledger whose means over the updates a row has."""
TINY = ("--envs", "64", "--horizon", "8", "--scenarios", "40")


@dataclass(frozen=True)
class Args:
    tasks: tuple[str, ...] = ("walk-flat", "trot-flat")
    cases: tuple[str, ...] = tuple(CASES)
    seeds: tuple[int, ...] = (1,)
    updates: int = 500
    minutes: float = 6.0
    """Most minutes of training of a run, evaluation not counted."""
    evaluate_every: int = 50
    most: int | None = None
    """Runs to make at most."""
    cores: int = 2
    """To use, two for a run."""
    estimate: bool = False
    quick: bool = False
    runs: Path = Path("runs/fleet-walk")
    """Where the runs come to be."""
    commit: str | None = None
    """Of the sources, where git does not say it."""
    out: Path = OUT


def folder(args: Args, task: str, case: str, seed: int) -> Path:
    return args.runs.resolve() / f"{task}-{case.replace(', ', '-').replace(' ', '-')}-{seed}"


def job(args: Args, task: str, case: str, seed: int, more: tuple[str, ...]) -> Job:
    where = folder(args, task, case, seed)
    command = ["-m", "surefoot", "train", task, "--engine", "mujoco", "--seed", str(seed), *CASES[case]]
    limits = {"updates": args.updates, "minutes": args.minutes, "until": MARK}
    asked = limits | {
        "evaluate-every": args.evaluate_every,
        "perturb": "none",
        "tracker": "none",
        "out": where,
    }
    command += [*more, "--quiet", *(x for k, v in asked.items() for x in (f"--{k}", str(v)))]
    said = {"task": task, "case": case, "seed": seed}
    left, limit = where / "report.html", 60 * args.minutes + 900
    return Job(f"{task} {case} seed {seed}", command, lambda: said | found(where), left, limit)


def found(where: Path) -> Row:
    """Reads what a run came to."""
    run = RunFolder.open(where)
    result, ledger, audit = load_result(run), read_ledger(where / "ledger.jsonl")[0], load_audit(where)
    limits, figures = run.record.contract.success, run.record.figures
    assert isinstance(limits, Success)
    assert audit is not None
    curve = [point(run, r, limits) for r in ledger if "evaluation.success" in r]
    named = ("updates", "samples", "train_seconds", "evaluation_seconds", "startup_seconds", "chosen_update")
    return {
        **{k: figures.get(k) for k in named},
        "steps_per_second": figures.get("steps_per_second"),
        "collection": run.record.collection,
        "panel": result.summary.panel,
        "engine": result.engine,
        "held_out": spoken(result.rows["success"], result.rows["family"]),
        "mean_errors": spoken(by_mean_errors(result.rows, limits), result.rows["family"]),
        "fall_rate": result.summary.fall_rate,
        "verdict": judgement(result).word,
        "audit": audit.says,
        "findings": [{"detector": f.detector, "kind": f.kind, "says": f.statement} for f in audit.findings],
        "curve": curve,
        "reached": {k: reached(curve, k) for k in ("success", "mean_errors")},
        "fleet": of_fleet(ledger),
        "report_bytes": (where / "report.html").stat().st_size,
    }


def point(run: RunFolder, row: Row, limits: Success) -> Row:
    """Returns how an evaluation while training went."""
    panels = run.path / "panels" / run.record.panel
    rows = read_table(panels / f"selection-update-{row['update']:06d}" / "episodes.parquet")
    return {
        "update": row["update"],
        "samples": row["samples"],
        "train_seconds": row["train_seconds"],
        "success": row["evaluation.success"],
        "mean_errors": float(by_mean_errors(rows, limits).mean()),
    }


def reached(curve: list[Row], by: str) -> Row | None:
    """Returns the first of two evaluations in a row at the mark; None where there are none."""
    pairs = (a for a, b in pairwise(curve) if min(a[by], b[by]) >= MARK)
    return next(({k: a[k] for k in ("update", "samples", "train_seconds", by)} for a in pairs), None)


def of_fleet(ledger: list[Row]) -> dict[str, Any] | None:
    """Returns what the ledger says of a fleet; None of one process."""
    rows = [r for r in ledger if "fleet.lag.mean" in r]
    if not rows:
        return None
    there = [k for k in MEANS if rows[-1].get(k) is not None]
    said: dict[str, Any] = {k: float(np.mean([r[k] for r in rows if r[k] is not None])) for k in there}
    last = rows[-1]
    books = ("issued", "trained", "dropped", "lost", "open")
    return said | {
        "lag_most": max(r["fleet.lag.max"] for r in rows),
        "books": {k: last[f"fleet.{k}"] for k in books},
        "replaced": last["fleet.replaced"],
        "rate_by_actor": last["fleet.rate.by_actor"],
    }


def told(row: Row) -> str:
    h, e = row["held_out"], row["mean_errors"]
    at = row["reached"]["mean_errors"]
    return (
        f"{row['task']}, {row['case']}, seed {row['seed']}: {row['train_seconds']:.0f} s, "
        f"{row['samples']:,} samples, {row['steps_per_second']:,.0f}/s; held out {h['success']:.1%} "
        f"({h['low']:.1%} to {h['high']:.1%}), by mean errors {e['success']:.1%}, {row['verdict']}; "
        f"95% by mean errors after {at['train_seconds'] if at else float('nan'):.0f} s; {row['audit']}"
    )


def keep_reports(args: Args, table: Table) -> None:
    """Packs the reports of all runs that are there."""
    with tarfile.open(args.out.with_name(args.out.stem + "_reports.tar.gz"), "w:gz") as packed:
        for r in table.rows:
            page = folder(args, r["task"], r["case"], r["seed"]) / "report.html"
            if page.is_file():
                packed.add(page, f"{page.parent.name}.html")


def main(args: Args) -> None:
    more: tuple[str, ...] = ()
    if args.quick:
        args = replace(args, tasks=args.tasks[:1], updates=4, evaluate_every=2)
        more = TINY
    if args.estimate:
        args = replace(args, tasks=args.tasks[:1], cases=args.cases[:1], updates=20, evaluate_every=20)
    table = Table(args.out, args.quick or args.estimate, args.commit)
    jobs = [
        job(args, task, case, seed, more)
        for seed in args.seeds
        for task in args.tasks
        for case in args.cases
        if not table.has(task=task, case=case, seed=seed)
    ][: args.most]

    def done(row: Row) -> None:
        table.add(row)
        print(told(row), flush=True)
        keep_reports(args, table)

    failed = run_all(jobs, args.cores, 2, done)
    print(f"{len(table.rows)} runs in {args.out}, {len(failed)} failed.")
    if args.estimate and table.rows:
        estimate(table.rows[-1])


def estimate(row: Row) -> None:
    """Says how long a whole run takes, from a short one."""
    own = Args()
    steps = row["train_seconds"] / row["updates"] * own.updates
    evaluated = row["evaluation_seconds"] * own.updates / own.evaluate_every
    beside = row["process_seconds"] - row["train_seconds"] - row["evaluation_seconds"]
    print(
        f"{own.updates} updates: {steps / 60:.1f} minutes of training, {evaluated / 60:.1f} of evaluation, "
        f"{beside / 60:.1f} to begin, confirm and audit."
    )


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
