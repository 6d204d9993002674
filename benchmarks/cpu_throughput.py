"""How many control steps per second this machine's CPU gives, layer by layer, measured in one run.

    python benchmarks/cpu_throughput.py            about 15 minutes on two cores; writes .json and .svg beside it
    python benchmarks/cpu_throughput.py --quick    seconds: shows that everything runs, the figures mean nothing

Layers, each with N robots of walk-flat, on the evaluation plant (0.005 s x 4) and the training plant (0.01 s x 2):
  rollout    `mujoco.rollout` alone, a call per control step on the engine's own models, walking-like targets
  engine     MujocoEngine.step with the same targets: adds delays, failure checks, the state as tensors
  env        VecEnv.step with random actions: adds observations, rewards, ends, resets, keyed randomness
  training   collection and PPO updates, default recipe: all that `surefoot train` does between evaluations
  gymnasium  the same robot in AsyncVectorEnv, one plain environment per process (plain_env.py)

Machines are noisy. All cases are built and warmed up first, then measured in turn, the whole round several times
and every second one backwards; figures are medians over rounds, ratios medians of the ratios within a round.
"""

from __future__ import annotations

import surefoot.cli  # isort: skip  # first of all: says how waiting threads behave, before torch is loaded

import datetime
import functools
import json
import math
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from gymnasium.vector import AsyncVectorEnv
from rich.console import Console
from rich.table import Table

from plain_env import PlainWalk
from surefoot.artifacts import atomic_write
from surefoot.commands import _prepare_torch
from surefoot.contract import EVALUATION_PLANT, FAST_PLANT, Plant
from surefoot.engines import MujocoEngine
from surefoot.engines.scene import build_scene
from surefoot.env import VecEnv
from surefoot.learners import Ppo, symmetry
from surefoot.plan import make_plan
from surefoot.robots import robot
from surefoot.rollout import RolloutBlock, collect
from surefoot.scenarios import TrainSampler
from surefoot.tasks import TROT

SCHEMA_VERSION = 1
PLANTS = {"evaluation": EVALUATION_PLANT, "training": FAST_PLANT}
LAYERS = ("rollout", "engine", "env", "training")
GIB = 2**30


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    envs: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048)
    batches: tuple[int, ...] = (1, 4, 16)
    """Smaller sizes, for which only `env` is measured."""
    judged: int = 512
    """The N that the targets are judged at: the default recipe's."""
    processes: tuple[int, ...] = (2, 8, 32)
    rounds: int = 5
    samples: int = 24 * 512
    """Control steps per measurement, at least; always whole updates."""
    most_steps: int = 600
    warm_up: int = 25
    memory_envs: int = 2048
    memory_options: tuple[str, ...] = ()


QUICK = Sizes(
    envs=(8, 16), batches=(1,), judged=16, processes=(2,), rounds=2, samples=24 * 8, most_steps=24, warm_up=2,
    memory_envs=32, memory_options=("--eval-families", "2"),
)  # fmt: skip


@dataclass
class Case:
    """One thing that is measured: `run(steps)` advances `envs` environments; `prepare` is not timed."""

    plant: str
    what: str
    envs: int
    steps: int
    run: Callable[[int], None]
    prepare: Callable[[], None] = lambda: None
    rates: list[float] = field(default_factory=list)

    def measure(self) -> None:
        self.prepare()
        begun = time.perf_counter()
        self.run(self.steps)
        self.rates.append(self.envs * self.steps / (time.perf_counter() - begun))

    @property
    def median(self) -> float:
        return statistics.median(self.rates)


class Rig:
    """N environments on one plant, and the layers that are measured on these same environments."""

    def __init__(self, plant: Plant, envs: int, warm_up: int) -> None:
        plan = make_plan("walk-flat", overrides={"envs": envs, "families": math.gcd(envs, 32)})
        contract, recipe, cpu = plan.task.contract, plan.recipe, torch.device("cpu")
        sampler = TrainSampler(contract, plan.task.robot, plan.seeds, recipe.control_hz, None, cpu)
        self.env, self.recipe = VecEnv(plan.task, sampler, plant), recipe
        assert isinstance(self.env.engine, MujocoEngine)
        self.engine: MujocoEngine = self.env.engine
        self.learner = Ppo(
            contract, recipe, symmetry(contract, plan.task.robot, plan.task.scan, cpu), plan.seeds, cpu
        )
        self.block = RolloutBlock.empty(
            recipe.horizon, envs, contract.observation_size, contract.critic_size, contract.action.size,
            len(contract.rewards), cpu,
        )  # fmt: skip
        self.targets = walking_targets(
            plan.task.robot.default_pose, envs, 2 * recipe.horizon, 1 / recipe.control_hz
        )
        self.step_env(warm_up)
        self.start = self.env.snapshot()  # every measurement begins with the same robots in the same states

    def prepare(self) -> None:
        self.env.restore(self.start)
        self.env.take_ended()
        self.env.failures = []

    def rollout(self, steps: int) -> None:
        e, dec = self.engine, self.env.engine.plant.decimation
        state, targets = e._state.copy(), self.targets.numpy().astype(np.float64)
        for t in range(steps):
            control = np.repeat(targets[t % len(targets)][:, None], dec, axis=1)
            e._pool.rollout(
                e._models, e._datas, state, control, control_spec=e._control_spec, skip_checks=True, nstep=dec,
                state=e._out, sensordata=e._sensors,
            )  # fmt: skip
            state = e._out[:, -1].copy()

    def step_engine(self, steps: int) -> None:
        for t in range(steps):
            self.engine.step(self.targets[t % len(self.targets)])

    def step_env(self, steps: int) -> None:
        for _ in range(steps):
            self.env.step(self.env.exploration * 0.5)

    def train(self, steps: int) -> None:
        for _ in range(steps // self.recipe.horizon):
            collect(self.env, self.learner, self.block, self.recipe.gamma, self.recipe.lam)
            self.learner.update(self.block)
            self.env.take_ended()

    def cases(self, plant: str, sizes: Sizes) -> list[Case]:
        n, horizon = self.env.num_envs, self.recipe.horizon
        steps = horizon * max(1, min(sizes.samples // (n * horizon), sizes.most_steps // horizon))
        runs = dict(zip(LAYERS, (self.rollout, self.step_engine, self.step_env, self.train), strict=True))
        if n not in sizes.envs:
            return [Case(plant, "env", n, steps, runs["env"], self.prepare)]
        self.train(horizon)
        return [Case(plant, k, n, steps, run, self.prepare) for k, run in runs.items()]


def walking_targets(pose: tuple[float, ...], envs: int, steps: int, dt: float) -> torch.Tensor:
    """[steps, envs, joints]: a trot on the spot as in trot-flat's prior, each robot in its own phase."""
    time_s = torch.arange(steps)[:, None, None] * dt
    phase = torch.linspace(0, 1, envs)[None, :, None] + torch.tensor(TROT.offsets) + TROT.clock_hz * time_s
    lift = TROT.lift_rad * torch.sin(2 * math.pi * phase).clamp_min(0)  # [steps, envs, legs]
    offsets = torch.stack([torch.zeros_like(lift), lift, -2 * lift], dim=3).flatten(2)
    return (torch.tensor(pose) + offsets).to(torch.float32)


def gymnasium_case(plant: str, processes: int, sizes: Sizes) -> tuple[Case, AsyncVectorEnv]:
    go1 = robot("go1")
    model = build_scene(go1, PLANTS[plant]).model
    make = functools.partial(PlainWalk, model, go1.default_pose, go1.stand_height_m, PLANTS[plant].decimation)
    # Forked where that exists: the processes need neither torch nor this file, and share the memory of what is loaded.
    context = "fork" if "fork" in multiprocessing.get_all_start_methods() else None
    vector = AsyncVectorEnv([make] * processes, context=context)
    vector.reset(seed=1)
    rng = np.random.default_rng(0)
    actions = 0.5 * rng.standard_normal((64, processes, len(go1.joints)), np.float32)

    def run(steps: int) -> None:
        for t in range(steps):
            vector.step(actions[t % len(actions)])

    run(sizes.warm_up)
    return Case(plant, "gymnasium", processes, max(sizes.samples // 4 // processes, 24), run), vector


def peak_memory(sizes: Sizes) -> int | None:
    """Peak resident bytes of a whole `surefoot train` with two updates and its final evaluation, in its own process."""
    if not hasattr(os, "wait4"):
        return None
    with tempfile.TemporaryDirectory() as folder:
        options = (
            "--envs",
            str(sizes.memory_envs),
            "--updates",
            "2",
            "--quiet",
            "--tracker",
            "none",
            *sizes.memory_options,
        )
        command = (sys.executable, "-m", "surefoot", "train", "walk-flat", *options, "--out", f"{folder}/run")
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_maxrss if sys.platform == "darwin" else usage.ru_maxrss * 1024


def machine() -> dict[str, Any]:
    cpu = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), cpu)
    names = ("torch", "mujoco", "numpy", "gymnasium")
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        **{n: version(n) for n in names},
        "surefoot": surefoot.__version__,
        "torch_threads": torch.get_num_threads(),
        "environment": {k: v for k, v in os.environ.items() if k.startswith(("OMP_", "GOMP_", "MKL_"))},
        "load_average_before": [round(x, 2) for x in os.getloadavg()] if hasattr(os, "getloadavg") else None,
    }


class Results:
    """All cases after the last round, and what follows from them."""

    def __init__(
        self, cases: list[Case], sizes: Sizes, peak_rss_bytes: int | None, about: dict[str, Any]
    ) -> None:
        self.cases, self.sizes, self.peak, self.about = cases, sizes, peak_rss_bytes, about

    def case(self, plant: str, what: str, envs: int) -> Case:
        return next(c for c in self.cases if (c.plant, c.what, c.envs) == (plant, what, envs))

    def gymnasium(self, plant: str) -> Case:
        """The number of processes that was fastest."""
        return max(
            (c for c in self.cases if (c.plant, c.what) == (plant, "gymnasium")), key=lambda c: c.median
        )

    def ratio(self, plant: str, what: str, envs: int, to: Case | None = None) -> float:
        """Median over rounds of `what` relative to rollout at the same N, or to another case."""
        to = to or self.case(plant, "rollout", envs)
        return statistics.median(
            a / b for a, b in zip(self.case(plant, what, envs).rates, to.rates, strict=True)
        )

    def sweep(self, plant: str) -> dict[str, Any]:
        """VecEnv.step by batch size, and the smallest batch from which on it gives 90% of its best rate."""
        cases = sorted((c for c in self.cases if (c.plant, c.what) == (plant, "env")), key=lambda c: c.envs)
        enough = [c.median >= 0.9 * max(x.median for x in cases) for c in cases]
        first = next(i for i in range(len(cases)) if all(enough[i:])) if enough[-1] else enough.index(True)
        rates = [round(c.median, 1) for c in cases]
        return {
            "envs": [c.envs for c in cases],
            "steps_per_second": rates,
            "flat_from_envs": cases[first].envs,
        }

    def targets(self) -> list[dict[str, Any]]:
        n, plant = self.sizes.judged, "evaluation"
        rows: list[tuple[str, float | None, str, float]] = [
            (f"VecEnv.step / rollout, N={n}", self.ratio(plant, "env", n), ">=", 0.8),
            (f"training / rollout, N={n}", self.ratio(plant, "training", n), ">=", 0.6),
            (
                f"VecEnv.step, N={n} / AsyncVectorEnv",
                self.ratio(plant, "env", n, self.gymnasium(plant)),
                ">=",
                3.0,
            ),
            (f"peak memory, N={self.sizes.memory_envs}, GiB", self.peak and self.peak / GIB, "<", 3.0),
        ]
        met = {">=": lambda x, limit: x >= limit, "<": lambda x, limit: x < limit}
        return [
            {
                "name": name,
                "value": x and round(x, 3),
                "must_be": f"{sign} {limit:g}",
                "met": x and bool(met[sign](x, limit)),
            }
            for name, x, sign, limit in rows
        ]

    def as_json(self) -> dict[str, Any]:
        layers = [c for c in self.cases if c.what in LAYERS[1:] and c.envs in self.sizes.envs]
        return {
            "schema_version": SCHEMA_VERSION,
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "quick": self.sizes is QUICK,
            "machine": self.about,
            "task": "walk-flat",
            "plants": {k: p.model_dump(mode="json") for k, p in PLANTS.items()},
            "rates": [
                {
                    "plant": c.plant, "what": c.what, "envs": c.envs, "steps": c.steps,
                    "steps_per_second": round(c.median, 1), "rounds": [round(r, 1) for r in c.rates],
                }
                for c in self.cases
            ],
            "shares_of_rollout": [
                {"plant": c.plant, "what": c.what, "envs": c.envs, "ratio": round(self.ratio(c.plant, c.what, c.envs), 4)}
                for c in layers
            ],
            "gymnasium_best_processes": {k: self.gymnasium(k).envs for k in PLANTS},
            "batch_sweep": {k: self.sweep(k) for k in PLANTS},
            "memory": {"envs": self.sizes.memory_envs, "peak_rss_bytes": self.peak},
            "targets": self.targets(),
        }  # fmt: skip


def print_results(console: Console, r: Results) -> None:
    for plant, p in PLANTS.items():
        table = Table(
            title=f"Control steps per second, {plant} plant ({p.dt_s:g} s x {p.decimation}, {p.cone})",
            title_justify="left",
        )
        for name in ("N", *LAYERS):
            table.add_column(name, justify="right")
        for n in r.sizes.batches:
            table.add_row(str(n), "", "", f"{r.case(plant, 'env', n).median:,.0f}", "")
        for n in r.sizes.envs:
            shares = [
                f"{r.case(plant, k, n).median:,.0f} [dim]{r.ratio(plant, k, n):4.0%}" for k in LAYERS[1:]
            ]
            table.add_row(str(n), f"{r.case(plant, 'rollout', n).median:,.0f}", *shares)
        console.print(table, highlight=False)
        console.print(
            f"VecEnv.step is flat from N={r.sweep(plant)['flat_from_envs']} on (90% of its best rate).",
            highlight=False,
        )
        plain = [c for c in r.cases if (c.plant, c.what) == (plant, "gymnasium")]
        rates = ", ".join(f"{c.envs} processes {c.median:,.0f}" for c in plain)
        console.print(f"AsyncVectorEnv of plain environments: {rates} steps/s.\n", highlight=False)
    table = Table(title="Targets (evaluation plant)", title_justify="left")
    for name in ("target", "measured", "must be", ""):
        table.add_column(name)
    for t in r.targets():
        verdict = "not measured" if t["value"] is None else "[green]pass" if t["met"] else "[red]FAIL"
        table.add_row(t["name"], f"{t['value']:.3g}" if t["value"] is not None else "", t["must_be"], verdict)
    console.print(table, highlight=False)


def plot(r: Results, path: Path) -> bool:
    """Rates over N, one panel per plant; False where matplotlib is not installed."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return False
    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(PLANTS), figsize=(10, 4), layout="constrained")
    for ax, (plant, p) in zip(axes, PLANTS.items(), strict=True):
        for what in LAYERS:
            cases = sorted((c for c in r.cases if (c.plant, c.what) == (plant, what)), key=lambda c: c.envs)
            ax.plot([c.envs for c in cases], [c.median for c in cases], marker="o", label=what)
        best = r.gymnasium(plant)
        ax.axhline(best.median, color="gray", linestyle="--", label=f"AsyncVectorEnv, {best.envs} processes")
        ax.set(xscale="log", xlabel="environments", title=f"{plant} plant, {p.dt_s:g} s x {p.decimation}")
        ax.set_xscale("log", base=2)
        ax.set_ylim(bottom=0)
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("control steps per second")
    axes[0].legend(fontsize="small")
    figure.suptitle(f"{r.about['cpu']}, {r.about['cores']} cores", fontsize="small")
    figure.savefig(path, metadata={"Date": None})
    return True


@dataclass(frozen=True)
class Options:
    """Measure CPU throughput layer by layer."""

    quick: bool = False
    """Small sizes, a few seconds: shows that everything runs."""
    out: Path | None = None
    """JSON to write (default: cpu_throughput.json beside this file; with --quick nothing). The plot goes beside it."""


def measure(sizes: Sizes, console: Console) -> Results:
    about = machine()
    console.print(
        f"{about['cpu']}, {about['cores']} cores, load {about['load_average_before']}", highlight=False
    )
    # First, while this process is small: a child's peak memory starts at its parent's.
    peak = peak_memory(sizes)
    # Then the processes, before torch and MuJoCo have started a thread: a fork copies only the one that calls it.
    plain = [gymnasium_case(plant, k, sizes) for plant in PLANTS for k in sizes.processes]
    _prepare_torch()
    about["torch_threads"] = torch.get_num_threads()
    rigs = [
        (name, Rig(p, n, sizes.warm_up)) for name, p in PLANTS.items() for n in (*sizes.batches, *sizes.envs)
    ]
    cases = [case for name, rig in rigs for case in rig.cases(name, sizes)] + [case for case, _ in plain]
    for k in range(sizes.rounds):
        begun = time.perf_counter()
        for case in cases if k % 2 == 0 else reversed(cases):
            case.measure()
        console.print(
            f"round {k + 1} of {sizes.rounds}: {time.perf_counter() - begun:.0f} s", highlight=False
        )
    for _, rig in rigs:
        rig.env.close()
    for _, vector in plain:
        vector.close()
    return Results(cases, sizes, peak, about)


def main(options: Options) -> None:
    console = Console()
    results = measure(QUICK if options.quick else Sizes(), console)
    print_results(console, results)
    out = options.out or (None if options.quick else Path(__file__).with_suffix(".json"))
    if out is None:
        return
    atomic_write(out, (json.dumps(results.as_json(), indent=1) + "\n").encode())
    drawn = plot(results, out.with_suffix(".svg"))
    console.print(
        f"Written: {out}" + (f", {out.with_suffix('.svg')}" if drawn else "; no plot: matplotlib is missing")
    )


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
