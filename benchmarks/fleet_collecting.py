"""What a fleet costs where it only collects: two actors whose fragments the learner receives, verifies and
drops, against two processes that roll out the same environments and never talk to anybody.

    python benchmarks/fleet_collecting.py            eleven minutes on two idle cores; fleet_collecting.json
    taskset -c 14,15 python benchmarks/fleet_collecting.py --cases 0 1     two cases, on two cores of many
    python benchmarks/fleet_collecting.py --quick --out /tmp/c.json      shows that all of it runs

Both are there all the time, and take turns: a window of the one while the other waits, then the other way
round. Of each window the first part does not count: the fleet's queue was full, and neither begins from a
halt. A new version of the policy is published for every block, as in training. With learning: how many
samples a second a whole training makes of the same environments, by one process, by a fleet whose updates
wait and by one whose updates do not.
"""

from __future__ import annotations

import surefoot.cli  # noqa: F401  # isort: skip  # first: how waiting threads behave, before torch is loaded

import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import tyro

from fleet_slots import Row, Table
from surefoot.compute import ONE_CORE, prepare_torch
from surefoot.fleet import FleetOptions
from surefoot.fleet.on_ray import FleetTrainer
from surefoot.fleet.on_ray.acting import TiledPolicy, make_policy, weights_of
from surefoot.fleet.on_ray.actor import Half, order_of
from surefoot.fleet.on_ray.cluster import Cluster
from surefoot.fleet.on_ray.crew import Crew, Setting
from surefoot.fleet.on_ray.placement import Places
from surefoot.runs import read_ledger
from surefoot.training import UNOBSERVED, Limits, Plan, Trainer, begin_tracker, make_plan, new_run

OUT = Path(__file__).with_name("fleet_collecting.json")
FLEETS = {
    "one process": None,
    "a fleet that waits": FleetOptions(actors=2, sync=True),
    "a fleet that does not wait": FleetOptions(actors=2),
}


@dataclass(frozen=True)
class Case:
    """Environments that are rolled out."""

    task: str
    engine: str
    envs: int
    horizon: int = 16

    def plan(self, collection: str = "") -> Plan:
        recipe: dict[str, Any] = {"envs": self.envs, "horizon": self.horizon}
        if self.task.startswith("gym:"):
            return make_plan(self.task, overrides=recipe, device="cpu", collection=collection)
        never = {"evaluate_every": 1_000_000, "checkpoint_every": 1_000_000}
        return make_plan(
            self.task, overrides=recipe | never, engine=self.engine, device="cpu", collection=collection
        )

    @property
    def said(self) -> Row:
        return {"task": self.task, "engine": self.engine, "envs": self.envs, "horizon": self.horizon}


CASES = (
    Case("walk-flat", "mujoco", 768),
    Case("walk-flat", "mujoco", 128),
    Case("walk-flat", "stride", 768),
    Case("gym:HalfCheetah-v5", "gymnasium", 32, 64),
)


@dataclass(frozen=True)
class Args:
    rounds: int = 6
    """Windows of each."""
    seconds: float = 5.0
    """That count, of each window."""
    settle: float = 2.0
    """Of each window, that do not."""
    learning: float = 12.0
    """Seconds of each training; 0: none."""
    cases: tuple[int, ...] = tuple(range(len(CASES)))
    quick: bool = False
    commit: str | None = None
    """Of the sources, where git does not say it."""
    out: Path = OUT


# ---- processes that never talk


def roll_out(case: Case, number: int, line: Connection) -> None:
    """Rolls out half of the environments whenever it is told for how long."""
    os.environ[ONE_CORE] = "1"
    prepare_torch()
    plan = case.plan()
    share = case.envs // 2
    part = range(number * share, (number + 1) * share)
    half = Half(plan, part, 0, TiledPolicy(make_policy(plan), part, case.envs, tiled=False))
    half.rollout()
    line.send(0.0)
    while (asked := line.recv()) is not None:
        settle, seconds = asked
        until = time.perf_counter() + settle
        while time.perf_counter() < until:
            half.rollout()
        begun, samples = time.perf_counter(), 0
        while (spent := time.perf_counter() - begun) < seconds:
            half.rollout()
            samples += share * case.horizon
        line.send(samples / spent)


class Alone:
    """Two processes that never talk but to say how fast they were."""

    def __init__(self, case: Case) -> None:
        context = multiprocessing.get_context("spawn")
        self._lines: list[Connection] = []
        self._processes = []
        for number in range(2):
            ours, theirs = context.Pipe()
            process = context.Process(target=roll_out, args=(case, number, theirs), daemon=True)
            process.start()
            self._lines.append(ours)
            self._processes.append(process)
        self._answers()

    def _answers(self) -> list[float]:
        return [line.recv() for line in self._lines]

    def rate(self, settle: float, seconds: float) -> float:
        """Returns the samples a second of both together."""
        for line in self._lines:
            line.send((settle, seconds))
        return sum(self._answers())

    def close(self) -> None:
        for line in self._lines:
            line.send(None)
        for process in self._processes:
            process.join(30)


# ---- a fleet that only collects


class Collecting:
    """Two actors, and a learner that receives their fragments, verifies and drops them."""

    def __init__(self, case: Case, folder: Path) -> None:
        plan = case.plan()
        self._folder, options = folder, FleetOptions(actors=2)
        cluster = Cluster(None, 3, plan.accounting.buffer_bytes * 4)
        order = order_of(plan, bytes(16), folder, tiled=False)
        parts = options.parts(plan.recipe)
        places = Places(cluster.ray, 2, None, "cpu")
        self._crew = Crew(cluster, Setting(order, parts, options.lag, False, False, folder, places))
        self._weights = weights_of(make_policy(plan))
        self._crew.publish(0, self._weights)
        self._take()

    def _take(self) -> int:
        """Takes a block, drops it and publishes the next version; returns its samples."""
        used = self._crew.fill(len(self._crew.members))
        self._crew.publish(self._crew.version + 1, self._weights)
        return sum(a.fragment.header.horizon * a.fragment.header.envs for a in used)

    def rate(self, settle: float, seconds: float) -> float:
        until = time.perf_counter() + settle
        while time.perf_counter() < until:
            self._take()
        begun, samples = time.perf_counter(), 0
        while time.perf_counter() - begun < seconds:
            samples += self._take()
        spent = time.perf_counter() - begun
        while self._crew.under_way:  # until there is no room for tickets
            time.sleep(0.02)
        return samples / spent

    @property
    def books(self) -> dict[str, int]:
        return self._crew.books.row()

    def close(self) -> None:
        self._crew.close()


# ---- with learning


def learning(case: Case, options: FleetOptions | None, seconds: float, folder: Path) -> Row:
    """Trains for so many seconds; returns the rate behind the first updates, and where the time went."""
    plan = case.plan("" if options is None else options.collection)
    run = new_run(plan, str(folder))
    trainer: Trainer
    if options is None:
        trainer = Trainer(plan, run, select=False)
    else:
        trainer = FleetTrainer(plan, run, options, select=False)
    try:
        limits = Limits(minutes=seconds / 60)
        trainer.train(limits, UNOBSERVED, begin_tracker(run, "none", False, UNOBSERVED.note))
    finally:
        trainer.close()
    rows = read_ledger(run.path / "ledger.jsonl")[0]
    begun: Row = {"samples": 0, "train_seconds": 0.0}
    first, last = ([begun, *rows][min(5, len(rows) - 1)]), rows[-1]
    spent = last["train_seconds"] - first["train_seconds"]
    said = {"rate": (last["samples"] - first["samples"]) / spent, "updates": len(rows)}
    counted = rows[5:] or rows
    for name in ("fleet.learner.utilisation", "fleet.lag.mean", "seconds.learning", "seconds.environment"):
        if last.get(name) is not None:
            said[name] = statistics.fmean(r[name] for r in counted)
    return said


# ---- all of it


def measure(case: Case, args: Args) -> Row:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        alone, fleet = Alone(case), Collecting(case, folder / "fleet")
        try:
            rates = turns({"alone": alone.rate, "fleet": fleet.rate}, args)
            books = fleet.books
        finally:
            alone.close()
            fleet.close()
        cores = len(os.sched_getaffinity(0))
        row = case.said | summary(rates) | {"books": books, "cores": cores}
        if args.learning:
            row["learning"] = {
                name: learning(case, options, args.learning, folder / f"run{k}")
                for k, (name, options) in enumerate(FLEETS.items())
            }
    return row


def turns(what: dict[str, Callable[[float, float], float]], args: Args) -> dict[str, list[float]]:
    """Measures by turns, each round in the other order than the one before."""
    rates: dict[str, list[float]] = {name: [] for name in what}
    for k in range(args.rounds):
        for name in list(what)[:: -1 if k % 2 else 1]:
            rates[name].append(what[name](args.settle, args.seconds))
    return rates


def summary(rates: dict[str, list[float]]) -> Row:
    """Returns medians and ends of both, and of their ratios round by round."""
    ratios = [f / a for f, a in zip(rates["fleet"], rates["alone"], strict=True)]
    return {name: spread(values) for name, values in (*rates.items(), ("share", ratios))}


def spread(values: list[float]) -> Row:
    return {
        "median": statistics.median(values),
        "least": min(values),
        "most": max(values),
        "rounds": [round(x, 4) for x in values],
    }


def main(args: Args) -> None:
    prepare_torch()
    if args.quick:
        args = Args(rounds=2, seconds=0.5, settle=0.3, learning=1.0, cases=(1,), quick=True, out=args.out)
    table = Table(args.out, args.quick, args.commit)
    for case in (CASES[k] for k in args.cases):
        if table.has(**case.said):
            continue
        row = measure(case, args)
        table.add(row)
        share, rate = row["share"], row["fleet"]["median"]
        beside = ", ".join(f"{k} {v['rate']:,.0f}/s" for k, v in row.get("learning", {}).items())
        print(
            f"{case.task} on {case.engine}, {case.envs} environments: {rate:,.0f}/s, {share['median']:.1%} "
            f"of processes that never talk ({share['least']:.1%} to {share['most']:.1%}); learning: {beside}",
            flush=True,
        )


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
