"""Whether stride and native MuJoCo say the same about a policy, scenario by scenario.

    python benchmarks/agreement.py           # trains what is missing in runs/, writes agreement.json

A policy trained with stride and one trained with native MuJoCo run the confirmation half of walk-flat-v1 on
both engines, and a policy trained with stride runs that of walk-rough-v1. Scores have the intervals of every
result; differences are paired by scenario, with families as clusters. Training budgets are short: what is
measured is whether engines agree about a policy, not how good it is.

They do not agree on heightfields. So the rough policy also walks on level ground, which is a plane or a level
heightfield: for stride they are the same, for MuJoCo they are not.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.artifacts import write_json
from surefoot.commands import load_policy, plan_of
from surefoot.cores import prepare_torch
from surefoot.evidence import PanelEvaluator, RunFolder, evaluate_panel
from surefoot.evidence.columns import Rows, agreement, column_summary
from surefoot.evidence.compare import METRICS
from surefoot.evidence.figures import SPANS
from surefoot.evidence.statistics import paired
from surefoot.plan import make_plan

ENGINES = ("mujoco", "stride")
FLAT_TASK = "walk-flat"
"""Sees what walk-rough sees, on a plane."""
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
    plan, (_, policy) = plan_of(run), load_policy(run, "confirmed")
    _, passes = evaluate_panel(
        plan.task, plan.panel, "confirmation", plan.recipe.control_hz, policy, engine="stride", baselines=()
    )
    rows = {str(p.rows["engine"][0]): p.rows for p in passes}
    assert set(rows) == set(ENGINES)
    scores = {
        e: column_summary(r, plan.task.contract).model_dump(mode="json", exclude={"column", "labels"})
        for e, r in rows.items()
    }
    found = {
        "policy": trained.name,
        "panel": plan.panel.name,
        "scenarios": len(rows["mujoco"]["key"]),
        "training_figures": run.record.figures,
        "scores": scores,
        "stride_minus_mujoco": differences(rows["mujoco"], rows["stride"]),
        "agreement": agreement(rows["mujoco"], rows["stride"]).model_dump(mode="json"),
    }
    return found, rows


def on_level_ground(trained: Trained, runs: Path, every: int = 4) -> dict[str, dict[str, Any]]:
    """Success and falls on some scenarios of walk-flat-v1, by ground and engine."""
    run = trained.run(runs)
    plan, (_, policy) = plan_of(run), load_policy(run, "confirmed")
    flat = make_plan(FLAT_TASK, overrides={}, seed=plan.seeds.root, engine="stride", device="cpu")
    found = {}
    for ground, task in (("plane", flat.task), ("level heightfield", plan.task)):
        for engine in ENGINES:
            only = range(0, len(flat.panel.select("confirmation")), every)
            evaluator = PanelEvaluator(
                task, flat.panel, "confirmation", plan.recipe.control_hz, engine=engine, only=only
            )
            rows = evaluator.run(policy, traces=False).rows
            evaluator.close()
            found[f"{ground}, {engine}"] = column_summary(rows, plan.task.contract).model_dump(
                mode="json", include={"episodes", "effective_episodes", *SCORES}
            )
    return found


def differences(a: Rows, b: Rows) -> dict[str, dict[str, Any]]:
    """B minus A in every metric, over scenarios where both have a value."""
    out = {}
    for title, column in METRICS.items():
        x, y = (np.asarray(r[column], np.float64) for r in (a, b))
        known = np.isfinite(x) & np.isfinite(y)
        found = paired(x[known], y[known], a["family"][known], SPANS[column])
        out[title] = asdict(found) | {"holds_zero": bool(found.low <= 0.0 <= found.high)}
    return out


def show(found: dict[str, Any]) -> None:
    print(f"\n{found['policy']}, {found['panel']}, {found['scenarios']} scenarios")
    for engine, s in found["scores"].items():
        text = f"{s['success']:.3f} [{s['success_low']:.3f}, {s['success_high']:.3f}]"
        print(f"  on {engine:7s} success {text}, velocity error {s['velocity_error_mps']:.4f} m/s")
    print_differences("stride - mujoco", found["stride_minus_mujoco"])
    a = found["agreement"]
    print(
        f"  same outcome {a['success_agreement']:.3f}, rank correlation {a['rank_correlation']}", flush=True
    )


def print_differences(title: str, found: dict[str, dict[str, Any]]) -> None:
    for metric, d in found.items():
        print(f"  {title}, {metric}: {d['value']:+.4f} [{d['low']:+.4f}, {d['high']:+.4f}]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the run folders")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    prepare_torch()
    flat, rows = zip(*(on_both(t, args.runs) for t in FLAT), strict=True)
    between = {e: differences(rows[1][e], rows[0][e]) for e in ENGINES}
    rough, _ = on_both(ROUGH, args.runs)
    level = on_level_ground(ROUGH, args.runs)
    for found in (*flat, rough):
        show(found)
    print("\ntrained on stride less trained on mujoco")
    for engine, found in between.items():
        print_differences(f"on {engine}", found)
    print(f"\n{ROUGH.name}, walk-flat-v1")
    for where, s in level.items():
        print(f"  {where}: success {s['success']:.3f}, falls {s['fall_rate']:.3f} of {s['episodes']}")
    write_json(
        args.out,
        {
            "schema_version": 1,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "policies": [*flat, rough],
            "rough_policy_on_level_ground": level,
            "trained_on_stride_minus_trained_on_mujoco": between,
        },
    )


if __name__ == "__main__":
    main()
