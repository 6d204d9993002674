"""Training steps per second: the whole loop (rollout, advantages, update) on one device, and its peers.

    python benchmarks/gpu_training.py --peer-site SITE     minutes on a GPU; writes JSON and SVG beside it
    python benchmarks/gpu_training.py --quick              seconds, also without a GPU; figures mean nothing

Every configuration is measured twice: the loop alone (the trainer's cycle: two CUDA graphs and the copies of
their figures) and the trainer itself, which also writes the ledger. `logging` is what the trainer takes
longer than rollout, advantages and update. Parts are timed with CUDA events, launches counted by the profiler
on a run without graphs, and the update is set against the device's roofline (roofline.py). Peers run in
processes of their own, on the same device, afterwards. The JSON keeps what each device gave under its name;
tables.py puts it into docs/measurements/performance.md.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from machines import about, device_name, kept
from peers.run import peers
from performance_plots import plot_training
from roofline import Peaks, roofline
from surefoot.artifacts import write_json
from surefoot.compute.cores import prepare_torch
from surefoot.trackers import make_tracker
from surefoot.training.observers import Silent
from surefoot.training.plan import Plan
from surefoot.training.plan_makers import make_plan
from surefoot.training.selection import Limits
from surefoot.training.trainer import Trainer, new_run
from training_loop import Loop, captured, milliseconds, seconds, settle

SCHEMA_VERSION = 1
HERE = Path(__file__).parent
GIB = 2**30
NEVER = 10**9
SHOWN = 12
"""Kernels that the JSON names, of those that take longest."""


@dataclass(frozen=True)
class Case:
    """One configuration of `walk-flat`."""

    envs: int = 4096
    horizon: int = 24
    minibatches: int = 4
    epochs: int = 5
    hidden: tuple[int, ...] = (512, 256, 128)
    precision: str = "tf32"
    goal: float | None = None
    """Training steps per second that are aimed at."""
    families: int = 128

    def plan(self, device: str) -> Plan:
        precision = "fp32" if device == "cpu" else self.precision
        recipe = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "goal"}
        recipe |= {"precision": precision, "evaluate_every": NEVER, "checkpoint_every": NEVER}
        return make_plan("walk-flat", overrides=recipe, engine="stride", device=device)

    def __str__(self) -> str:
        sizes = "-".join(map(str, self.hidden))
        return (
            f"{self.envs:,} x {self.horizon}, {self.minibatches} x {self.epochs}, {sizes}, {self.precision}"
        )


SMALL = Case(epochs=3, hidden=(128, 128), goal=10e6)


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    table: tuple[Case, ...] = (Case(goal=4e6), Case(precision="bf16", goal=4.5e6), SMALL)
    scaling: tuple[Case, ...] = (
        *(replace(SMALL, envs=n, goal=None) for n in (1024, 4096, 16384, 65536, 262144)),
        Case(envs=262144),
    )
    rounds: int = 5
    round_seconds: float = 0.4
    trainer_updates: int = 80
    peer_options: tuple[str, ...] = ()


TINY = Case(envs=32, horizon=4, minibatches=2, epochs=1, hidden=(16, 16), families=4)
QUICK = Sizes(
    table=(replace(TINY, goal=4e6), replace(TINY, precision="bf16")),
    scaling=(TINY, replace(TINY, envs=64)),
    rounds=2,
    round_seconds=0.0,
    trainer_updates=4,
    peer_options=("--envs", "64", "--steps", "1", "--iterations", "2"),
)


# ---- one configuration


def loop_rates(loop: Loop, sizes: Sizes) -> list[float]:
    """Training steps per second of each round; a round is as many updates as fill its time."""
    once = seconds(loop.run, 1, loop.device)
    count = max(1, min(200, int(sizes.round_seconds / once)))
    samples = loop.plan.recipe.samples_per_update
    return [count * samples / seconds(loop.run, count, loop.device) for _ in range(sizes.rounds)]


def parts(loop: Loop, rounds: int, table: bool) -> dict[str, float]:
    """Milliseconds of an update by part. Advantages (with the values they need) are what `collect` takes
    longer than the rollout in it."""
    count = 10 if loop.device.type == "cuda" and loop.plan.recipe.envs < 65536 else 1

    def time_of(run: Any) -> float:
        run()
        return milliseconds(run, count, rounds, loop.device)

    times = {"update": time_of(loop.update)}
    if table:  # a graph of its own for each: memory that the largest N need themselves
        rolling, collecting = (time_of(captured(f, loop.device)) for f in (loop.rollout, loop.collect))
        times |= {"rollout": rolling, "advantages": collecting - rolling}
    return times | {"physics": time_of(captured(_physics(loop), loop.device))}


def _physics(loop: Loop) -> Any:
    """The engine's part of a rollout alone: as many control steps, from where training stands. Robots go on
    with their last targets and are not reset, so this comes after everything else."""
    engine, horizon = loop.env.engine, loop.plan.recipe.horizon

    def step() -> None:
        for _ in range(horizon):
            engine._launch(engine.step_launches[0])

    return step


def launches(loop: Loop) -> dict[str, Any] | None:
    """Kernels and copies that an update puts in the queue, without graphs; those that take longest, by name,
    with how often and how many microseconds. None without a GPU."""
    if loop.device.type != "cuda":
        return None
    out: dict[str, Any] = {}
    for part, run in (("collect", loop.collect), ("update", loop.update_by_launches)):
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            run()
            settle(loop.device)
        events = [e for e in seen.events() if e.device_type == torch.autograd.DeviceType.CUDA]
        count: Counter[str] = Counter(e.name for e in events)
        took: Counter[str] = Counter()
        for e in events:
            took[e.name] += e.time_range.elapsed_us()
        copies = sum(n for name, n in count.items() if name.startswith(("Memcpy", "Memset")))
        out[part] = {
            "kernels": sum(count.values()) - copies,
            "copies": copies,
            "busy_us": round(sum(took.values())),
            "longest": [[name[:100], count[name], round(us)] for name, us in took.most_common(SHOWN)],
        }
    return out | {"per_update": sum(p["kernels"] + p["copies"] for p in out.values())}


def memory(device: torch.device) -> dict[str, float] | None:
    """Most that was allocated and most that torch held for it, with all graphs; what the device has in
    use."""
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    return {
        "peak_allocated_gib": round(torch.cuda.max_memory_allocated(device) / GIB, 3),
        "peak_reserved_gib": round(torch.cuda.max_memory_reserved(device) / GIB, 3),
        "device_in_use_gib": round((total - free) / GIB, 3),
    }


def forget(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def trainer_ms(plan: Plan, updates: int) -> float:
    """Of an update of the trainer: ledger, episodes and display included, evaluations not. From a quarter of
    the run to its last update."""
    stamps: list[float] = []

    class Stamps(Silent):
        def show(self, row: Any, successes: Any) -> None:
            stamps.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        run = new_run(plan, f"{folder}/run")
        trainer = Trainer(plan, run)
        try:
            trainer.train(Limits(updates=updates), Stamps(), make_tracker("none", run.path, {}))
        finally:
            trainer.close()
    rest = stamps[len(stamps) // 4 :]
    return (rest[-1] - rest[0]) / (len(rest) - 1) * 1e3


def measure(
    case: Case, device: torch.device, sizes: Sizes, peaks: Peaks | None, table: bool
) -> dict[str, Any]:
    """One row. In the table with launches and the trainer; in the scaling without."""
    forget(device)
    begun = time.perf_counter()
    plan = case.plan(str(device))
    loop = Loop(plan)
    loop.warm_up()
    ready = time.perf_counter() - begun
    rates = loop_rates(loop, sizes)
    peak = memory(device)
    counted = launches(loop) if table else None
    ms = parts(loop, sizes.rounds, table)
    loop.close()
    del loop
    forget(device)
    samples, rate = plan.recipe.samples_per_update, statistics.median(rates)
    ms["loop"] = samples / rate * 1e3
    physics = samples / ms.pop("physics") * 1e3
    row = {
        "case": str(case),
        **{k: v for k, v in asdict(case).items() if k not in ("goal", "families")},
        "samples": samples,
        "rounds": [round(r) for r in rates],
        "steps_per_second": round(rate),
        "goal": case.goal,
        "memory": peak,
        "ready_seconds": round(ready, 2),
        "physics_steps_per_second": round(physics),
        "roofline": roofline(plan.task.contract, plan.recipe, ms, peaks),
    }
    if table:
        ms["trainer"] = trainer_ms(plan, sizes.trainer_updates)
        ms["logging"] = ms["trainer"] - ms["rollout"] - ms["advantages"] - ms["update"]
        row |= {"launches": counted, "trainer_steps_per_second": round(samples / ms["trainer"] * 1e3)}
    return row | {"ms": {k: round(v, 3) for k, v in ms.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="CUDA where there is one")
    parser.add_argument("--seconds", type=float, default=600.0, help="begin nothing after this long")
    parser.add_argument("--peer-site", help="folder with the peers' packages")
    parser.add_argument("--peers-only", action="store_true", help="keep what stands, measure the peers anew")
    for f in fields(Peaks):
        flag = "--peak-" + f.name.replace("_", "-")
        parser.add_argument(flag, type=float, default=f.default, help="of the device, from its data sheet")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    prepare_torch()
    end = time.perf_counter() + args.seconds
    sizes = QUICK if args.quick else Sizes()
    cuda = device.type == "cuda"
    peaks = Peaks(**{f.name: getattr(args, f"peak_{f.name}") for f in fields(Peaks)}) if cuda else None
    name = device_name(device)
    machines = kept(args.out)
    entry = about(device, args.quick) | {"peaks": asdict(peaks) if peaks else None, "left_out": []}
    entry |= {"table": [], "scaling": [], "peers": {}}
    if args.peers_only:
        entry = machines.get(name, entry)
    machines[name] = entry

    def save() -> None:
        write_json(args.out, {"schema_version": SCHEMA_VERSION, "machines": machines})

    for part in () if args.peers_only else ("table", "scaling"):
        for case in getattr(sizes, part):
            if time.perf_counter() > end:
                entry["left_out"].append(f"{part}: {case}")
                continue
            if device.type == "cpu":  # which has no other precision: a row says what was measured
                case = replace(case, precision="fp32")
            try:
                row = measure(case, device, sizes, peaks, part == "table")
            except torch.OutOfMemoryError:
                row = {"case": str(case), "envs": case.envs, "not_measured": "out of memory"}
            entry[part].append(row)
            save()
            shown = {k: row.get(k) for k in ("steps_per_second", "ms", "memory", "not_measured")}
            print(f"{part}: {case}: {shown}", flush=True)
    entry["peers"] = peers(args.peer_site, sizes.peer_options, end)
    save()
    drawn = plot_training(entry, args.out.with_suffix(".svg"))
    print(f"Wrote {args.out}" + ("" if drawn else "; no plot: matplotlib is missing"))
    if entry["left_out"]:
        print("Left out for lack of time: " + "; ".join(entry["left_out"]))


if __name__ == "__main__":
    main()
