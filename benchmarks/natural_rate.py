"""How often honest rows disagree when they are played again where they do not repeat to the bit.

    python benchmarks/natural_rate.py RUN [RUN ...]      # writes natural_rate.json

The nominal scenarios of each run's panel, both halves, are played by its confirmed policy: on stride and on
native MuJoCo (another engine), and on each with the policy's weights moved by one part in ten million (what
another processor's rounding does to an episode, and more). A pair disagrees as `surefoot verify` has it:
another outcome, or errors further apart than 0.05 m/s or 0.1 rad/s.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from typing import Any

from document import HERE
from machines import commit
from surefoot.artifacts import write_json
from surefoot.compute import cpu_name, prepare_torch
from surefoot.contract import columns
from surefoot.evaluation import PanelEvaluator
from surefoot.policy import PolicyBundle
from surefoot.replays.sample import disagrees
from surefoot.runs import RunFolder, versions
from surefoot.statistics import rate
from surefoot.training import RobotPlan, load_policy, restore_robot_plan

MOVED = 1e-7


def moved(policy: PolicyBundle) -> PolicyBundle:
    tensors = {k: v * (1 + MOVED) if k.endswith("weight") else v for k, v in policy.tensors.items()}
    return PolicyBundle(policy.card, tensors)


def pairs(folder: str) -> list[dict[str, Any]]:
    run = RunFolder.open(folder)
    plan = restore_robot_plan(run)
    policy = load_policy(run, "confirmed")[1]
    rows: dict[tuple[str, bool], list[dict[str, Any]]] = {}
    for engine in ("stride", "mujoco"):
        evaluator = PanelEvaluator(plan.task, plan.panel, "all", plan.recipe.control_hz, engine=engine)
        for changed in (False, True):
            found = evaluator.run(moved(policy) if changed else policy, traces=False).rows
            n = len(found["success"])
            rows[engine, changed] = [{k: v[i] for k, v in found.items()} for i in range(n)]
        evaluator.close()
    out = _columns(run, plan, policy)
    for what, a, b in (
        ("another engine", ("stride", False), ("mujoco", False)),
        ("rounding, stride", ("stride", False), ("stride", True)),
        ("rounding, mujoco", ("mujoco", False), ("mujoco", True)),
    ):
        apart = [disagrees(x, y) for x, y in zip(rows[a], rows[b], strict=True)]
        r = rate(apart, list(range(len(apart))))
        exact = sum(x["states_digest"] == y["states_digest"] for x, y in zip(rows[a], rows[b], strict=True))
        case = {"task": run.record.task, "what": what, "rows": r.n, "disagree": sum(apart), "exact": exact}
        out.append(case | {"rate": r.value, "high": r.high})
    return out


def _columns(run: RunFolder, plan: RobotPlan, policy: PolicyBundle) -> list[dict[str, Any]]:
    """The perturbed columns under rounding, all of them as one, and the worst."""
    hz, cases = plan.recipe.control_hz, []
    evaluator = PanelEvaluator(plan.task, plan.panel, "confirmation", hz, engine="stride")
    for column in columns(plan.panel, ("all",)):
        found = [evaluator.run(p, column, traces=False).rows for p in (policy, moved(policy))]
        n = len(found[0]["success"])
        one, two = ([{k: v[i] for k, v in rows.items()} for i in range(n)] for rows in found)
        apart = [disagrees(x, y) for x, y in zip(one, two, strict=True)]
        r = rate(apart, list(range(n)))
        exact = sum(x["states_digest"] == y["states_digest"] for x, y in zip(one, two, strict=True))
        case = {"task": run.record.task, "what": f"rounding, stride, {column.name}", "rows": n}
        cases.append(case | {"disagree": sum(apart), "exact": exact, "rate": r.value, "high": r.high})
    evaluator.close()
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--out", default=str(HERE / "natural_rate.json"))
    args = parser.parse_args()
    prepare_torch()
    cases = [case for folder in args.runs for case in pairs(folder)]
    now = datetime.now(UTC).isoformat(timespec="seconds")
    about = {"schema_version": 1, "date": now, "commit": commit(), "machine": {"cpu": cpu_name()}}
    write_json(args.out, about | {"versions": versions(), "cases": cases})
    for case in cases:
        print(case, file=sys.stderr)


if __name__ == "__main__":
    main()
