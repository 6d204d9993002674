"""The task's part of a control step, three ways from one source: torch, torch.compile, generated kernels.

    python benchmarks/task_kernels.py            a minute on a GPU; writes JSON beside it
    python benchmarks/task_kernels.py --quick    few environments; shows that all of it runs

What is timed is everything of a control step that is neither physics nor the policy: targets, the task's
memory, rewards, terminations, noisy and privileged observations, exploration noise. On CUDA each way is one
graph. The generated kernels also draw and compose the scenarios of environments that end, record their
episodes and count; the other two do not, since a mask of unknown size would ask the device. `first_seconds`
is the first call: tracing and compiling, or loading what an earlier process compiled.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from machines import about, keep
from surefoot.compute.cores import prepare_torch
from surefoot.env.compiled import CompiledEnv
from surefoot.rollout import RolloutBlock
from surefoot.training.plan import Plan
from surefoot.training.plan_makers import make_plan
from training_loop import captured, milliseconds

SCHEMA_VERSION = 1


def plain_step(env: CompiledEnv) -> Callable[[], tuple[Tensor, ...]]:
    """VecEnv's own methods on a state that stays; nothing of it is written for this benchmark."""
    vec, script = env.plain, env.script
    robot = vec.engine.state()
    action = torch.zeros(vec.num_envs, vec.contract.action.size, device=vec.device)

    def step() -> tuple[Tensor, ...]:
        targets = vec.joint_targets(action)
        out = vec.outcome(robot, action)
        seen = vec.observe(out.view, script)
        return targets, out.terms, out.reward, out.terminated, out.truncated, out.reason, *seen

    return step


def without_draws(env: CompiledEnv) -> Callable[[], tuple[Tensor, ...]]:
    """Keyed draws are 64-bit integers, which not every backend of torch.compile can take."""
    keyed = env.plain.keyed
    keyed.uniforms_many = torch.compiler.disable(keyed.uniforms_many)  # type: ignore[method-assign]
    return plain_step(env)


def generated_step(env: CompiledEnv, plan: Plan) -> Callable[[], None]:
    c, device = plan.task.contract, env.device
    widths = (c.observation_size, c.critic_size, c.action.size, len(c.rewards))
    block = RolloutBlock.empty(2, env.num_envs, *widths, device)
    env.bind(torch.zeros(c.action.size, device=device), block)
    launches = [launch for share in env.launches[0] for k, launch in enumerate(share) if k in (0, 2, 5)]

    def step() -> None:
        for launch in launches:
            launch()

    return step


def measured(
    make: Callable[[], Callable[[], Any]], device: torch.device, count: int, may_fail: bool
) -> dict[str, Any]:
    """`may_fail`: what torch.compile cannot take is a finding, not the end. Nothing else may."""
    begun = time.perf_counter()
    try:
        step = torch.no_grad()(make())
        step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    except RuntimeError as error:  # dynamo's and inductor's errors are
        if not may_fail:
            raise
        return {"not_measured": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"}
    first = time.perf_counter() - begun
    step()
    with torch.no_grad():
        run = captured(step, device)
        ms = milliseconds(run, count, 5, device)
    return {"first_seconds": round(first, 3), "microseconds": round(ms * 1e3, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="CUDA where there is one")
    parser.add_argument("--task", default="walk-flat")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.mkdtemp())  # compiled anew, every time
    prepare_torch()
    device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    sizes = [256] if args.quick else [4096, 65536]
    rows = []
    for envs in sizes:
        change = {"envs": envs, "families": 16, "minibatches": 1}
        plan = make_plan(args.task, overrides=change, engine="stride", device=device.type)
        env = plan.environments(range(envs))
        assert isinstance(env, CompiledEnv)
        ways: dict[str, Callable[[], Callable[[], Any]]] = {
            "torch": lambda env=env: plain_step(env),  # type: ignore[misc]
            "torch.compile": lambda env=env: torch.compile(plain_step(env)),  # type: ignore[misc]
            "torch.compile but for draws": lambda env=env: torch.compile(without_draws(env)),  # type: ignore[misc]
            "generated": lambda env=env, plan=plan: generated_step(env, plan),  # type: ignore[misc]
        }
        row: dict[str, Any] = {"envs": envs}
        for name, make in ways.items():
            may_fail = name.startswith("torch.compile")
            row[name] = measured(make, device, 3 if args.quick else 50, may_fail)
            print(f"{envs} environments, {name}: {row[name]}", flush=True)
        rows.append(row)
        env.close()
    keep(args.out, device, about(device, args.quick) | {"task": args.task, "rows": rows}, SCHEMA_VERSION)


if __name__ == "__main__":
    main()
