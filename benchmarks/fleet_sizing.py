"""Fleets as they were predicted and as they are: does sizing by measured parts hold?

    python benchmarks/fleet_sizing.py --set small                 two cores, a learner on them
    python benchmarks/fleet_sizing.py --set large --device cuda   16 cores and a GPU; at most seven minutes
    python benchmarks/fleet_sizing.py --set large --quick         a look at whether it runs

What is measured, and how it is predicted, stands in fleet_sizing_plan.json, which was there before. First all
parts are measured and every prediction is written, by the formula of `surefoot size` and by the simulation of
the protocol; then each fleet trains, and its row is written. `--resume` goes on with what is missing.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gymnasium
import torch

from fleet_model import here, measured_from
from fleet_protocol import play
from machines import about, device_name, keep, kept
from surefoot.compute import ONE_CORE, cores, prepare_torch
from surefoot.contract import SurefootError
from surefoot.fleet import FleetOptions
from surefoot.fleet.fragment import Key
from surefoot.fleet.on_ray import Cluster, FleetTrainer, measure, predict
from surefoot.fleet.on_ray.acting import make_policy, weights_of
from surefoot.fleet.on_ray.actor import FleetActor, order_of
from surefoot.learners import Ppo
from surefoot.rollout import RolloutBlock
from surefoot.training import UNOBSERVED, Limits, Plan, begin_tracker, make_plan, new_run
from surefoot.training.observers import Silent

HERE = Path(__file__).parent
SIZES = (4, 16, 64, 256)
"""Of actors whose fragments are timed, below the largest that a part has."""
WINDOWS, FIRST = 5, 3
"""Windows of updates that are measured, and updates before them that are not."""
NEVER = 1_000_000
WITHIN = 0.15


def plan_of(said: dict[str, Any], device: str, epochs: int | None, collection: str = "") -> Plan:
    more = {"checkpoint_every": NEVER} | ({} if epochs is None else {"epochs": epochs})
    recipe = {k: tuple(v) if isinstance(v, list) else v for k, v in said["recipe"].items()}
    return make_plan(
        said["task"],
        engine=said["engine"],
        device=device,
        overrides=recipe | more,
        collection=collection,
        by_actors=True,
    )


def sized_epochs(said: dict[str, Any], device: str, actors: float, folder: Path) -> int:
    """Returns the epochs with which a learner takes what `actors` actors make, by a short look at both."""
    plan = plan_of(said, device, 5)
    envs = plan.recipe.envs // 12
    before = os.environ.get(ONE_CORE)
    actor = FleetActor(order_of(plan, bytes(16), folder), range(envs), 0, 0, 0)
    if before is None:
        del os.environ[ONE_CORE]
    weights, times = weights_of(make_policy(plan)), []
    for k in range(4):
        begun = time.perf_counter()
        actor.collect(Key(0, 0, k), 0, weights)
        times.append(time.perf_counter() - begun)
    rate = envs * plan.recipe.horizon / statistics.median(times[1:])
    seconds = [_update_s(plan_of(said, device, e)) for e in (2, 4)]
    each = (seconds[1] - seconds[0]) / 2
    wanted = plan.recipe.samples_per_update / (actors * rate)
    return max(1, round((wanted - (seconds[0] - 2 * each)) / each))


def _update_s(plan: Plan) -> float:
    c, r, device = plan.task.contract, plan.recipe, torch.device(plan.device)
    learner = Ppo(c, r, plan.mirror(device), plan.seeds, device)
    block = RolloutBlock.empty(
        r.horizon, r.envs, c.observation_size, c.critic_size, c.action.size, len(c.rewards), device
    )
    for x in (block.obs, block.critic, block.action, block.advantage):
        x.normal_()
    times = []
    for _ in range(4):
        begun = time.perf_counter()
        learner.update(block)
        float(learner.parameters[0])  # waits for the device
        times.append(time.perf_counter() - begun)
    return statistics.median(times[1:])


class Watch(Silent):
    """Notes when each update was recorded, and its row."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, Mapping[str, Any]]] = []

    def show(self, row: Mapping[str, Any], successes: Sequence[float]) -> None:
        self.rows.append((time.perf_counter(), row))

    def note(self, text: str) -> None:
        print(f"    {text}", flush=True)


def fleet_run(plan: Plan, actors: int, updates: int, folder: Path) -> dict[str, Any]:
    """Trains a fleet for so many updates, and says what its rows say, by window."""
    options, watch = FleetOptions(actors=actors, max_lag=1), Watch()
    run = new_run(plan, str(folder))
    trainer = FleetTrainer(plan, run, options, select=False)
    try:
        trainer.train(Limits(updates), watch, begin_tracker(run, "none", False, UNOBSERVED.note))
    finally:
        trainer.close()
    each = (updates - FIRST) // WINDOWS
    samples = plan.recipe.samples_per_update
    rates, shares, rest = [], [], []
    for k in range(WINDOWS):
        first, last = FIRST - 1 + k * each, FIRST - 1 + (k + 1) * each
        took = watch.rows[last][0] - watch.rows[first][0]
        rows = [r for _, r in watch.rows[first + 1 : last + 1]]
        busy, waited = (sum(r[f"fleet.learner.{what}_s"] for r in rows) for what in ("busy", "waiting"))
        rates.append(each * samples / took)
        shares.append(busy / (busy + waited))
        rest.append((took - busy - waited) / each)
    seen = [r for _, r in watch.rows[FIRST:]]
    return {
        "updates": updates,
        "rate_per_s": statistics.median(rates),
        "rates_per_s": rates,
        "spread": (max(rates) - min(rates)) / statistics.median(rates),
        "utilisation": statistics.median(shares),
        "utilisations": shares,
        "rest_s": statistics.median(rest),
        "update_s": statistics.median(r["fleet.learner.busy_s"] for r in seen),
        "lag_mean": statistics.mean(r["fleet.lag.mean"] for r in seen),
        "lag_max": max(r["fleet.lag.max"] for r in seen),
        "collecting_s": statistics.median(r["fleet.age_s.collecting"] for r in seen),
        "broadcast_s": statistics.median(r["fleet.age_s.broadcast"] for r in seen),
        "transport_s": statistics.median(r["fleet.age_s.transport"] for r in seen),
        "replaced": seen[-1]["fleet.replaced"],
    }


class Bench:
    """What is written, after every row."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.begun = args, time.perf_counter()
        self.plan = json.loads((HERE / "fleet_sizing_plan.json").read_text())
        self.device = torch.device(args.device)
        name = device_name(self.device)
        old = kept(args.out).get(name, {}) if args.resume else {}
        self.entry: dict[str, Any] = old or {
            **about(self.device, args.quick),
            "cores": cores(),
            "load": os.getloadavg()[0],
            "cpu": device_name(torch.device("cpu")),
            "parts": {},
            "predictions": [],
            "runs": [],
        }

    def keep(self) -> None:
        keep(self.args.out, self.device, self.entry, schema_version=1)

    @functools.cached_property
    def wanted(self) -> list[tuple[str, int, bool]]:
        chosen = self.plan[self.args.set]
        out = [(p, m, ten) for ten, key in ((True, "ten"), (False, "more")) for p, m in chosen[key]]
        out = [(self._there(p), m, ten) for p, m, ten in out]
        return [x for x in out if x[1] <= 2] if self.args.quick else out

    def _there(self, part: str) -> str:
        """Returns the part, or what takes its place where its environments cannot be made."""
        said = self.plan["parts"][part]
        if "else" not in said or part in self.entry["parts"]:
            return part
        try:
            plan_of(said, "cpu", None).environments(range(1)).close()
        except (SurefootError, ImportError, gymnasium.error.Error) as error:
            print(f"{said['task']} cannot be made here ({error}): {said['else']} instead")
            return str(said["else"])
        return part

    def parts(self, folder: Path) -> None:
        for name in dict.fromkeys(p for p, _, _ in self.wanted):
            if name in self.entry["parts"]:
                continue
            begun, said = time.perf_counter(), self.plan["parts"][name]
            epochs = None
            if said.get("sized"):
                wanted = 1.0 if self.args.quick else self.plan["actors_per_learner"]
                epochs = sized_epochs(said, self.args.device, wanted, folder / "look")
            plan = plan_of(said, self.args.device, epochs)
            most = plan.recipe.envs // min(m for p, m, _ in self.wanted if p == name)
            there = (*(n for n in SIZES if n < most), most) if most > SIZES[2] else SIZES[:3]
            sizes, repeats = ((4, 16), 2) if self.args.quick else (there, 5)
            m = measure(plan, folder / name, sizes, repeats)
            self.entry["parts"][name] = {
                "task": said["task"],
                "engine": plan.engine,
                "epochs": plan.recipe.epochs,
                "hidden": plan.recipe.hidden,
                "envs": plan.recipe.envs,
                "measured": asdict(m),
                "took_s": time.perf_counter() - begun,
            }
            self.keep()
            one = predict(m, plan.recipe.envs, 1)
            print(
                f"{name}: an actor {one.limits['actors']:,.0f}/s, the learner {one.limits['learner']:,.0f}/s"
            )

    def predictions(self) -> None:
        """Writes all of them down; those that are written stay as they are."""
        if self.entry["predictions"]:
            return
        for name, actors, ten in self.wanted:
            part = self.entry["parts"][name]
            m, envs = measured_from(part["measured"]), part["envs"] // actors
            formula, played = predict(m, envs, actors), play(here(m, actors, envs))
            self.entry["predictions"].append(
                {
                    "part": name,
                    "actors": actors,
                    "among_the_ten": ten,
                    "envs_per_actor": envs,
                    "rate_per_s": formula.rate,
                    "utilisation": formula.utilisation,
                    "binds": formula.binds,
                    "simulated": asdict(played),
                }
            )
        self.keep()

    def fleets(self, folder: Path) -> None:
        done = {(r["part"], r["actors"]) for r in self.entry["runs"]}
        for p in self.entry["predictions"]:
            name, actors = p["part"], p["actors"]
            spent = (time.perf_counter() - self.begun) / 60
            if (name, actors) in done or spent > self.args.minutes:
                continue
            part, said = self.entry["parts"][name], self.plan["parts"][name]
            collection = FleetOptions(actors=actors, max_lag=1).collection
            plan = plan_of(said, self.args.device, part["epochs"], collection)
            seconds = 2.0 if self.args.quick else self.args.seconds
            per_window = round(seconds * p["rate_per_s"] / plan.recipe.samples_per_update / WINDOWS)
            updates = FIRST + WINDOWS * max(1, min(per_window, 100))
            begun = time.perf_counter()
            try:
                found = fleet_run(plan, actors, updates, folder / f"{name}-{actors}")
            except SurefootError as error:  # the others are measured all the same
                print(f"{name}, {actors} actors: {error}", flush=True)
                continue
            row = {"part": name, "actors": actors} | found
            row["error"] = p["rate_per_s"] / row["rate_per_s"] - 1
            row["simulated_error"] = p["simulated"]["samples_per_s"] / row["rate_per_s"] - 1
            row["took_s"] = time.perf_counter() - begun
            self.entry["runs"].append(row)
            self.keep()
            print(
                f"{name}, {actors} actors: predicted {p['rate_per_s']:,.0f}/s, simulated "
                f"{p['simulated']['samples_per_s']:,.0f}, measured {row['rate_per_s']:,.0f} "
                f"(spread {row['spread']:.0%}); the learner works {p['utilisation']:.0%}, "
                f"{p['simulated']['busy']:.0%}, {row['utilisation']:.0%}; took {row['took_s']:.0f} s",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--set", choices=("small", "large"), default="small")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cores", type=int, help="use so many of this machine's")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each fleet's windows together")
    parser.add_argument("--minutes", type=float, default=6.3, help="no fleet is begun later than this")
    parser.add_argument("--parts-only", action="store_true", help="measure parts and write predictions")
    parser.add_argument("--resume", action="store_true", help="keep the rows that are there")
    parser.add_argument("--quick", action="store_true", help="small and short, to see that it runs")
    parser.add_argument("--out", type=Path, default=HERE / "fleet_sizing.json")
    args = parser.parse_args()
    if args.cores is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.cores])
    prepare_torch()
    bench = Bench(args)
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(None, cores() + 4, 256 << 20)
        try:
            bench.parts(Path(folder))
            bench.predictions()
            if not args.parts_only:
                bench.fleets(Path(folder))
        finally:
            cluster.close()
    ten = {(p["part"], p["actors"]) for p in bench.entry["predictions"] if p["among_the_ten"]}
    errors = [abs(r["error"]) for r in bench.entry["runs"] if (r["part"], r["actors"]) in ten]
    print(f"{sum(e <= WITHIN for e in errors)} of {len(errors)} predicted within {WITHIN:.0%}.")


if __name__ == "__main__":
    main()
