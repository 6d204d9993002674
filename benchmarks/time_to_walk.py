"""Time to walk: seconds of training until 95% of held-out scenarios succeed, over several seeds.

    python benchmarks/time_to_walk.py                  trains and scores; writes JSON and SVG beside it
    python benchmarks/time_to_walk.py --stage train    trains only and keeps the policies, for a GPU
    python benchmarks/time_to_walk.py --stage score    scores kept policies, on any machine without a GPU
    python benchmarks/time_to_walk.py --precisions tf32 bf16      ... and whether the faster one is as good
    python benchmarks/time_to_walk.py --quick          shows that all of it runs, figures mean nothing

Training never waits for an evaluation: a run trains its updates and keeps a policy every few of them, with
the training seconds until then (kernels compiled, graphs captured and undone before the clock starts).
Afterwards the policies are scored in order on the panel's selection half, without exploration noise, until
two in a row reach the mark. The first of the two is the policy that got there: the training seconds, the
updates and the confirmation are all its own. It is confirmed on native MuJoCo on the half that nothing was
chosen on. The second, at which training by this rule would stop, has its own seconds and its own confirmation
under `stopped`. A run that never gets there has its last policy confirmed, and no seconds.

With several precisions the last policy of every run is confirmed as well, and each precision is compared
with the first, seed by seed.

Process seconds are those of `python -m surefoot train`, from its start to an evaluated policy on disk.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from machines import about, device_name, kept
from performance_plots import plot_walking
from surefoot.artifacts import write_json
from surefoot.cli.options import RecipeOptions
from surefoot.compute.cores import cores, prepare_torch
from surefoot.contract import Half
from surefoot.evaluation import PanelEvaluator
from surefoot.policy.bundle import PolicyBundle, PolicyCard
from surefoot.runs import RunFolder, checkpoint
from surefoot.statistics import PanelResult, median_interval
from surefoot.training.plan import Plan
from surefoot.training.plan_makers import make_plan
from training_loop import Loop, seconds

SCHEMA_VERSION = 2
"""2: `confirmation` is that of the policy that `train_seconds` are of; it was one policy later before."""
GOALS = {"trot-flat": 0.9, "walk-flat": 3.0, "walk-anymal-flat": 10.0, "walk-biped-flat": 10.0}
"""Training seconds on one H200, median over seeds."""
OURS = ("trot-flat", "walk-flat")
"""Measured unless others are asked for."""
TINY = {"envs": 32, "horizon": 4, "minibatches": 2, "epochs": 1, "families": 4, "eval_families": 2}
WIDE = {"envs": 4096, "horizon": 24, "minibatches": 4, "families": 128, "precision": "tf32"}
RECIPES: dict[str, dict[str, dict[str, Any]]] = {
    "cuda": dict.fromkeys(GOALS, WIDE | {"epochs": 5}) | {"trot-flat": WIDE | {"epochs": 3}},
    "cpu": {task: {} for task in GOALS},
    "quick": dict.fromkeys(GOALS, TINY),
}
"""What is changed about the tasks' own recipes."""
SCORED = {"precision": "fp32"}
"""Policies are scored on a CPU, whatever they were trained in."""
BYTECODE = Path(tempfile.gettempdir()) / "surefoot-bytecode"
UPDATES = {
    "cuda": {"trot-flat": 120, "walk-flat": 200, "walk-anymal-flat": 150, "walk-biped-flat": 300},
    "cpu": {"trot-flat": 300, "walk-flat": 500, "walk-anymal-flat": 1000, "walk-biped-flat": 1000},
    "quick": dict.fromkeys(GOALS, 4),
}


# ---- training


def train(plan: Plan, updates: int, every: int, path: Path) -> None:
    """One run from its first update; policies and the seconds until each into `path`."""
    loop = Loop(plan)
    loop.warm_up()
    spent, curve, tensors, card = 0.0, [], {}, None
    for update in range(every, updates + 1, every):
        spent += seconds(loop.run, every, loop.device)
        policy = loop.policy()
        card = policy.meta()
        tensors |= {f"{update:06d}.{k}": v for k, v in policy.tensors.items()}
        samples = update * plan.recipe.samples_per_update
        curve.append({"update": update, "samples": samples, "train_seconds": spent})
    loop.close()
    meta = {"task": plan.task_name, "seed": plan.seeds.root, "recipe": plan.recipe.model_dump(mode="json")}
    meta |= {"policy": card, "curve": curve, "training_id": plan.training_id}
    meta |= {"construct_id": plan.construct_id, "trained": about(loop.device, False)}
    meta |= {"device": device_name(loop.device)}
    checkpoint.save_checkpoint(path, tensors, meta)


# ---- scoring


def scorer(plan: Plan, half: Half, engine: str) -> Callable[[PolicyBundle], PanelResult]:
    """The one way policies are scored here: all scenarios of a half, deterministic actions."""
    evaluator = PanelEvaluator(plan.task, plan.panel, half, plan.recipe.control_hz, engine=engine)
    return lambda policy: evaluator.run(policy, traces=False)


def reached(successes: list[float], mark: float) -> int | None:
    """Where the first of two consecutive successes at the mark stands."""
    return next((k for k, pair in enumerate(pairwise(successes)) if min(pair) >= mark), None)


def score(path: Path, mark: float) -> dict[str, Any]:
    """One run's policies in order until two in a row reach the mark; the first of them, or else the last, is
    the run's, and its seconds, updates and confirmation are stated together."""
    loaded = checkpoint.load_checkpoint(path)
    m = loaded.meta
    plan = make_plan(m["task"], overrides=m["recipe"] | SCORED, seed=m["seed"], engine="stride", device="cpu")
    card, chosen = PolicyCard.model_validate(m["policy"]), scorer(plan, "selection", "stride")
    confirm = scorer(plan, "confirmation", "mujoco")

    def policy(update: int) -> PolicyBundle:
        under = f"{update:06d}."
        tensors = {k.removeprefix(under): v for k, v in loaded.tensors.items() if k.startswith(under)}
        return PolicyBundle(card, tensors)

    @functools.cache
    def confirmation(update: int) -> dict[str, Any]:
        result = confirm(policy(update))
        return {
            "engine": "mujoco",
            "update": update,
            "episodes": len(result.rows["success"]),
            "success": result.success,
            "fall_rate": float(result.rows["fall"].mean()),
        }

    curve: list[dict[str, Any]] = []
    at = None
    for point in m["curve"]:
        result = chosen(policy(point["update"]))
        fall = float(result.rows["fall"].mean())
        curve.append(point | {"success": result.success, "fall_rate": fall})
        at = reached([c["success"] for c in curve], mark)
        if at is not None:
            break
    last = m["curve"][-1]["update"]
    return (
        {"seed": m["seed"]}
        | outcome(curve, at, confirmation)
        | {"last": {"update": last, "success": confirmation(last)["success"]}, "curve": curve}
    )


def outcome(
    curve: list[dict[str, Any]], at: int | None, confirmation: Callable[[int], dict[str, Any]]
) -> dict[str, Any]:
    """What a run came to: seconds and success of one policy, the first of two in a row that stands `at` a
    place of the curve, and the same of the second one."""
    if at is None:
        nothing = dict.fromkeys(("train_seconds", "updates", "samples", "stopped"))
        return nothing | {"confirmation": confirmation(curve[-1]["update"])}
    first, second = curve[at : at + 2]
    return {
        "train_seconds": round(first["train_seconds"], 4),
        "updates": first["update"],
        "samples": first["samples"],
        "confirmation": confirmation(first["update"]),
        "stopped": {
            "train_seconds": round(second["train_seconds"], 4),
            "confirmation": confirmation(second["update"]),
        },
    }


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Median and worst over seeds; a run that never got there counts as infinitely long, shown as null."""

    def finite(x: float) -> float | None:
        return None if x == float("inf") else x

    def spread(runs: list[dict[str, Any] | None]) -> dict[str, Any]:
        took = [float("inf") if r is None or r["train_seconds"] is None else r["train_seconds"] for r in runs]
        success = [r["confirmation"]["success"] for r in runs if r]
        return {
            "train_seconds_median": finite(statistics.median(took)),
            "train_seconds_worst": finite(max(took)),
            "confirmation_success_median": statistics.median(success) if success else None,
            "confirmation_success_worst": min(success, default=None),
            "confirmation_success_best": max(success, default=None),
        }

    return {
        "seeds": [r["seed"] for r in runs],
        "reached": sum(r["train_seconds"] is not None for r in runs),
        **spread([*runs]),
        "stopped": spread([r["stopped"] for r in runs]),
    }


def against(runs: list[dict[str, Any]], reference: list[dict[str, Any]]) -> dict[str, Any]:
    """Success of the last policies minus that of the same seeds' in `reference`: the typical seed's, with its
    interval. Not worse: it does not end below zero."""
    theirs = {r["seed"]: r["last"]["success"] for r in reference}
    gains = [r["last"]["success"] - theirs[r["seed"]] for r in runs if r["seed"] in theirs]
    if len(gains) < 2:
        return {"seeds": len(gains), "not_measured": "too few seeds"}
    low, high, confidence = median_interval(gains)
    return {
        "seeds": len(gains),
        "difference": statistics.median(gains),
        "confidence": confidence,
        "low": low,
        "high": high,
        "not_worse": high >= 0,
    }


def _alone(free: Any) -> None:
    """A scoring process has a core to itself."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {free.get()})
    prepare_torch()


def score_all(paths: list[Path], mark: float) -> list[dict[str, Any]]:
    """A run per process, as many at a time as there are cores."""
    meta = checkpoint.load_checkpoint(paths[0]).meta  # kernels are compiled here, once, not by every process
    plan = make_plan(meta["task"], overrides=meta["recipe"] | SCORED, engine="stride", device="cpu")
    scorer(plan, "selection", "stride")
    context = multiprocessing.get_context("spawn")
    free = context.Queue()
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(cores())
    for core in usable:
        free.put(core)
    workers = min(len(usable), len(paths))
    with ProcessPoolExecutor(workers, context, initializer=_alone, initargs=(free,)) as pool:
        runs = []
        for path, run in zip(paths, pool.map(score, paths, [mark] * len(paths)), strict=True):
            c = run["confirmation"]
            end = f"confirmed {c['success']:.3f}, falls {c['fall_rate']:.3f}"
            print(f"{path.stem}: {run['train_seconds']} s to {mark:.0%}, {end}", flush=True)
            runs.append(run)
    return runs


# ---- processes


def process_seconds(
    task: str, device: str, recipe: dict[str, Any], limits: list[str], cold: bool
) -> dict[str, Any]:
    """`surefoot train` as a user types it; cold: with no compiled kernel to be found.

    Python's own bytecode is in a cache of this benchmark's, since a machine may keep its packages where none
    can be written. A short run goes before the one that is timed, to fill that and the kernels' cache.
    """
    known = {f.name for f in dataclasses.fields(RecipeOptions)}
    given = {k: v for k, v in recipe.items() if k in known}
    options = [x for k, v in given.items() for x in (f"--{k.replace('_', '-')}", str(v))]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "surefoot", "train", task, "--device", device, "--out", str(out)]
        command += [*options, *limits, "--perturb", "none", "--tracker", "none", "--quiet"]
        here = os.pathsep.join(p for p in sys.path if p and Path(p) != Path(__file__).parent)
        env = os.environ | {"PYTHONPATH": here} | ({"WARP_CACHE_PATH": f"{folder}/cache"} if cold else {})
        env |= {"PYTHONPYCACHEPREFIX": str(BYTECODE), "PYTHONDONTWRITEBYTECODE": ""}
        first = [*command[: command.index("--out")], "--out", f"{folder}/first", *options, "--updates", "1"]
        first += ["--perturb", "none", "--tracker", "none", "--quiet"]
        warm = {k: v for k, v in env.items() if k != "WARP_CACHE_PATH"}
        subprocess.run(first, env=warm, capture_output=True, check=True)
        begun, clock = time.time(), time.perf_counter()
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        exited = time.perf_counter() - clock
        if done.returncode:
            return {"task": task, "cold": cold, "not_measured": done.stderr.strip().splitlines()[-1]}
        record = RunFolder.open(out).record
        assert record.confirmation is not None
        return {
            "task": task,
            "cold": cold,
            "options": options + limits,
            "policy_seconds": round((out / "policy.safetensors").stat().st_mtime - begun, 3),
            "confirmed_seconds": round((out / "run.json").stat().st_mtime - begun, 3),
            "exit_seconds": round(exited, 3),
            "success": record.confirmation.success,
            "figures": record.figures,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="CUDA where there is one")
    parser.add_argument("--stage", nargs="+", choices=["train", "score", "process"], default=None)
    parser.add_argument("--tasks", nargs="+", default=list(OURS), choices=list(GOALS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument(
        "--precisions", nargs="+", default=["tf32"], choices=["fp32", "tf32", "bf16"], help="on CUDA"
    )
    parser.add_argument("--every", type=int, default=5, help="updates between policies that are kept")
    parser.add_argument("--mark", type=float, default=0.95, help="success that two in a row must reach")
    parser.add_argument("--cold", action="store_true", help="also time a process without compiled kernels")
    parser.add_argument(
        "--policies", type=Path, default=Path("runs/time-to-walk"), help="where they are kept"
    )
    parser.add_argument("--seconds", type=float, default=1800.0, help="begin no training after this long")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    prepare_torch()
    device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    sizes, end = "quick" if args.quick else device.type, time.perf_counter() + args.seconds
    stages = args.stage or ["train", "score", "process"]
    seeds, every = ([1], 2) if args.quick else (args.seeds, args.every)
    tasks = args.tasks[:1] if args.quick else args.tasks
    machines = kept(args.out)
    args.policies.mkdir(parents=True, exist_ok=True)

    def save(name: str, changes: dict[str, Any]) -> dict[str, Any]:
        machines[name] = machines.get(name, {"tasks": {}, "process": []}) | changes
        write_json(args.out, {"schema_version": SCHEMA_VERSION, "machines": machines})
        entry: dict[str, Any] = machines[name]
        return entry

    def kept_at(task: str, precision: str, seed: int) -> Path:
        return args.policies / f"{task}-{precision}-seed{seed}.safetensors"

    if "train" in stages:
        for task, precision in itertools.product(tasks, args.precisions):
            for seed in seeds:
                if time.perf_counter() > end:
                    print(f"left out for lack of time: {task}, seed {seed}")
                    continue
                overrides = RECIPES[sizes][task]
                overrides = overrides | ({"precision": precision} if device.type == "cuda" else {})
                plan = make_plan(task, overrides=overrides, seed=seed, engine="stride", device=device.type)
                begun = time.perf_counter()
                train(plan, UPDATES[sizes][task], every, kept_at(task, precision, seed))
                print(f"{task}, {precision}, seed {seed}: {time.perf_counter() - begun:.1f} s", flush=True)
    if "score" in stages:
        for task, precision in itertools.product(tasks, args.precisions):
            paths = [p for p in (kept_at(task, precision, s) for s in seeds) if p.exists()]
            if not paths:
                sys.exit(f"No policies of {task} in {args.policies}; train first or give --policies.")
            runs = score_all(paths, args.mark)
            meta = checkpoint.load_checkpoint(paths[0]).meta
            recipe = {k: meta["recipe"][k] for k in (*WIDE, "epochs", "hidden")}
            scored = {"scored_on": device_name(torch.device("cpu")), "summary": summary(runs), "runs": runs}
            entry = machines.get(meta["device"], {"tasks": {}})["tasks"]
            first = precision == args.precisions[0]
            if not first:
                scored["against"] = {args.precisions[0]: against(runs, entry[task]["runs"])}
            name = task if first else f"{task} {precision}"
            new = {name: {"recipe": recipe, "mark": args.mark, "goal": GOALS[task], **scored}}
            entry = save(meta["device"], meta["trained"] | {"quick": args.quick, "tasks": entry | new})
            plot_walking(entry["tasks"], args.out.with_suffix(".svg"))
            print(json.dumps(entry["tasks"][name]["summary"]), scored.get("against", ""), flush=True)
    if "process" in stages:
        limits = ["--updates", "2"] if args.quick else ["--until", str(args.mark)]
        timings = [
            process_seconds(task, device.type, RECIPES[sizes][task], limits, cold)
            for task in tasks
            for cold in ((False, True) if args.cold else (False,))
        ]
        print(json.dumps(timings), flush=True)
        save(device_name(device), about(device, args.quick) | {"process": timings})


if __name__ == "__main__":
    main()
