"""Does a second evaluator, with noise of its own, see what the panel's rows say?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from surefoot.audits.case import Case
from surefoot.audits.detector import Detector, Found, NotApplicable
from surefoot.audits.panel_traces import panel_called
from surefoot.audits.second_evaluator import ENDS, SHOWN, Weights, World, shifted, start_of
from surefoot.audits.second_figures import Episode, Rules, figures, live
from surefoot.contract import TRAINED, Column, Panel
from surefoot.statistics import split_columns

ROWS, FEWEST = 32, 12
FLIPS, CHUNK = 400_000, 50_000
"""Tosses: a hundred thousandth of them must be more than what confirms a finding, times the figures."""
COMPARED: Mapping[str, float] = {
    "fall": 0.0,
    "lived_s": 0.0,
    "velocity_error_mps": 0.002,
    "yaw_error_radps": 0.004,
    "windows_as_told": 0.0,
    "distance_m": 0.02,
    "work_j": 1.0,
    "torque_saturation": 0.0005,
    "foot_slip_m": 0.02,
    "achieved_vx": 0.002,
    "achieved_vy": 0.002,
    "achieved_wz": 0.004,
}
"""Figures, and differences of an episode that say nothing: what rounding does over ten seconds, whose sign
two engines may share. A hundredth of the figure is nothing as well."""
NEGLIGIBLE = 0.01
MOTION = {"lived_s", "achieved_vx", "achieved_vy", "achieved_wz"}
"""Figures that speak of what happened, and not of how it is measured."""

Pair = tuple[dict[str, Any], dict[str, float]]


def look(case: Case) -> list[Found]:
    """Compares rows with the second evaluator's, by the signs and ranks of their differences. Row and second
    episode are two draws of one scenario: which is which is a coin's toss, so p is exact."""
    pairs = played(case)
    gaps = {}
    for name, least in COMPARED.items():
        a = np.array([float(row.get(name, np.nan)) for row, _ in pairs])
        b = np.array([own[name] for _, own in pairs])
        both = np.isfinite(a) & np.isfinite(b)
        d = np.where(both, b - a, 0.0)
        gaps[name] = np.where(np.abs(d) > least + NEGLIGIBLE * np.maximum(np.abs(a), np.abs(b)), d, 0.0)
    out = []
    for name, d in gaps.items():
        p = min(1.0, len(gaps) * by_chance(d, case.numbers(f"tosses of {name}")))
        ours = float(np.nanmean([own[name] for _, own in pairs]))
        theirs = float(np.nanmean([float(row.get(name, np.nan)) for row, _ in pairs]))
        if p < 0.5:
            text = (
                f"Of {len(pairs)} held-out episodes that a second evaluator lived again with other noise, "
                f"{name} is {ours:.4g} on average where their rows say {theirs:.4g}."
            )
            out.append(Found(text, p, "panel-plant" if name in MOTION else "metric"))
    return out


def by_chance(d: np.ndarray, numbers: np.random.Generator) -> float:
    """Returns how often differences whose signs are tossed add up, by rank, to as much as these do."""
    size = np.abs(d[d != 0])
    if not len(size):
        return 1.0
    ranks = 1.0 + np.unique(size, return_inverse=True)[1]
    least = abs(float(np.sign(d[d != 0]) @ ranks)) - 1e-9
    as_much = 0
    for _ in range(FLIPS // CHUNK):
        tossed = numbers.integers(0, 2, (CHUNK, len(size)), np.int8)
        as_much += int((np.abs(tossed @ (2 * ranks) - ranks.sum()) >= least).sum())
    return (1 + as_much) / (1 + FLIPS)


def played(case: Case) -> list[Pair]:
    """Returns rows of all columns of the trained policy, each of another scenario, with what the second
    evaluator sees of the same scenarios."""
    plan, result = case.robot, case.result
    contract, robot = plan.task.contract, plan.task.robot
    named = {t.name: SHOWN for t in contract.observation} | {t.name: ENDS for t in contract.terminations}
    unknown = {n for n, known in named.items() if n not in known or not ours(plan.task.terms[n])}
    if unknown:
        raise NotApplicable(f"the second evaluator does not know {', '.join(sorted(unknown))}")
    panel = panel_called(case, result.summary.panel, result.summary.panel_digest)
    bundle = case.policy
    weights = Weights(
        {k: v.double().numpy() for k, v in bundle.tensors.items()},
        len(bundle.card.hidden) + 1,
        bundle.card.observation_clip,
        bundle.card.remembers,
    )
    rules = Rules(contract, robot, plan.recipe.control_hz, panel.episode_s, weights)
    numbers = case.numbers("second evaluator")
    rows, episodes = [], []
    for row, column in chosen(result.table, panel, numbers):
        s, world = shifted(panel.scenarios[int(row["scenario"])], column), World(robot, rules.control_hz)
        noise = np.random.default_rng(numbers.integers(2**32))
        start = start_of(panel, s, robot, contract)
        episodes.append(Episode(world, s, column, start, rules.steps, noise))
        rows.append(row)
    if len(rows) < FEWEST:
        raise NotApplicable("too few of its held-out episodes are on level ground, which is all this plays")
    live(episodes, rules)
    return [(r, figures(e, rules)) for r, e in zip(rows, episodes, strict=True)]


def ours(term: object) -> bool:
    """Returns whether a term is Surefoot's own, which is what its name is known to mean."""
    return getattr(term, "__module__", "") == "surefoot.tasks.terms"


def chosen(
    table: Mapping[str, np.ndarray], panel: Panel, numbers: np.random.Generator
) -> list[tuple[dict[str, Any], Column]]:
    """Returns rows of the trained policy on level ground, of all columns in turn, no scenario twice: columns
    share the draws of a scenario."""
    queues: list[list[tuple[dict[str, Any], Column]]] = []
    for shown, _, part in split_columns(table):
        kind, strength = str(part["perturbation"][0]), float(part["strength"][0])
        if str(part["policy"][0]) != TRAINED:
            continue
        column = Column(name=shown, perturbation=kind, strength=strength)
        rows = [{k: v[i] for k, v in part.items()} for i in numbers.permutation(len(part["scenario"]))]
        try:
            level = [r for r in rows if shifted(panel.scenarios[r["scenario"]], column).terrain.cls == "flat"]
        except KeyError:  # another package's perturbation
            continue
        queues.append([(r, column) for r in level if str(r["reason"]) != "nonfinite"])
    out: list[tuple[dict[str, Any], Column]] = []
    used: set[int] = set()
    while len(out) < ROWS and any(queues):
        for queue in queues:
            while queue and int(queue[0][0]["scenario"]) in used:
                queue.pop(0)
            if queue and len(out) < ROWS:
                out.append(queue.pop(0))
                used.add(int(out[-1][0]["scenario"]))
    return out


DETECTORS = (
    Detector(
        name="second-evaluator",
        kind="proof",
        cause="metric",
        asks="Does a second evaluator, in plain MuJoCo and with noise of its own, see what rows say?",
        statistic="signed ranks of differences between 32 rows of all columns and the same scenarios lived "
        "again: falls, seconds, errors, windows as told, distance, work, torques at their limits, slip, "
        "velocities",
        threshold="p of tossed signs, exact as row and second episode are exchangeable, times the number of "
        "figures; what rounding may share is no difference",
        means="The panel plays something else than its scenarios, or rows say something else than what "
        "happened.",
        remedy="`surefoot replay` some of the rows, and work out the figure by hand from their traces.",
        look=look,
        needs=("confirmed", "robot"),
    ),
)
