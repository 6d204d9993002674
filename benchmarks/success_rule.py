"""What the success rule lets through, and what honest gaits leave of its tolerances.

    python benchmarks/success_rule.py WALK_RUN TROT_RUN       two minutes; writes success_rule.json

Oracles are robots that move exactly so, on every shipped panel, under the rule of before there were windows
and under today's. Policies are runs of `walk-flat` and `trot-flat`, played on the confirmation half of
walk-flat-v2 as they are, with a vibration of 0.09 rad on every joint target, and told 85% and 70% of every
command; and on the same scenarios with every command replaced by one to stand, beside a robot that holds its
pose.
"""

from __future__ import annotations

import surefoot.cli  # noqa: F401  # isort: skip  # first: how waiting threads behave, before torch is loaded

import json
import platform
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from torch import Tensor

from surefoot.artifacts import atomic_write
from surefoot.contract import BESIDE, Panel, Scenario, Success, TaskContract, load_panel
from surefoot.evaluation import PanelEvaluator
from surefoot.evaluation.oracles import best_constant, passed, scaled, stop_and_go
from surefoot.evaluation.windows import per_window
from surefoot.policy import HoldPose, Policy, first_state
from surefoot.runs import RunFolder
from surefoot.statistics import succeeds
from surefoot.tasks import Task, task
from surefoot.training.restore import load_policy

OUT = Path(__file__).with_name("success_rule.json")
TASKS = ("walk-flat", "walk-rough", "walk-anymal-flat", "walk-anymal-rough", "walk-biped-flat")
QUANTILES = (0.05, 0.5, 0.95, 1.0)
MOVING = ("window_velocity_error_mps", "window_yaw_error_radps", *BESIDE)
STANDING = (
    "stand_drift_m",
    "stand_turn_rad",
    "stand_speed_mps",
    "stand_joint_speed_radps",
    "vibration_radps",
)
MOTIONS = {
    "85% of every command": scaled(0.85, 0.85, 0.85),
    "80% of every command": scaled(0.8, 0.8, 0.8),
    "70% of every command": scaled(0.7, 0.7, 0.7),
    "ignores lateral commands": scaled(1, 0, 1),
    "yaw at 40%": scaled(1, 1, 0.4),
    "rests every fourth second": stop_and_go(0.75),
}


@dataclass(frozen=True)
class Args:
    walk: tyro.conf.Positional[str]
    trot: tyro.conf.Positional[str]
    out: str = str(OUT)


def oracles(panel: Panel, contract: TaskContract) -> dict[str, Any]:
    scenarios = panel.select("confirmation")
    fast = np.array([np.hypot(*s.command[:2]) > 0.2 for s in scenarios])
    out: dict[str, Any] = {
        "panel": panel.name,
        "rule": "windows" if contract.success.windows else "instantaneous",
        "scenarios": len(scenarios),
        "best constant velocity": best_constant(scenarios, contract),
    }
    for name, motion in MOTIONS.items():
        out[name] = float(passed(scenarios, contract, motion).mean())
    out["70% above 0.2 m/s"] = float(
        passed(scenarios, contract, MOTIONS["70% of every command"])[fast].mean()
    )
    return out


@dataclass
class Changed:
    """A policy whose observations or actions are changed on the way."""

    policy: Policy
    seen: Callable[[Tensor], Tensor] = lambda obs: obs
    shake: float = 0.0
    """Added to actions with a sign that changes at every step."""

    def start(self, family: Tensor, member: Tensor) -> Tensor:
        """Memory: the policy's own, and the sign. A call may have some of the rows."""
        own = first_state(self.policy, family, member)
        return torch.cat([own, torch.ones(len(own), 1, dtype=own.dtype)], 1)

    def __call__(self, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        sign = state[:, -1:]
        action, own = self.policy(self.seen(obs), state[:, :-1])
        return action + sign.to(action.dtype) * self.shake, torch.cat([own, -sign], 1)


def told(share: float, contract: TaskContract) -> Callable[[Tensor], Tensor]:
    at = 0
    for term in contract.observation:
        if term.name == "command":
            break
        at += term.size
    factor = torch.ones(contract.observation_size)
    factor[at : at + 3] = share
    return lambda obs: obs * factor


def played(t: Task, panel: Panel, policy: Policy) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns rows, and the share of windows that were not as told by where they stand to the push."""
    evaluator = PanelEvaluator(t, panel, "confirmation", 50.0, engine="stride")
    raw = evaluator.run_episodes(policy)
    rows, dt = raw.labelled().rows, evaluator.env.dt
    pushes = np.array([s.pushes[0].time_s for s in panel.select("confirmation")])
    evaluator.close()
    frames = {k: torch.from_numpy(v) for k, v in raw.frames.items()}
    steps = torch.from_numpy(rows["steps"])
    live = (torch.arange(len(frames["command"]))[:, None] < steps).double()
    w = per_window(frames, live, t.contract, dt)
    standing = np.isfinite(rows["stand_drift_m"])
    good = np.where(standing, w.rests, w.follows)
    well = (rows["window_velocity_error_mps"] < 0.6 * tolerance(panel, t)) & ~standing
    well |= standing.all()
    after = w.begins[:, None] * dt - pushes
    by = {}
    for k in range(-3, 5):
        at = (after >= k) & (after < k + 1) & w.lived & well
        if at.any():
            by[f"begins {k} to {k + 1} s after the push"] = float((~good[at]).mean())
    return rows, by


def tolerance(panel: Panel, t: Task) -> np.ndarray:
    w = t.contract.success.windows
    assert w is not None
    speed = np.array([np.hypot(*s.command[:2]) for s in panel.select("confirmation")])
    return np.maximum(w.velocity_mps, w.velocity_share * speed)


def figures(rows: dict[str, np.ndarray], names: tuple[str, ...], rule: Success) -> dict[str, Any]:
    def quantiles(name: str) -> list[float] | None:
        x = rows[name][np.isfinite(rows[name])]
        return [float(v) for v in np.quantile(x, QUANTILES)] if len(x) else None

    return {
        "episodes": len(rows["success"]),
        "falls": float(rows["fall"].mean()),
        "success": float(rows["success"].mean()),
        "success of those that did not fall": float(rows["success"][~rows["fall"]].mean()),
        "success by instantaneous errors alone": float(
            succeeds(rows, rule.model_copy(update={"windows": None})).mean()
        ),
        "quantiles": {name: quantiles(name) for name in names},
        "labels": dict(Counter(x for x in rows["label"].tolist() if x)),
    }


def to_stand(s: Scenario) -> Scenario:
    return s.model_copy(update={"command": (0.0, 0.0, 0.0)})


def main(args: Args) -> None:
    torch.set_num_threads(1)
    found: list[dict[str, Any]] = []
    for name in TASKS:
        c = task(name).contract
        before = c.model_copy(update={"success": c.success.model_copy(update={"windows": None})})
        found.append(oracles(load_panel(f"{name}-v1"), before))
        found.append(oracles(load_panel(c.panel), c))
    cases: list[dict[str, Any]] = []
    panel = load_panel("walk-flat-v2")
    standing = panel.model_copy(update={"scenarios": tuple(to_stand(s) for s in panel.scenarios)})
    for name, folder in (("walk-flat", args.walk), ("trot-flat", args.trot)):
        t = task(name)
        policy, c = load_policy(RunFolder.open(folder), "confirmed")[1], t.contract
        ways: dict[str, Policy] = {
            "as trained": policy,
            "with 0.09 rad at 25 Hz on all joints": Changed(policy, shake=0.09 / c.action.scale_rad),
            "told 85% of every command": Changed(policy, seen=told(0.85, c)),
            "told 70% of every command": Changed(policy, seen=told(0.7, c)),
        }
        for how, changed in ways.items():
            rows, by = played(t, panel, changed)
            case = {"policy": name, "how": how} | figures(rows, MOVING, c.success)
            moving = ~np.isfinite(rows["stand_drift_m"])
            case["success of those told to move"] = float(rows["success"][moving].mean())
            if how == "as trained":
                case["windows not as told, of episodes within 0.6 of the tolerance"] = by
            cases.append(case)
        rows, by = played(t, standing, policy)
        cases.append({"policy": name, "how": "told to stand"} | figures(rows, STANDING, c.success))
    t = task("walk-flat")
    rows, by = played(t, standing, HoldPose(t.contract.action.size))
    case = {"policy": "hold-pose", "how": "told to stand"} | figures(rows, STANDING, t.contract.success)
    cases.append(case | {"windows not as told": by})
    result = {"machine": platform.processor(), "quantiles": QUANTILES, "oracles": found, "policies": cases}
    atomic_write(Path(args.out), json.dumps(result, indent=1).encode())


if __name__ == "__main__":
    main(tyro.cli(Args))
