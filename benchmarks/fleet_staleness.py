"""What lag costs, and what correcting for it saves: the same training with experience that is exactly so many
versions of the policy old.

    python benchmarks/fleet_staleness.py --cores 16      all runs, a core each; writes fleet_staleness.json
    python benchmarks/fleet_staleness.py --quick --out /tmp/s.json --runs /tmp/s     shows that all of it runs

Lag is imposed: the learner keeps its last versions, weights and normaliser together, and actors are given the
one of so many updates before, so that lag is no matter of speed and a run repeats to the bit. An update waits
for its fragment. Corrected: by V-trace against the policy at the start of the update, as a fleet does it.
Uncorrected: the experience is taken for that policy's own. Ratio (only where it is asked for): nothing is
done but that PPO's ratio, and with it its clipping, is against the policy that acted.

Nothing is chosen while it trains: the last policy is scored on all scenarios of the confirmation half, on
stride, without exploration noise. A run that is in the JSON is not made again.
"""

from __future__ import annotations

import surefoot.cli  # noqa: F401  # isort: skip  # first: how waiting threads behave, before torch is loaded

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from fleet_judged import by_mean_errors, spoken
from fleet_slots import Job, Row, Table, run_all
from surefoot.artifacts import write_json
from surefoot.compute import prepare_torch
from surefoot.evaluation import PanelEvaluator
from surefoot.fleet import FleetOptions
from surefoot.fleet.on_ray import FleetTrainer
from surefoot.fleet.options import Correction
from surefoot.runs import read_ledger
from surefoot.training import UNOBSERVED, Limits, begin_tracker, make_plan, new_run

OUT = Path(__file__).with_name("fleet_staleness.json")
LAGS = (0, 1, 2, 4, 8, 16)
FOLLOWED = ("kl", "clip_fraction", "fleet.corrected_share", "fleet.clipped_share", "learning_rate")
POINTS = 20
"""Places at which a row says how training stood."""


@dataclass(frozen=True)
class Args:
    task: str = "trot-flat"
    lags: tuple[int, ...] = LAGS
    corrections: tuple[Correction, ...] = ("vtrace", "none")
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    envs: int = 512
    updates: int = 240
    cores: int = 0
    """To use; 0: all that there are."""
    quick: bool = False
    runs: Path = Path("runs/fleet-staleness")
    """Where the runs come to be."""
    commit: str | None = None
    """Of the sources, where git does not say it."""
    out: Path = OUT
    one: tuple[int, Correction, int] | None = None
    """Makes this one run (lag, correction, seed) in this process."""


def recipe(args: Args) -> dict[str, Any]:
    never = {"evaluate_every": 1_000_000, "checkpoint_every": 1_000_000}
    return {"envs": args.envs} | never


def folder(args: Args, lag: int, correction: str, seed: int) -> Path:
    return args.runs.resolve() / f"{args.task}-{correction}-{lag}-{seed}"


def train(args: Args, lag: int, correction: Correction, seed: int) -> None:
    """Trains and scores one run; row.json in its folder says what came of it."""
    prepare_torch()
    options = FleetOptions(actors=1, imposed_lag=lag, correction=correction)
    plan = make_plan(
        args.task, overrides=recipe(args), seed=seed, engine="stride", device="cpu",
        collection=options.collection,
    )  # fmt: skip
    run = new_run(plan, str(folder(args, lag, correction, seed)))
    begun = time.perf_counter()
    trainer = FleetTrainer(plan, run, options, select=False)
    try:
        tracker = begin_tracker(run, "none", False, UNOBSERVED.note)
        trainer.train(Limits(args.updates), UNOBSERVED, tracker)
        policy = trainer.policy()
    finally:
        trainer.close()
    trained = time.perf_counter() - begun
    hz = plan.recipe.control_hz
    evaluator = PanelEvaluator(plan.task, plan.panel, "confirmation", hz, engine="stride")
    try:
        rows = evaluator.run(policy, traces=False).rows
    finally:
        evaluator.close()
    ledger = read_ledger(run.path / "ledger.jsonl")[0]
    said = {"task": args.task, "lag": lag, "correction": correction, "seed": seed}
    said |= {"updates": args.updates, "samples": ledger[-1]["samples"], "panel": plan.panel.name}
    said |= {"envs": args.envs, "horizon": plan.recipe.horizon, "train_seconds": round(trained, 2)}
    write_json(run.path / "row.json", said | judged(rows, plan.task.contract.success) | history(ledger))


def judged(rows: dict[str, np.ndarray], limits: Any) -> Row:
    """Says how the held-out episodes went: by the task's rule, and by mean errors alone."""
    fell = rows["fall"].astype(bool)
    return {
        "held_out": spoken(rows["success"], rows["family"]),
        "mean_errors": spoken(by_mean_errors(rows, limits), rows["family"]),
        "return": float(np.mean(rows["return"])),
        "fall_rate": float(fell.mean()),
        "velocity_error_mps": float(np.median(rows["velocity_error_mps"])),
    }


def history(ledger: Sequence[Row]) -> Row:
    """Says what lag was on the record, and how training went."""
    every = max(1, len(ledger) // POINTS)
    return {
        "lag_on_record": {
            "least": min(r["fleet.lag.min"] for r in ledger),
            "most": max(r["fleet.lag.max"] for r in ledger),
            "last": ledger[-1]["fleet.lag.mean"],
        },
        "mean": {k: float(np.mean([r[k] for r in ledger])) for k in FOLLOWED},
        "curve": [
            {"samples": r["samples"], "reward_per_step": r["reward_per_step"], "return": r["episode.return"]}
            for r in ledger[every - 1 :: every]
        ],
    }


def job(args: Args, lag: int, correction: Correction, seed: int) -> Job:
    where = folder(args, lag, correction, seed)
    command = [__file__, "--one", str(lag), correction, str(seed), "--runs", str(args.runs.resolve())]
    command += ["--task", args.task, "--envs", str(args.envs), "--updates", str(args.updates)]
    name = f"{args.task} lag {lag} {correction} seed {seed}"
    left = where / "row.json"
    return Job(name, command, lambda: dict(json.loads(left.read_text())), left)


def main(args: Args) -> None:
    if args.one is not None:
        train(args, *args.one)
        return
    if args.quick:
        args = Args(
            lags=(0, 2), seeds=(1,), envs=64, updates=6, cores=args.cores, quick=True, runs=args.runs,
            out=args.out,
        )  # fmt: skip
    table = Table(args.out, args.quick, args.commit)
    jobs = [  # a seed is whole before the next one begins
        job(args, lag, how, seed)
        for seed in args.seeds
        for lag in args.lags
        for how in args.corrections
        if not table.has(task=args.task, lag=lag, correction=how, seed=seed, updates=args.updates)
    ]

    def done(row: Row) -> None:
        table.add(row)
        h = row["held_out"]
        print(
            f"lag {row['lag']} {row['correction']} seed {row['seed']}: {h['success']:.1%} "
            f"({h['low']:.1%} to {h['high']:.1%}), return {row['return']:.2f}, "
            f"{row['process_seconds']:.0f} s",
            flush=True,
        )

    failed = run_all(compiled_first(args, jobs), args.cores, 1, done)
    print(f"{len(table.rows)} runs in {args.out}, {len(failed)} failed.")


def compiled_first(args: Args, jobs: list[Job]) -> list[Job]:
    """Compiles the kernels of the task once, and not in every process."""
    if jobs:
        plan = make_plan(args.task, overrides=recipe(args), engine="stride", device="cpu")
        plan.environments(range(plan.recipe.envs)).close()
        hz = plan.recipe.control_hz
        PanelEvaluator(plan.task, plan.panel, "confirmation", hz, engine="stride").close()
    return jobs


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
