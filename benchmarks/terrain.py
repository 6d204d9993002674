"""Rough terrain: how many held-out scenarios of each class a policy crosses after some seconds of training.

    python benchmarks/terrain.py                     trains and scores; writes JSON and SVG beside it
    python benchmarks/terrain.py --stage train       trains only and keeps the policies, for a GPU
    python benchmarks/terrain.py --stage score       scores kept policies, on any machine
    python benchmarks/terrain.py --quick             shows that all of it runs, figures mean nothing

A run trains for `--seconds` (kernels compiled and graphs captured before the clock starts; nothing is
evaluated meanwhile) and keeps a policy every sixth of that. Afterwards the policies are scored on the panel's
selection half on stride; the best is confirmed on native MuJoCo on the half that nothing was chosen on. Rates
by class are over training seeds, each seed a family; every class has as many episodes.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from performance_plots import plot_terrain
from surefoot.artifacts import write_json
from surefoot.contract import Half
from surefoot.cores import prepare_torch
from surefoot.evidence import PanelEvaluator, PanelResult
from surefoot.evidence.statistics import rate
from surefoot.learners import checkpoint
from surefoot.plan import Plan, make_plan
from surefoot.policy import PolicyBundle, PolicyCard
from surefoot.terrain import HELD_OUT
from time_to_walk import mean_interval
from training_loop import Loop, about, device_name, seconds

SCHEMA_VERSION = 1
KEPT = 6
CHUNK = 5
"""Updates between two looks at the clock."""
TINY = {"envs": 64, "horizon": 4, "minibatches": 2, "epochs": 1, "families": 4, "eval_families": 2}


def train(plan: Plan, most: float, path: Path) -> None:
    """One run; its policies and the seconds until each into `path`."""
    loop = Loop(plan)
    loop.warm_up()
    spent, updates, curve, tensors, card = 0.0, 0, [], {}, None
    while spent < most:
        spent += seconds(loop.run, CHUNK, loop.device)
        updates += CHUNK
        if spent >= most * (len(curve) + 1) / KEPT:
            policy = loop.policy()
            card = policy.meta()
            tensors |= {f"{updates:06d}.{k}": v for k, v in policy.tensors.items()}
            samples = updates * plan.recipe.samples_per_update
            curve.append({"update": updates, "samples": samples, "train_seconds": round(spent, 3)})
    loop.close()
    meta = {"task": plan.task_name, "seed": plan.seeds.root, "recipe": plan.recipe.model_dump(mode="json")}
    meta |= {"policy": card, "curve": curve, "training_id": plan.training_id}
    meta |= {"construct_id": plan.construct_id, "trained": about(loop.device, False)}
    checkpoint.save(path, tensors, meta | {"device": device_name(loop.device)})


def by_class(result: PanelResult) -> dict[str, float]:
    rows = result.rows
    return {str(c): float(rows["success"][rows["terrain"] == c].mean()) for c in sorted(set(rows["terrain"]))}


def score(path: Path, engine: str) -> dict[str, Any]:
    """Every kept policy on the selection half; the best of them on the confirmation half, on both engines."""
    found = checkpoint.load(path)
    m = found.meta
    plan = make_plan(m["task"], overrides=m["recipe"], seed=m["seed"], engine="stride", device="cpu")
    card = PolicyCard.model_validate(m["policy"])

    def on(half: Half, engine: str) -> PanelEvaluator:
        return PanelEvaluator(plan.task, plan.panel, half, plan.recipe.control_hz, engine=engine)

    def policy(update: int) -> PolicyBundle:
        under = f"{update:06d}."
        return PolicyBundle(card, {k[len(under) :]: v for k, v in found.tensors.items() if k[:7] == under})

    selection = on("selection", "stride")
    curve = []
    for point in m["curve"]:
        result = selection.run(policy(point["update"]), traces=False)
        curve.append(point | {"success": result.success, "by_class": by_class(result)})
        print(f"{path.stem}, {point['train_seconds']:.0f} s: {result.success:.3f}", flush=True)
    best = max(curve, key=lambda c: (c["success"], c["update"]))
    confirmed = {}
    for e in dict.fromkeys((engine, "stride")):
        result = on("confirmation", e).run(policy(best["update"]), traces=False)
        figures = {"success": result.success, "fall_rate": float(result.rows["fall"].mean())}
        confirmed[e] = figures | {"episodes": len(result.rows["success"]), "by_class": by_class(result)}
        print(f"{path.stem}, update {best['update']} on {e}: {confirmed[e]}", flush=True)
    return {"seed": m["seed"], "chosen": best["update"], "confirmed": confirmed, "curve": curve}


def summary(runs: list[dict[str, Any]], engine: str) -> dict[str, Any]:
    """Over seeds: each class as a rate whose families are the seeds, and the mean over the classes that were
    trained on with a t interval over seeds."""
    found = [r["confirmed"][engine] for r in runs]
    names = found[0]["by_class"]
    count = found[0]["episodes"] // len(names)
    out = {}
    for c in names:
        hits = [round(f["by_class"][c] * count) for f in found]
        episodes = np.concatenate([np.arange(count) < h for h in hits])
        r = rate(episodes, np.repeat(np.arange(len(found)), count))
        worst = min(f["by_class"][c] for f in found)
        out[c] = {"mean": r.value, "low": r.low, "high": r.high, "worst": worst, "n": r.n, "n_eff": r.n_eff}
    trained = np.mean([[f["by_class"][c] for c in names if c not in HELD_OUT] for f in found], 1)
    low, high = mean_interval(trained) if len(trained) > 1 else (None, None)
    overall = {"mean": float(trained.mean()), "low": low, "high": high, "worst": float(trained.min())}
    return {"engine": engine, "seeds": [r["seed"] for r in runs], "trained": overall, "by_class": out}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="CUDA where there is one")
    parser.add_argument("--stage", nargs="+", choices=["train", "score"], default=["train", "score"])
    parser.add_argument("--task", default="walk-rough")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--seconds", type=float, default=30.0, help="of training, per run")
    parser.add_argument("--engine", default="mujoco", help="that confirms")
    parser.add_argument("--policies", type=Path, default=Path("runs/terrain"), help="where they are kept")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    prepare_torch()
    device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    args.policies.mkdir(parents=True, exist_ok=True)
    seeds, most = ([1], 2.0) if args.quick else (args.seeds, args.seconds)
    paths = [args.policies / f"{args.task}-seed{s}.safetensors" for s in seeds]
    if "train" in args.stage:
        for seed, path in zip(seeds, paths, strict=True):
            change = TINY if args.quick else {}
            plan = make_plan(args.task, overrides=change, seed=seed, engine="stride", device=device.type)
            begun = time.perf_counter()
            train(plan, most, path)
            print(f"{path.stem}: {time.perf_counter() - begun:.1f} s", flush=True)
    if "score" in args.stage:
        runs = [score(p, args.engine) for p in paths if p.exists()]
        meta = checkpoint.load(next(p for p in paths if p.exists())).meta
        tasks = json.loads(args.out.read_text())["tasks"] if args.out.exists() else {}
        about_it = meta["trained"] | {"device": meta["device"], "quick": args.quick, "seconds": most}
        recipe = {k: meta["recipe"][k] for k in ("envs", "horizon", "minibatches", "epochs", "hidden")}
        figures = {"summary": summary(runs, args.engine), "on_stride": summary(runs, "stride"), "runs": runs}
        tasks[args.task] = about_it | {"recipe": recipe} | figures
        write_json(args.out, {"schema_version": SCHEMA_VERSION, "tasks": tasks})
        plot_terrain(tasks, args.out.with_suffix(".svg"))
        print(json.dumps(tasks[args.task]["summary"]))


if __name__ == "__main__":
    main()
