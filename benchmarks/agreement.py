"""Whether stride and native MuJoCo say the same about a policy, scenario by scenario.

    python benchmarks/agreement.py           # trains what is missing in runs/, writes agreement.json

A policy trained with stride and one trained with native MuJoCo run the confirmation half of walk-flat-v1 on
both engines, and a policy trained with stride runs that of walk-rough-v1. Scores have the intervals of every
result; differences are paired by scenario, with families as clusters. Training budgets are short: what is
measured is whether engines agree about a policy, not how good it is.

On heightfields MuJoCo's contact is by closest point (docs/internals/engines.md). How much that matters is
measured beside it: with MuJoCo's own prisms, and with prisms for legs and trunk alone, which then also feel
the ground between a capsule's ends and a box's corners. The rough policy also walks on level ground, which is
a plane or a level heightfield.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from surefoot.artifacts import write_json
from surefoot.compute.cores import prepare_torch
from surefoot.contract import evaluation_plant, load_panel
from surefoot.engines import surface
from surefoot.evaluation import PanelEvaluator, Passes, evaluate_panel
from surefoot.evidence.compare import METRICS
from surefoot.runs import RunFolder
from surefoot.statistics import paired
from surefoot.statistics.columns import Rows, agreement, column_summary
from surefoot.statistics.estimates import SPANS
from surefoot.training.plan_makers import make_plan
from surefoot.training.restore import load_policy, restore_plan

ENGINES = ("mujoco", "stride")
FLAT_TASK = "walk-flat"
"""Sees what walk-rough sees, on a plane."""
FLAT_PANEL = "walk-flat-v1"
STOCK = list(surface.collision_functions()[int(mujoco.mjtGeom.mjGEOM_HFIELD)])
"""MuJoCo's own functions: read before anything replaces them."""
SCORES = ("success", "success_low", "success_high", "fall_rate", "fall_low", "fall_high")


@dataclass(frozen=True)
class Trained:
    """A policy, and how much training it gets."""

    task: str
    engine: str
    limits: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.task}, trained on {self.engine}"

    def run(self, runs: Path) -> RunFolder:
        folder = runs / f"agreement-{self.task}-{self.engine}"
        if not (folder / "run.json").exists():
            what = [
                self.task,
                "--engine",
                self.engine,
                *self.limits,
                "--perturb",
                "none",
                "--out",
                str(folder),
            ]
            command = [sys.executable, "-m", "surefoot", "train", *what, "--tracker", "none", "--quiet"]
            subprocess.run(command, check=True)
        return RunFolder.open(folder)


FLAT = (
    Trained("trot-flat", "stride", ("--until", "0.97", "--minutes", "5")),
    Trained("trot-flat", "mujoco", ("--until", "0.97", "--minutes", "9")),
)
ROUGH = Trained("walk-rough", "stride", ("--minutes", "8"))


def on_both(trained: Trained, runs: Path) -> tuple[dict[str, Any], dict[str, Rows]]:
    """Scores on both engines and what differs between them; the episodes by engine."""
    run = trained.run(runs)
    plan, (_, policy) = restore_plan(run), load_policy(run, "confirmed")
    _, passes = evaluate_panel(
        plan.task, plan.panel, "confirmation", plan.recipe.control_hz, policy, Passes("stride", baselines=())
    )
    rows = {str(p.rows["engine"][0]): p.rows for p in passes if p.rows["engine"][0] in ENGINES}
    assert set(rows) == set(ENGINES)
    scores = {
        e: column_summary(r, plan.task.contract).model_dump(mode="json", exclude={"column", "labels"})
        for e, r in rows.items()
    }
    comparison = {
        "policy": trained.name,
        "panel": plan.panel.name,
        "scenarios": len(rows["mujoco"]["key"]),
        "training_figures": run.record.figures,
        "scores": scores,
        "stride_minus_mujoco": differences(rows["mujoco"], rows["stride"]),
        "agreement": agreement(rows["mujoco"], rows["stride"]).model_dump(mode="json"),
    }
    return comparison, rows


@contextmanager
def prisms_for_legs_and_trunk() -> Iterator[None]:
    """Only spheres, the feet, touch surfaces; capsules and boxes touch MuJoCo's prisms."""
    row = surface.collision_functions()[int(mujoco.mjtGeom.mjGEOM_HFIELD)]
    surface.use_surfaces()
    others = [int(shape) for shape in surface.SHAPES[1:]]
    ours = [row[k] for k in others]
    for k in others:
        row[k] = STOCK[k]
    yield
    for k, address in zip(others, ours, strict=True):
        row[k] = address


def other_contacts(trained: Trained, runs: Path, surface_rows: Rows) -> dict[str, Any]:
    """The rough policy on native MuJoCo with other ways to touch a heightfield."""
    run = trained.run(runs)
    plan, (_, policy) = restore_plan(run), load_policy(run, "confirmed")
    hz = plan.recipe.control_hz
    plant = evaluation_plant(hz, heightfield=True)

    def rows_on(prisms: bool) -> Rows:
        chosen = plant.model_copy(update={"heightfield": "prisms"}) if prisms else plant
        evaluator = PanelEvaluator(plan.task, plan.panel, "confirmation", hz, plant=chosen)
        rows = evaluator.run(policy, traces=False).rows
        evaluator.close()
        return rows

    with prisms_for_legs_and_trunk():
        rows_by_contact = {"prisms for legs and trunk": rows_on(prisms=False)}
    rows_by_contact["prisms"] = rows_on(prisms=True)
    return {
        name: column_summary(rows, plan.task.contract).model_dump(
            mode="json", include={"episodes", "effective_episodes", *SCORES}
        )
        | {
            "minus_surface": differences(surface_rows, rows),
            "same_outcome": float(np.mean(rows["success"] == surface_rows["success"])),
        }
        for name, rows in rows_by_contact.items()
    }


def on_level_ground(trained: Trained, runs: Path, every: int = 4) -> dict[str, dict[str, Any]]:
    """Success and falls on some scenarios of walk-flat-v1, by ground and engine."""
    run = trained.run(runs)
    plan, (_, policy) = restore_plan(run), load_policy(run, "confirmed")
    flat = make_plan(FLAT_TASK, overrides={}, seed=plan.seeds.root, engine="stride", device="cpu").task
    by_one_rule = flat.contract.model_copy(update={"success": plan.task.contract.success})
    flat, panel = replace(flat, contract=by_one_rule), load_panel(FLAT_PANEL)
    scores = {}
    hz, grounds = (
        plan.recipe.control_hz,
        (("plane", None), ("level heightfield", "surface"), ("level prisms", "prisms")),
    )
    for ground, how in grounds:
        for engine in ENGINES:
            if how == "prisms" and engine == "stride":
                continue
            only = range(0, len(panel.select("confirmation")), every)
            plant = evaluation_plant(hz).model_copy(update={"heightfield": how})
            task = plan.task if how else flat
            evaluator = PanelEvaluator(task, panel, "confirmation", hz, engine=engine, plant=plant, only=only)
            rows = evaluator.run(policy, traces=False).rows
            evaluator.close()
            scores[f"{ground}, {engine}"] = column_summary(rows, plan.task.contract).model_dump(
                mode="json", include={"episodes", "effective_episodes", *SCORES}
            )
    return scores


def differences(a: Rows, b: Rows) -> dict[str, dict[str, Any]]:
    """B minus A in every metric, over scenarios where both have a value."""
    out = {}
    for title, column in METRICS.items():
        x, y = (np.asarray(r[column], np.float64) for r in (a, b))
        known = np.isfinite(x) & np.isfinite(y)
        difference = paired(x[known], y[known], a["family"][known], SPANS[column])
        out[title] = asdict(difference) | {"holds_zero": bool(difference.low <= 0.0 <= difference.high)}
    return out


def show(comparison: dict[str, Any]) -> None:
    print(f"\n{comparison['policy']}, {comparison['panel']}, {comparison['scenarios']} scenarios")
    for engine, s in comparison["scores"].items():
        text = f"{s['success']:.3f} [{s['success_low']:.3f}, {s['success_high']:.3f}]"
        print(f"  on {engine:7s} success {text}, velocity error {s['velocity_error_mps']:.4f} m/s")
    print_differences("stride - mujoco", comparison["stride_minus_mujoco"])
    a = comparison["agreement"]
    print(
        f"  same outcome {a['success_agreement']:.3f}, rank correlation {a['rank_correlation']}", flush=True
    )


def print_differences(title: str, by_metric: dict[str, dict[str, Any]]) -> None:
    for metric, d in by_metric.items():
        print(f"  {title}, {metric}: {d['value']:+.4f} [{d['low']:+.4f}, {d['high']:+.4f}]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the run folders")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    prepare_torch()
    flat, rows = zip(*(on_both(t, args.runs) for t in FLAT), strict=True)
    between = {e: differences(rows[1][e], rows[0][e]) for e in ENGINES}
    rough, rough_rows = on_both(ROUGH, args.runs)
    others = other_contacts(ROUGH, args.runs, rough_rows["mujoco"])
    level = on_level_ground(ROUGH, args.runs)
    for comparison in (*flat, rough):
        show(comparison)
    print("\ntrained on stride less trained on mujoco")
    for engine, by_metric in between.items():
        print_differences(f"on {engine}", by_metric)
    print(f"\n{ROUGH.name}, walk-flat-v1")
    for where, s in level.items():
        print(f"  {where}: success {s['success']:.3f}, falls {s['fall_rate']:.3f} of {s['episodes']}")
    for how, s in others.items():
        print(f"  {ROUGH.name}, {how}: success {s['success']:.3f}, as surface {s['same_outcome']:.3f}")
    write_json(
        args.out,
        {
            "schema_version": 2,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "policies": [*flat, rough],
            "rough_policy_with_other_contacts": others,
            "rough_policy_on_level_ground": level,
            "trained_on_stride_minus_trained_on_mujoco": between,
        },
    )


if __name__ == "__main__":
    main()
