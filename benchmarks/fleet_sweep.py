"""Steps per second over the number of environments: Gymnasium's vector environments, EnvPool's and ours.

    python benchmarks/fleet_sweep.py             # two minutes on two cores; writes fleet_sweep.json
    python benchmarks/fleet_sweep.py --quick     # a look at whether it runs
    python benchmarks/fleet_sweep.py --plot      # draws fleet_sweep.svg from what was written

Two tasks, each in several ways, in one process, all of them alive at once and timed in turn, by rounds:

  walk-flat        its robot on one plant: written by hand for Gymnasium (plain_env.py), one by one
                   (SyncVectorEnv) and a process each (AsyncVectorEnv); ours on native MuJoCo and on stride,
                   as Gymnasium's vector environments, on all cores, and on native MuJoCo on one core, as an
                   actor of a fleet is
  HalfCheetah-v5   Gymnasium's own in SyncVectorEnv and AsyncVectorEnv, EnvPool's on all cores, and both as
                   our trainers step them, `gym:` and `envpool:`

t(B) = a + c B is fitted to the medians. AsyncVectorEnv has as many processes as environments, and stops at
64 of them.
"""

from __future__ import annotations

import argparse
import functools
import math
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from machines import about, device_name, keep, kept
from plain_env import PlainWalk
from surefoot.compute import ONE_CORE, cores, prepare_torch
from surefoot.engines.mujoco import build_scene
from surefoot.fleet.on_ray import fit
from surefoot.gym import SurefootVectorEnv
from surefoot.robots import robot
from surefoot.training import make_plan

HERE = Path(__file__).parent
SIZES = (1, 4, 16, 64, 256, 1024)
MOST_PROCESSES = 64
ROUNDS, ROUND_S = 5, 0.12
Step = Callable[[], object]


@dataclass
class Way:
    """Environments of one kind, and how they are made."""

    task: str
    name: str
    make: Callable[[int], tuple[Step, Callable[[], object]]]
    """From a number of environments: a step of all of them, and their end."""
    most: int = 1 << 30


def stepped(envs: Any, actions: int) -> tuple[Step, Callable[[], object]]:
    """A step with one of a few fixed actions."""
    envs.reset(seed=1)
    n, turn = envs.num_envs, [0]
    drawn = np.random.default_rng(0).uniform(-0.5, 0.5, (16, n, actions)).astype(np.float32)

    def step() -> object:
        turn[0] += 1
        return envs.step(drawn[turn[0] % 16])

    return step, envs.close


def forked(make: Callable[[], Any], n: int) -> AsyncVectorEnv:
    """Processes share what is loaded already and import nothing again."""
    context = "fork" if "fork" in multiprocessing.get_all_start_methods() else None
    return AsyncVectorEnv([make] * n, context=context)


@contextmanager
def on_one_core() -> Iterator[None]:
    before = os.environ.get(ONE_CORE)
    os.environ[ONE_CORE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[ONE_CORE]
        else:
            os.environ[ONE_CORE] = before


def walking() -> list[Way]:
    plan = make_plan("walk-flat", engine="mujoco")
    plant = plan.training_plant
    assert plant is not None
    go1 = robot("go1")
    model, joints = build_scene(go1, plant).model, len(go1.joints)
    make = functools.partial(PlainWalk, model, go1.default_pose, go1.stand_height_m, plant.decimation)

    def ours(engine: str, alone: bool, n: int) -> tuple[Step, Callable[[], object]]:
        if alone:
            with on_one_core():
                return stepped(SurefootVectorEnv("walk-flat", n, engine=engine, stagger=True), joints)
        return stepped(SurefootVectorEnv("walk-flat", n, engine=engine, stagger=True), joints)

    one, several = "walk-flat", MOST_PROCESSES
    return [
        Way(one, "Gymnasium SyncVectorEnv", lambda n: stepped(SyncVectorEnv([make] * n), joints)),
        Way(one, "Gymnasium AsyncVectorEnv", lambda n: stepped(forked(make, n), joints), several),
        Way(one, "ours, native MuJoCo", functools.partial(ours, "mujoco", False)),
        Way(one, "ours, native MuJoCo on one core", functools.partial(ours, "mujoco", True)),
        Way(one, "ours, stride", functools.partial(ours, "stride", False)),
    ]


def cheetahs() -> list[Way]:
    name = "HalfCheetah-v5"
    make = functools.partial(gymnasium.make, name)

    def adapted(prefix: str, n: int) -> tuple[Step, Callable[[], object]]:
        plan = make_plan(f"{prefix}:{name}", overrides={"envs": n, "minibatches": 1})
        env = plan.environments(range(n))
        action = 0.5 * torch.ones(n, 6)
        return lambda: env.step(action), env.close  # type: ignore[union-attr]

    ways = [
        Way(name, "Gymnasium SyncVectorEnv", lambda n: stepped(SyncVectorEnv([make] * n), 6)),
        Way(name, "Gymnasium AsyncVectorEnv", lambda n: stepped(forked(make, n), 6), MOST_PROCESSES),
        Way(name, "ours, gym:", functools.partial(adapted, "gym")),
    ]
    try:
        import envpool
    except ImportError:
        print("EnvPool is not installed: left out")
        return ways

    def pool(n: int) -> tuple[Step, Callable[[], object]]:
        envs = envpool.make(name, env_type="gymnasium", num_envs=n, seed=1)
        envs.reset()
        action = np.full((n, 6), 0.5)
        return lambda: envs.step(action), envs.close

    return [
        *ways,
        Way(name, "EnvPool", pool),
        Way(name, "ours, envpool:", functools.partial(adapted, "envpool")),
    ]


def timed(step: Step, seconds: float) -> float:
    """Seconds of a step: of as many as fit into `seconds`, at least one."""
    count, begun = 0, time.perf_counter()
    while True:
        step()
        count += 1
        took = time.perf_counter() - begun
        if took >= seconds:
            return took / count


def measured(ways: list[Way], sizes: tuple[int, ...], rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Medians over rounds of all ways, one size after the other."""
    found: dict[tuple[str, str], dict[int, list[float]]] = {(w.task, w.name): {} for w in ways}
    for n in sizes:
        here = [w for w in ways if n <= w.most]
        made = [w.make(n) for w in here]
        for step, _ in made:
            timed(step, seconds / 2)
        for _ in range(rounds):
            for w, (step, _) in zip(here, made, strict=True):
                found[w.task, w.name].setdefault(n, []).append(timed(step, seconds))
        for _, close in made:
            close()
        print(f"{n} environments: {', '.join(w.name for w in here)}", flush=True)
    rows = []
    for (task, name), by_size in found.items():
        medians = {n: statistics.median(t) for n, t in by_size.items()}
        curve = fit(list(medians), list(medians.values()))
        flat = curve.flat_from
        rows.append(
            {
                "task": task,
                "name": name,
                "sizes": list(medians),
                "step_s": list(medians.values()),
                "spread": [(max(t) - min(t)) / statistics.median(t) for t in by_size.values()],
                "rates_per_s": [n / t for n, t in medians.items()],
                "fixed_s": curve.fixed,
                "each_s": curve.each,
                "flat_from": None if math.isinf(flat) else flat,
            }
        )
    return rows


def plot(entry: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    tasks = list(dict.fromkeys(r["task"] for r in entry["rows"]))
    figure, axes = plt.subplots(1, len(tasks), figsize=(5.5 * len(tasks), 4), layout="constrained")
    for ax, task in zip(axes, tasks, strict=True):
        for r in entry["rows"]:
            if r["task"] == task:
                (line,) = ax.plot(r["sizes"], r["rates_per_s"], marker="o", label=r["name"])
                n = np.geomspace(r["sizes"][0], r["sizes"][-1], 60)
                fitted = n / (r["fixed_s"] + r["each_s"] * n)
                ax.plot(n, fitted, linestyle=":", color=line.get_color())
        ax.set(xscale="log", yscale="log", xlabel="environments, B", ylabel="steps/s", title=task)
        ax.grid(alpha=0.3)
        ax.legend(fontsize="x-small")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    print(f"Wrote {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few sizes, short, to see that it runs")
    parser.add_argument("--plot", action="store_true", help="only draw what was measured before")
    parser.add_argument("--out", type=Path, default=HERE / "fleet_sweep.json")
    args = parser.parse_args()
    cpu = torch.device("cpu")
    if not args.plot:
        load = os.getloadavg()[0]  # of others, before
        prepare_torch()
        sizes, rounds, seconds = ((1, 4), 2, 0.01) if args.quick else (SIZES, ROUNDS, ROUND_S)
        rows = measured(walking(), sizes, rounds, seconds) + measured(cheetahs(), sizes, rounds, seconds)
        entry = {**about(cpu, args.quick), "cores": cores(), "load": load, "rows": rows}
        keep(args.out, cpu, entry, schema_version=1)
    entry = kept(args.out)[device_name(cpu)] if not args.plot else next(iter(kept(args.out).values()))
    for r in entry["rows"]:
        most = max(r["rates_per_s"])
        flat = "no size is flat" if r["flat_from"] is None else f"flat from {r['flat_from']:,.0f}"
        print(f"{r['task']}, {r['name']}: at most {most:,.0f}/s; {1e3 * r['fixed_s']:.3f} ms fixed, {flat}")
    plot(entry, args.out.with_suffix(".svg"))


if __name__ == "__main__":
    main()
