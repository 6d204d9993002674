"""How many control steps per second this machine's CPU gives, layer by layer, measured in one run.

    python benchmarks/cpu_throughput.py            15 minutes on two cores; writes .json and .svg beside it
    python benchmarks/cpu_throughput.py --quick    seconds: shows that all of it runs, figures mean nothing

Layers, with N robots of walk-flat, on the evaluation plant (0.005 s x 4) and native training's (0.01 s x 2):
  rollout    `mujoco.rollout` alone, a call per control step: the very states, targets and models of `env`
  engine     MujocoEngine.step on the same targets: adds delays, failure checks, the state as tensors
  env        VecEnv.step with random actions: adds observations, rewards, ends, resets, keyed randomness
  learning rollout   as rollout, with the states and targets that `training` went through
  training   collection and PPO updates, default recipe: all that `surefoot train` does between evaluations
  gymnasium  the same robot in AsyncVectorEnv, one plain environment per process (plain_env.py)

A share of the raw rate says something about the layer above it only if the physics is the same, and a robot
that tumbles costs MuJoCo more than one that stands. So the raw rates replay what the layers went through.

Machines are noisy. All cases are built and warmed up first, then measured in turn, the whole round several
times and every second one backwards; figures are medians over rounds, ratios medians of a round's ratios.
"""

from __future__ import annotations

import surefoot.cli  # isort: skip  # first of all: says how waiting threads behave, before torch is loaded

import functools
import json
import math
import multiprocessing
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from gymnasium.vector import AsyncVectorEnv
from rich.console import Console

from machines import device_name
from plain_env import PlainWalk
from surefoot.artifacts import atomic_write
from surefoot.compute.cores import prepare_torch
from surefoot.contract import Plant
from surefoot.engines import MujocoEngine, RobotState
from surefoot.engines.scene import build_scene
from surefoot.env import VecEnv
from surefoot.env.scenarios import TrainSampler
from surefoot.learners import Ppo, symmetry
from surefoot.robots import robot
from surefoot.rollout import RolloutBlock
from surefoot.training import collect
from surefoot.training.plan_makers import make_plan
from throughput_results import LAYERS, PLANTS, QUICK, Case, Results, Sizes, plot, print_results


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
        self.tapes: dict[Callable[[int], None], list[tuple[np.ndarray, np.ndarray, torch.Tensor]]] = {}
        self.step_env(warm_up)
        self.start = self.env.snapshot()  # where every measurement begins

    def prepare(self) -> None:
        self.env.restore(self.start)
        self.env.log.take_ended()
        self.env.log.failures = []

    def record(self, run: Callable[[int], None], steps: int) -> None:
        """Keeps the states and targets that physics saw while `run` was running, for `replay`."""
        e, step = self.engine, self.engine.step

        def watched(targets: torch.Tensor) -> RobotState:
            state = step(targets)
            tape.append((e._before.copy(), e._control.copy(), targets.clone()))
            return state

        tape = self.tapes[run] = []
        self.prepare()
        e.step = watched  # type: ignore[method-assign]
        run(steps)
        e.step = step  # type: ignore[method-assign]

    def replay(self, run: Callable[[int], None]) -> Callable[[int], None]:
        e = self.engine

        def rollout(steps: int) -> None:
            for state, control, _ in self.tapes[run][:steps]:
                e._pool.rollout(
                    e._models, e._datas, state, control, nstep=e.plant.decimation,
                    control_spec=e._control_spec, skip_checks=True, state=e._out, sensordata=e._sensors,
                )  # fmt: skip

        return rollout

    def step_engine(self, steps: int) -> None:
        for state, _, targets in self.tapes[self.step_env][:steps]:
            self.engine._state[:] = state
            self.engine.step(targets)

    def step_env(self, steps: int) -> None:
        for _ in range(steps):
            self.env.step(self.env.exploration * 0.5)

    def train(self, steps: int) -> None:
        for _ in range(steps // self.recipe.horizon):
            collect(self.env, self.learner, self.block, self.recipe.gamma, self.recipe.lam)
            self.learner.update(self.block)
            self.env.log.take_ended()

    def cases(self, plant: str, sizes: Sizes) -> list[Case]:
        n, horizon = self.env.num_envs, self.recipe.horizon
        steps = horizon * max(1, min(sizes.samples // (n * horizon), sizes.most_steps // horizon))
        if n not in sizes.envs:
            return [Case(plant, "env", n, steps, self.step_env, self.prepare)]
        self.train(horizon)
        self.record(self.step_env, steps)
        self.record(self.train, steps)
        runs = (
            self.replay(self.step_env), self.step_engine, self.step_env, self.replay(self.train), self.train
        )  # fmt: skip
        return [Case(plant, k, n, steps, run, self.prepare) for k, run in zip(LAYERS, runs, strict=True)]


def gymnasium_case(plant: str, processes: int, sizes: Sizes) -> tuple[Case, AsyncVectorEnv]:
    go1 = robot("go1")
    model = build_scene(go1, PLANTS[plant]).model
    make = functools.partial(PlainWalk, model, go1.default_pose, go1.stand_height_m, PLANTS[plant].decimation)
    # Forked where that exists: the processes share what is loaded already and import nothing again.
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
    """Peak resident bytes of a `surefoot train` of two updates and its evaluation, in its own process."""
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
            "--perturb",
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
    names = ("torch", "mujoco", "numpy", "gymnasium")
    return {
        "cpu": device_name(torch.device("cpu")),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        **{n: version(n) for n in names},
        "surefoot": surefoot.__version__,
        "torch_threads": torch.get_num_threads(),
        "environment": {k: v for k, v in os.environ.items() if k.startswith(("OMP_", "GOMP_", "MKL_"))},
        "load_average_before": [round(x, 2) for x in os.getloadavg()] if hasattr(os, "getloadavg") else None,
    }


@dataclass(frozen=True)
class Options:
    """Measure CPU throughput layer by layer."""

    quick: bool = False
    """Small sizes, a few seconds: shows that everything runs."""
    out: Path | None = None
    """JSON to write, the plot beside it (default: cpu_throughput.json beside this file; none if --quick)."""


def measure(sizes: Sizes, console: Console) -> Results:
    about = machine()
    load = about["load_average_before"]
    console.print(f"{about['cpu']}, {about['cores']} cores, load {load}", highlight=False, markup=False)
    # First, while this process is small: a child's peak memory starts at its parent's.
    peak = peak_memory(sizes)
    # Then the processes, before torch and MuJoCo have started threads: a fork copies only the calling one.
    plain = [gymnasium_case(plant, k, sizes) for plant in PLANTS for k in sizes.processes]
    prepare_torch()
    about["torch_threads"] = torch.get_num_threads()
    rigs = [
        (name, Rig(p, n, sizes.warm_up)) for name, p in PLANTS.items() for n in (*sizes.batches, *sizes.envs)
    ]
    cases: list[Case] = []
    for name, rig in rigs:
        cases += rig.cases(name, sizes)
        if rig.env.num_envs == sizes.judged:  # next to what they are compared with
            cases += [case for case, _ in plain if case.plant == name]
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
