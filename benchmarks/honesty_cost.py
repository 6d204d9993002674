"""What a look at the batch (training/honesty.py) costs, against the update it looks at.

    python benchmarks/honesty_cost.py        two minutes on two cores; writes honesty_cost.json beside it
    python benchmarks/honesty_cost.py --device cuda

Updates and looks are timed in turn, after a warm-up, on the default recipe of walk-flat; medians. The share
that counts is of a look every ten updates, as training does it.
"""

from __future__ import annotations

import surefoot.cli  # noqa: F401  # isort: skip  # first: how waiting threads behave, before torch is loaded

import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import tyro

from surefoot.artifacts import atomic_write
from surefoot.compute.cores import prepare_torch
from surefoot.env import VecEnv
from surefoot.env.scenarios import TrainSampler
from surefoot.learners import Ppo, symmetry
from surefoot.rollout import RolloutBlock
from surefoot.training import EVERY as HONESTY_EVERY
from surefoot.training import collect, honesty_figures
from surefoot.training.plan_makers import make_plan

OUT = Path(__file__).with_name("honesty_cost.json")


@dataclass(frozen=True)
class Args:
    device: str = "cpu"
    envs: tuple[int, ...] = (512, 4096)
    updates: int = 8
    """Timed ones, after two that are not."""
    out: str = str(OUT)


def measure(envs: int, device: str, updates: int) -> dict[str, float | int]:
    plan = make_plan("walk-flat", overrides={"envs": envs}, seed=1, engine="auto", device=device)
    recipe, contract = plan.recipe, plan.task.contract
    where = torch.device(device)
    sampler = TrainSampler(contract, plan.task.robot, plan.seeds, recipe.control_hz, None, where)
    env = VecEnv(plan.task, sampler, plan.training_plant, engine=plan.engine, device=device)
    learner = Ppo(
        contract, recipe, symmetry(contract, plan.task.robot, plan.task.scan, where), plan.seeds, where
    )
    sizes = (contract.observation_size, contract.critic_size, contract.action.size, len(contract.rewards))
    block = RolloutBlock.empty(recipe.horizon, envs, *sizes, where)
    spent: dict[str, list[float]] = {"update": [], "look": []}

    def timed(name: str, what: Callable[[], None]) -> None:
        if where.type == "cuda":
            torch.cuda.synchronize()
        begun = time.perf_counter()
        what()
        if where.type == "cuda":
            torch.cuda.synchronize()
        spent[name].append(time.perf_counter() - begun)

    def update() -> None:
        collect(env, learner, block, recipe.gamma, recipe.lam)
        learner.update(block)

    for _ in range(updates + 2):
        start = env.state.age.clone()
        timed("update", update)
        timed(
            "look",
            lambda start=start: honesty_figures(  # type: ignore[misc]
                block,
                start,
                env.content(),
                families=recipe.families,
                strata=contract.strata.shape,
            ).tolist(),
        )
    env.close()
    update_s, look_s = (float(np.median(spent[k][2:])) for k in ("update", "look"))
    return {
        "envs": envs,
        "horizon": recipe.horizon,
        "engine": plan.engine,
        "update_s": update_s,
        "look_s": look_s,
        "share_of_every_update": look_s / update_s,
        "share_as_done": look_s / update_s / HONESTY_EVERY,
    }


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
    prepare_torch()
    cases = [measure(n, args.device, args.updates) for n in args.envs]
    machine = (
        torch.cuda.get_device_name() if args.device == "cuda" else platform.processor() or platform.machine()
    )
    document = {
        "schema_version": 1,
        "device": args.device,
        "machine": machine,
        "every": HONESTY_EVERY,
        "cases": cases,
    }
    atomic_write(args.out, (json.dumps(document, indent=2) + "\n").encode())
    for c in cases:
        print(
            f"N {c['envs']}: update {1e3 * c['update_s']:.1f} ms, look {1e3 * c['look_s']:.2f} ms, "
            f"{100 * c['share_as_done']:.3f}% of training"
        )


if __name__ == "__main__":
    main()
