"""Where the policy should act, measured: in each actor or in one service, by policy size and environment.

    python benchmarks/fleet_inference.py              as many actors as there are cores; 4 minutes
    python benchmarks/fleet_inference.py --cores 16   so many actors; the service on a GPU if there is one
    python benchmarks/fleet_inference.py --quick      a minute: shows that all of it runs

Every cell is what `surefoot train --inference auto` measures before a run (`fleet/on_ray/trial.py`): that
many actors with 16 environments each act for a second with their own policy and for a second with the
service's. Environments: a pendulum of Gymnasium's, which costs little; walk-flat on stride; walk-flat
on native MuJoCo. Policies: two equal layers. Written to fleet_inference.json after every cell, and drawn;
cells that are there, of the same machine, device and number of actors, are not measured again (--again: they
are).
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from document import HERE
from machines import about, device_name, keep, kept
from surefoot.compute import cores, prepare_torch
from surefoot.fleet.on_ray.acting import weights_of
from surefoot.fleet.on_ray.actor import order_of
from surefoot.fleet.on_ray.cluster import Cluster
from surefoot.fleet.on_ray.placement import Places
from surefoot.fleet.on_ray.trial import measure_inference
from surefoot.fleet.options import FleetOptions
from surefoot.learners import Ppo
from surefoot.training import make_plan

OUT = HERE / "fleet_inference.json"
ENVIRONMENTS = {
    "a pendulum (Gymnasium)": ("gym:Pendulum-v1", {}),
    "walk-flat, stride": ("walk-flat", {"engine": "stride"}),
    "walk-flat, native MuJoCo": ("walk-flat", {"engine": "mujoco"}),
}
WIDTHS = (64, 256, 512, 1024, 2048, 3072)
ENVS, HORIZON = 16, 8


def cell(cluster: Cluster, name: str, width: int, actors: int, device: str, seconds: float) -> dict[str, Any]:
    """One environment with one policy."""
    task, options = ENVIRONMENTS[name]
    recipe = {"envs": actors * ENVS, "families": 2 * actors, "horizon": HORIZON, "minibatches": 1}
    recipe |= {"hidden": (width, width)}
    if task.startswith("gym:"):
        del recipe["families"]
        options = {"success_return": -200.0}
    plan = make_plan(task, overrides=recipe, **options)
    here = torch.device("cpu")
    policy = Ppo(plan.task.contract, plan.recipe, plan.mirror(here), plan.seeds, here)
    weights = weights_of(policy)
    places = Places(cluster.ray, actors, None, device)
    begun, load = time.perf_counter(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as diaries:
        order = order_of(plan, bytes(16), Path(diaries), tiled=False)
        parts = FleetOptions(actors=actors).parts(plan.recipe)
        local, central = measure_inference(cluster.ray, places, order, parts, weights, seconds)
    acting = sum(v.numel() for k, v in weights.items() if k.startswith("actor."))
    return {
        "environment": name,
        "width": width,
        "parameters": acting,
        "actors": actors,
        "envs_per_actor": ENVS,
        "device": device,
        "seconds": seconds,
        "load": load,
        "took_s": time.perf_counter() - begun,
        "local": asdict(local),
        "central": asdict(central),
        "central_over_local": central.steps_per_s / local.steps_per_s,
    }


def crossover(rows: Iterable[dict[str, Any]]) -> float | None:
    """Parameters from which central inference is faster, between two cells by the logarithm of their ratios;
    None: in no cell, 0: in all."""
    points = sorted((r["parameters"], r["central_over_local"]) for r in rows)
    last = max((k for k, (_, ratio) in enumerate(points) if ratio < 1), default=-1)
    if last == len(points) - 1:
        return None
    if last < 0:
        return 0.0
    (x0, y0), (x1, y1) = points[last], points[last + 1]
    share = -math.log(y0) / (math.log(y1) - math.log(y0))
    return x0 * (x1 / x0) ** share


def plot(machines: dict[str, Any], path: Path) -> bool:
    """Central over local by parameters, a line per environment and a panel per machine; False where
    matplotlib is not installed."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return False
    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    count = len(machines)
    figure, axes = plt.subplots(1, count, figsize=(5.5 * count, 4), layout="constrained", squeeze=False)
    for ax, (machine, entry) in zip(axes[0], machines.items(), strict=True):
        for name in dict.fromkeys(r["environment"] for r in entry["rows"]):
            mine = sorted(
                (r["parameters"], r["central_over_local"]) for r in entry["rows"] if r["environment"] == name
            )
            ax.plot(*zip(*mine, strict=True), marker="o", label=name)
        first = entry["rows"][0]
        ax.axhline(1, color="gray", linestyle="--")
        title = f"{machine}: {first['actors']} actors, service on {first['device']}"
        ax.set(xscale="log", yscale="log", xlabel="parameters that act", ylabel="central / local, steps/s")
        ax.set_title(title, fontsize="small")
        ax.grid(alpha=0.3)
        ax.legend(fontsize="x-small")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cores", type=int, default=cores(), help="actors, one for each")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="of the service")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each way of a cell")
    parser.add_argument("--minutes", type=float, default=4.0, help="no cell is begun after these")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS, help="of both layers")
    parser.add_argument("--again", action="store_true", help="measure what is there already")
    parser.add_argument("--quick", action="store_true", help="three cells of a quarter second")
    args = parser.parse_args()
    prepare_torch()
    cuda = args.device == "cuda" or (args.device == "auto" and torch.cuda.is_available())
    device = torch.device("cuda" if cuda else "cpu")
    widths, seconds = ((64,), 0.25) if args.quick else (args.widths, args.seconds)
    before = kept(args.out).get(device_name(device), {}).get("rows", [])
    same = [r for r in before if (r["actors"], r["device"]) == (args.cores, device.type) and not args.again]
    entry = about(device, args.quick) | {"rows": same}
    begun = time.perf_counter()
    cluster = Cluster(None, args.cores + 1, 128 << 20)
    try:
        for width in widths:
            for name in ENVIRONMENTS:
                if any((r["environment"], r["width"]) == (name, width) for r in entry["rows"]):
                    continue
                if time.perf_counter() - begun > 60 * args.minutes:
                    print(f"{name} with {width}: no time left", flush=True)
                    continue
                entry["rows"].append(cell(cluster, name, width, args.cores, device.type, seconds))
                r = entry["rows"][-1]
                local, central = (r[k]["steps_per_s"] for k in ("local", "central"))
                print(
                    f"{name}, {r['parameters']:,} parameters: local {local:,.0f}, central {central:,.0f} "
                    f"steps/s, {r['took_s']:.1f} s",
                    flush=True,
                )
                keep(args.out, device, entry, 1)
    finally:
        cluster.close()
    plot(kept(args.out), args.out.with_suffix(".svg"))


if __name__ == "__main__":
    main()
