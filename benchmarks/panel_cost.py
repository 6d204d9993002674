"""What confirming takes on panels of version 1 and 2: all passes over the confirmation half.

    python benchmarks/panel_cost.py        ten minutes on two cores; writes panel_cost.json beside it

The policy is the open-loop trot, which falls less and so costs more than most. Version 1 is played under the
columns that it had; version 2 under its own, with the faults of sensors among them. Kernels are compiled
before the clock starts.
"""

from __future__ import annotations

import surefoot.cli  # noqa: F401  # isort: skip  # first: how waiting threads behave, before torch is loaded

import json
import platform
import time
from dataclasses import dataclass
from pathlib import Path

import tyro

from surefoot.artifacts import atomic_write
from surefoot.compute import prepare_torch
from surefoot.contract import PERTURBATIONS, Column, applies, load_panel
from surefoot.evaluation import PanelEvaluator
from surefoot.training.plan import RobotPlan
from surefoot.training.plan_makers import make_plan

OUT = Path(__file__).with_name("panel_cost.json")
NEW = ("bias", "stuck", "obs_delay")


@dataclass(frozen=True)
class Args:
    tasks: tuple[str, ...] = ("walk-flat", "walk-rough")
    out: str = str(OUT)


def measure(task: str, version: int) -> dict[str, str | int | float]:
    plan = make_plan(task)
    assert isinstance(plan, RobotPlan)
    plan = plan.on_panel(load_panel(f"{task}-v{version}"))
    names = [p.name for p in PERTURBATIONS if applies(p, plan.panel) and (version > 1 or p.name not in NEW)]
    columns = plan.columns(tuple(names))
    warm = PanelEvaluator(plan.task, plan.panel, "confirmation", 50.0, engine="stride", only=[0])
    warm.run(plan.baseline("hold-pose"), Column())
    warm.close()
    begun = time.perf_counter()
    table, passes = plan.evaluate(plan.baseline("open-loop-trot"), "confirmation", columns)
    return {
        "task": task,
        "panel": plan.panel.name,
        "scenarios": len(plan.panel.select("confirmation")),
        "of a column": len(plan.panel.select("confirmation", perturbed=True)),
        "columns": len(columns),
        "episodes": len(table.rows["success"]),
        "headline_seconds": passes[0].seconds,
        "seconds": time.perf_counter() - begun,
    }


def main(args: Args) -> None:
    prepare_torch()
    cases = [measure(task, version) for task in args.tasks for version in (1, 2)]
    atomic_write(
        Path(args.out), json.dumps({"machine": platform.processor(), "cases": cases}, indent=1).encode()
    )
    for case in cases:
        print(case)


if __name__ == "__main__":
    main(tyro.cli(Args))
