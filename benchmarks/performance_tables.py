"""Tables of training on one device; tables.py puts them into the documents.

Only figures of a GPU and of whole runs are shown; what is missing says so.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from document import Block, table
from gpu_training import Sizes
from performance_plots import plot_training, plot_walking
from roofline import Peaks, learning
from surefoot.statistics import median_interval

HERE = Path(__file__).parent
MISSING = "not measured"
TABLE = Sizes().table
ROWS = [(str(case), f">= {case.goal / 1e6:g}M") for case in TABLE if case.goal]


def on_gpu(path: Path) -> tuple[str, dict[str, Any]]:
    """The device and what it gave; empty where nothing has been measured yet."""
    machines = json.loads(path.read_text())["machines"] if path.exists() else {}
    gpus = [(k, v) for k, v in machines.items() if v.get("cuda") and not v.get("quick")]
    return max(gpus, key=lambda kv: str(kv[1]["date"])) if gpus else (MISSING, {})


def millions(rate: float | None) -> str:
    return MISSING if rate is None else f"{rate / 1e6:.2f}M"


def number(x: float | None, form: str) -> str:
    return MISSING if x is None else form.format(x)


def rates(machine: dict[str, Any]) -> str:
    by_case = {r["case"]: r for r in machine.get("table", [])}
    peers = machine.get("peers", {})

    def peer(name: str, k: int) -> str:
        return millions(peers.get(name, {}).get("steps_per_second")) if k == 0 else "-"

    rows = []
    for k, (case, goal) in enumerate(ROWS):
        r = by_case.get(case, {})
        ours = [millions(r.get("steps_per_second")), millions(r.get("trainer_steps_per_second"))]
        rows.append([case, peer("mjlab", k), peer("rsl_rl", k), *ours, goal])
    head = ("training steps/s", "mjlab + RSL-RL", "RSL-RL on these environments", "loop", "trainer", "goal")
    return table(head, rows)


def parts(machine: dict[str, Any]) -> str:
    by_case = {r["case"]: r for r in machine.get("table", [])}
    rows = []
    for case, _ in ROWS:
        r = by_case.get(case, {})
        ms, line = r.get("ms", {}), r.get("roofline", {}).get("update", {})
        took = [number(ms.get(k), "{:.2f}") for k in ("rollout", "advantages", "update", "logging")]
        physics = number(r["samples"] / r["physics_steps_per_second"] * 1e3 if r else None, "{:.2f}")
        launches = number((r.get("launches") or {}).get("per_update"), "{:,}")
        shares = [number(line.get(f"share_of_{k}"), "{:.0%}") for k in ("arithmetic", "bandwidth")]
        rows.append([case, *took, physics, launches, number(line.get("floor_ms"), "{:.2f}"), *shares])
    head = ("ms per update", "rollout", "advantages", "update", "logging", "physics alone", "launches")
    return table((*head, "floor of the update", "of peak flops", "of bandwidth"), rows)


def floors() -> str:
    """Of the update on an H200, from the shapes alone."""
    rows = []
    for case in TABLE:
        plan = case.plan("cpu")
        recipe = plan.recipe.model_copy(update={"precision": case.precision})
        f = learning(plan.task.contract, recipe).report(1.0, case.precision, Peaks())
        work = [f"{f['gflop']:.0f}", f"{f['gbyte']:.1f}", f"{f['compulsory_gbyte']:.2f}"]
        times = [f"{f[k]:.2f}" for k in ("arithmetic_ms", "traffic_ms", "floor_ms")]
        rows.append([str(case), *work, *times])
    head = ("of an update", "GFLOP", "GB, as organised", "GB, compulsory", "flops / peak, ms")
    return table((*head, "bytes / bandwidth, ms", "floor, ms"), rows)


def scaling(machine: dict[str, Any]) -> str:
    rows = []
    for r in machine.get("scaling", []):
        memory = r.get("memory") or {}
        figures = [millions(r.get(k)) for k in ("steps_per_second", "physics_steps_per_second")]
        gib = number(memory.get("peak_reserved_gib"), "{:.1f}")
        rows.append([r["case"], *figures, r.get("not_measured", gib)])
    head = ("configuration", "training steps/s", "physics alone", "peak device memory, GiB")
    return table(head, rows or [["N = 1,024 to 262,144", *[MISSING] * 3]])


def processes(machine: dict[str, Any]) -> str:
    by = {(p["task"], p["cold"]): p for p in machine.get("process", [])}
    rows = []
    for cold, goal in ((False, "<= 4 s, <= 6 s"), (True, "<= 20 s, -")):
        p = by.get(("trot-flat", cold), {})
        began = number(p.get("figures", {}).get("startup_seconds"), "{:.1f} s")
        took = [number(p.get(k), "{:.1f} s") for k in ("policy_seconds", "confirmed_seconds", "exit_seconds")]
        rows.append(["cold" if cold else "warm", began, *took, goal])
    head = (
        "`surefoot train trot-flat`, kernels",
        "first update done",
        "evaluated policy on disk",
        "confirmed on native MuJoCo",
        "exit",
        "goal",
    )
    return table(head, rows)


def precisions(machine: dict[str, Any]) -> str:
    """The last policies of bf16 runs against those of tf32 runs with the same seeds."""
    rows = []
    for task in ("trot-flat", "walk-flat"):
        tasks = machine.get("tasks", {})
        a, b = tasks.get(task, {}), tasks.get(f"{task} bf16", {})
        median = [number(x.get("summary", {}).get("train_seconds_median"), "{:.2f} s") for x in (a, b)]
        ends = [[r["last"]["success"] for r in x.get("runs", []) if "last" in r] for x in (a, b)]
        last = [number(statistics.median(e) if e else None, "{:.1%}") for e in ends]
        by = [{r["seed"]: r["last"]["success"] for r in x.get("runs", []) if "last" in r} for x in (a, b)]
        gaps = [by[1][seed] - by[0][seed] for seed in by[0].keys() & by[1].keys()]
        difference = MISSING
        if len(gaps) > 1:
            low, high, sure = median_interval(gaps)
            difference = f"{statistics.median(gaps):+.1%} ({low:+.1%} to {high:+.1%} at {100 * sure:.3g}%)"
        rows.append([f"`{task}`", *median, *last, difference, number(len(gaps) or None, "{:d}")])
    head = ("to 95% held-out", "tf32", "bf16", "last policy, tf32", "bf16", "difference", "seeds")
    return table(head, rows)


def ways(machine: dict[str, Any]) -> str:
    """The task's part of a control step; see task_kernels.py."""
    rows = []
    for row in machine.get("rows", []):
        for name in [k for k in row if k != "envs"]:
            r = row[name]
            first = r.get("not_measured") or number(r.get("first_seconds"), "{:.2f} s")
            rows.append([f"{row['envs']:,}", name, number(r.get("microseconds"), "{:,.0f} us"), first])
    return table(("environments", "way", "per control step", "first call"), rows or [[MISSING] * 4])


def _of(make: Callable[[dict[str, Any]], str], name: str) -> Block:
    return Block(lambda: make(on_gpu(HERE / name)[1]), (name,))


BLOCKS = {
    "rates": _of(rates, "gpu_training.json"),
    "parts": _of(parts, "gpu_training.json"),
    "scaling": _of(scaling, "gpu_training.json"),
    "processes": _of(processes, "time_to_walk.json"),
    "precisions": _of(precisions, "time_to_walk.json"),
    "ways": _of(ways, "task_kernels.json"),
    "floors": Block(floors),
}


def draw() -> None:
    """Draws both plots anew."""
    training, walk = on_gpu(HERE / "gpu_training.json")[1], on_gpu(HERE / "time_to_walk.json")[1]
    if training:
        plot_training(training, HERE / "gpu_training.svg")
    if walk.get("tasks"):
        plot_walking(walk["tasks"], HERE / "time_to_walk.svg")
