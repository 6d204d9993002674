"""Would anything pass? Policies that must fail are put on the panel, baselines are held to what they are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.panel_traces import Traced, traced
from surefoot.audits.slow_philox import EVAL, philox
from surefoot.audits.slow_trot import trot_actions
from surefoot.contract import BOX_WORLD, REFERENCE, TRAINED, Column
from surefoot.evaluation import PanelEvaluator, engines_for
from surefoot.policy import PolicyBundle
from surefoot.statistics import split_columns
from surefoot.training import RobotPlan

SCENARIOS = 24
GOOD, ABOVE, SHARE = 0.5, 0.3, 0.5
"""A policy with this success or more, by so much above the robot that does nothing, is one whose controls
must succeed in less than this share of what it does. Who never moves passes a tenth of a panel, the scenarios
to stand in."""
BASELINE = 23
"""Channel of the random baseline's draws."""
ROUNDING = 1e-5
"""Single precision; on clean runs actions were 1.1e-6 apart at most."""
TROT, TROT_ROUNDING = "open-loop-trot", 2e-4
"""Its clock is in single precision too, and runs for hundreds of steps."""
COPIED = 0.5
"""Share of scenarios that may have the same states to the bit on two engines; on clean runs none has."""


def look_at_controls(case: Case) -> list[Found]:
    """Plays shuffled weights, and a policy wired to another order of observations, where the run's own
    policy succeeds."""
    rows = case.result.rows
    success = float(np.mean(rows["success"]))
    idle = _success_of(case, "baseline:hold-pose")
    if success < GOOD or success < idle + ABOVE:
        raise NotApplicable(
            f"its policy succeeds in {100 * success:.0f}% of episodes, so that another's failing says nothing"
        )
    plan, numbers = case.robot, case.numbers("controls")
    panel, hz = plan.panel, plan.recipe.control_hz
    count = len(panel.numbers("confirmation"))
    only = np.sort(numbers.permutation(count)[:SCENARIOS]).tolist()
    engine = engines_for("auto", plan.task, panel, hz)[1]
    evaluator = PanelEvaluator(plan.task, panel, "confirmation", hz, engine=engine, only=only)
    try:
        scores = {
            name: float(np.mean(evaluator.run_episodes(policy, Column()).rows["success"]))
            for name, policy in controls(case.policy, numbers).items()
        }
    finally:
        evaluator.close()
    return [
        Found(
            f"A policy with {name} succeeds in {100 * score:.0f}% of {len(only)} held-out episodes, and the "
            f"run's own in {100 * success:.0f}%: passing this panel shows nothing."
        )
        for name, score in scores.items()
        if score > SHARE * success
    ]


def controls(policy: PolicyBundle, numbers: np.random.Generator) -> dict[str, PolicyBundle]:
    """Returns policies that know nothing of the task, made of one that does."""
    shuffled: dict[str, Tensor] = {}
    for name, x in policy.tensors.items():
        order = torch.from_numpy(numbers.permutation(x.numel()))
        shuffled[name] = x.flatten()[order].view(x.shape) if name.endswith("weight") else x
    size = policy.tensors["mean"].numel()
    order = torch.from_numpy(numbers.permutation(size))
    rewired = dict(policy.tensors)
    for name in ("0.weight", "memory.input"):
        if name in rewired:
            rewired[name] = _rewired(rewired[name], order, policy.card.remembers.kind)
    return {
        "its weights shuffled": PolicyBundle(policy.card, shuffled),
        "its observations in another order": PolicyBundle(policy.card, rewired),
    }


def _rewired(weight: Tensor, order: Tensor, memory: str) -> Tensor:
    """Returns a first layer that reads observations in another order; a window has several of them, and the
    state of a GRU stands behind its one."""
    size, width = len(order), weight.shape[1]
    count = width // size if memory == "window" else 1
    seen = torch.cat([order + k * size for k in range(count)])
    return weight[:, torch.cat([seen, torch.arange(len(seen), width)])]


def _success_of(case: Case, column: str) -> float:
    t = case.result.table
    own = t["column"].astype(str) == column
    return float(np.mean(t["success"][own])) if own.any() else 0.0


# ---- baselines and engines


def look_at_baselines(case: Case) -> list[Found]:
    """Holds the actions of kept episodes of baselines to what they are: nothing, draws of their own, and a
    trot."""
    wrong: dict[str, list[Traced]] = {}
    looked = 0
    for t in traced(case):
        right = baseline_actions(t, case.robot)
        if right is None:
            continue
        looked += 1
        room = TROT_ROUNDING if t.policy == TROT else ROUNDING
        if (np.abs(t.frames["action"] - right) > room * (1 + np.abs(right))).any():
            wrong.setdefault(t.policy, []).append(t)
    if not looked:
        raise NotApplicable("no episode of a baseline was kept")
    return [
        Found(f"{len(ts)} kept episodes of the baseline {name} are of something else (first: {ts[0].name}).")
        for name, ts in wrong.items()
    ]


def baseline_actions(t: Traced, plan: RobotPlan) -> np.ndarray | None:
    """Returns the actions [T, A] of a baseline; None where nobody knows them."""
    contract = plan.task.contract
    clip, (steps, size) = contract.action.clip, t.frames["action"].shape
    if t.policy == TROT:
        return trot_actions(contract, plan.task.robot, plan.recipe.control_hz, t.frames["command"])
    if t.policy == "hold-pose":
        return np.zeros((steps, size))
    if t.policy != "random":
        return None
    wide = -(-size // 4) * 4
    blocks = np.arange(steps * wide // 4)
    where = (blocks, BASELINE + 65536 * EVAL, t.scenario.member, 0)
    u = (philox((t.panel.seeds.root, t.scenario.family), where).reshape(-1) >> np.uint64(8)) / 2.0**24
    radius, angle = np.sqrt(-2 * np.log(1 - u[0::2])), 2 * np.pi * u[1::2]
    drawn = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).reshape(steps, wide)
    out: np.ndarray = np.clip(drawn[:, :size], -clip, clip)
    return out


def look_at_engines(case: Case) -> list[Found]:
    """Looks whether two engines that are compared are two."""
    if not any(len(v) > 1 for v in _engines(case).values()):
        raise NotApplicable("one engine played everything")
    return list(_alike(case))


def _engines(case: Case) -> dict[str, dict[str, dict[int, str]]]:
    """Returns column -> engine -> scenario -> digest of its states, of the trained policy."""
    table = case.result.table
    out: dict[str, dict[str, dict[int, str]]] = {}
    if "states_digest" not in table:
        raise NotApplicable("its rows are of before episodes had a digest")
    for column, engine, part in split_columns(table):
        if str(part["policy"][0]) == TRAINED:
            if engine == BOX_WORLD:  # the same simulator, and its ground may be the same where a robot stands
                continue
            own = zip(part["scenario"].tolist(), part["states_digest"].astype(str).tolist(), strict=True)
            out.setdefault(column, {})[engine] = dict(own)
    return out


def _alike(case: Case) -> Iterator[Found]:
    for column, engines in _engines(case).items():
        names = sorted(engines, key=lambda e: e != REFERENCE)
        for other in names[1:]:
            a, b = engines[names[0]], engines[other]
            both = a.keys() & b.keys()
            same = sum(a[k] == b[k] for k in both)
            if same > COPIED * len(both):
                yield Found(
                    f"{same} of {len(both)} episodes of {column} on {names[0]} and on {other} are the same "
                    "to the bit: one engine played both, and their agreement says nothing."
                )


DETECTORS = (
    Detector(
        name="panel-controls",
        kind="proof",
        cause="metric",
        asks="Do policies that know nothing fail where the run's own succeeds?",
        statistic="success of its shuffled weights, and of its weights on observations in another order",
        threshold="half of the policy's own success, where that is 50% or more",
        means="What the panel counts as success is no success.",
        remedy="Look at an episode of the control that counts: `surefoot replay`.",
        look=look_at_controls,
        needs=("confirmed", "robot"),
    ),
    Detector(
        name="panel-baselines",
        kind="proof",
        cause="held-out",
        asks="Are the baselines that the run is compared with what they are called?",
        statistic="actions of kept episodes: none of the one that holds its pose, keyed normal ones of the "
        "random one, strides as long as is commanded of the trot",
        threshold="1e-5, and 2e-4 of a trot, whose clock runs on: single precision",
        means="To be better than the baselines says nothing.",
        remedy="Play them again: `surefoot evaluate RUN --checkpoint baseline:random`.",
        look=look_at_baselines,
        needs=("confirmed", "robot"),
        short=True,
    ),
    Detector(
        name="panel-engines",
        kind="proof",
        cause="held-out",
        asks="Are two engines that are said to agree two engines?",
        statistic="share of scenarios with the same states to the bit on both",
        threshold="half; engines of other arithmetic never agree so",
        means="The agreement of simulators compares one with itself.",
        remedy="Evaluate again with `--engine mujoco`, and look at which engine is made.",
        look=look_at_engines,
        needs=("confirmed", "robot"),
        short=True,
    ),
)
