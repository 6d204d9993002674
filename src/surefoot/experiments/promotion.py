"""Promotion on scenarios of its own: both policies are evaluated, here and now, on a panel that follows from
them, so that nobody can have chosen on it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from surefoot.compute import prepare_torch
from surefoot.contract import NOMINAL, TRAINED, Panel, SurefootError, digest, fresh_panel
from surefoot.evidence import (
    Promotion,
    Registry,
    check_promotable,
    construct_difference,
    contradictions,
    decide,
)
from surefoot.policy import PolicyBundle
from surefoot.runs import Result, RunFolder, caveat, load_result, read_panel
from surefoot.statistics import PanelSummary
from surefoot.training import (
    UNOBSERVED,
    EvaluationObserver,
    RobotPlan,
    load_policy,
    panel_summary,
    restore_robot_plan,
)


@dataclass(frozen=True)
class _Contender:
    """One of the two policies, with the plan that it is judged by."""

    who: str
    run: RunFolder
    plan: RobotPlan
    policy: PolicyBundle
    checkpoint: str


def promote_fresh(
    candidate: str | Path,
    baseline: str | Path,
    *,
    scenarios: int | None = None,
    registry: str | Path | None = None,
    observer: EvaluationObserver = UNOBSERVED,
) -> Promotion:
    """Decides whether the run in folder `candidate` may replace the one in `baseline`, on fresh scenarios:
    the same strata, `scenarios` of them (None: as many as the panel has), their root seed the digest of both
    checkpoints and the panel's name. What was measured is kept in the registry; begun again, it goes on."""
    prepare_torch()
    two = [_contender(w, RunFolder.open(f)) for w, f in (("candidate", candidate), ("baseline", baseline))]
    first, second = two
    panel = fresh_panel(first.plan.panel, (first.checkpoint, second.checkpoint), scenarios)
    mine, theirs = ((c.run, load_result(c.run)) for c in two)
    same = first.checkpoint == second.checkpoint
    if same or caveat(first.run) or construct_difference(theirs[1], mine[1]):
        # Nothing that could be measured now would make the two comparable: what they recorded says why.
        return decide(mine, theirs, registry=registry)
    observer.note(
        f"Fresh scenarios: {len(panel.select('confirmation'))} of {panel.name}; their root seed is the "
        "digest of both checkpoints and the panel's name."
    )
    place = None
    if registry is not None:
        place = Registry(Path(registry)).evidence(digest([panel.digest, first.checkpoint, second.checkpoint]))
    results = [(c.run, _measured(c, panel, place, observer)) for c in two]
    wrong = contradictions(results[0][1], results[1][1])
    return decide(results[0], results[1], root=panel.seeds.root, registry=registry, wrong=wrong)


def _contender(who: str, run: RunFolder) -> _Contender:
    check_promotable(run)
    if run.record.confirmation is None:
        raise SurefootError(f"{run.path} has no confirmed policy yet; let it finish.")
    loaded, policy = load_policy(run, "confirmed")
    return _Contender(who, run, restore_robot_plan(run), policy, loaded.digest)


def _measured(c: _Contender, panel: Panel, place: Path | None, observer: EvaluationObserver) -> Result:
    """Evaluates a policy on the panel, or reads what was evaluated before."""
    plan = c.plan.on_panel(panel)
    folder = (place or Path()) / c.who
    if place is not None and (folder / "summary.json").is_file():
        observer.note(f"The {c.who} was evaluated on these scenarios already: {folder}.")
        read = read_panel(folder, c.run.record.contract)
        return replace(_result(c, folder, read.summary, read.rows), stated=read.stated)
    begun = time.perf_counter()
    with observer.evaluating(f"the {c.who}") as watch:
        table, passes = plan.evaluate(
            c.policy, "confirmation", plan.columns(("all",)), baselines=c.who == "candidate", watch=watch
        )
    spent = time.perf_counter() - begun
    normaliser = c.policy.normaliser_digest
    summary = panel_summary(plan, "confirmation", table, passes[0], c.checkpoint, normaliser, spent)
    if place is not None:
        c.run.save_panel(folder, summary, replace(table, traces={}))
    return _result(c, folder, summary, table.rows)


def _result(c: _Contender, folder: Path, summary: PanelSummary, table: dict[str, np.ndarray]) -> Result:
    own = (table["column"].astype(str) == NOMINAL) & (table["policy"].astype(str) == TRAINED)
    index = np.flatnonzero(own & (table["engine"].astype(str) == summary.engine))
    rows = {k: v[index] for k, v in table.items()}
    return Result(c.run.record, folder, summary, rows, summary.engine, index, table, caveat(c.run))
