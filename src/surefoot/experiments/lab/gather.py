"""A lab's record, read back from the artifacts of its runs; nothing is measured here but replays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from surefoot.contract import NOMINAL, TRAINED, Panel, SurefootError, prove_disjoint
from surefoot.evidence import LearnerComparison, compare_learners, look_back
from surefoot.experiments.lab.cases import LEAST, find_cases, replay_command
from surefoot.experiments.lab.design import Job, LabDesign
from surefoot.experiments.lab.judge import checked_summary, place
from surefoot.experiments.lab.prose import contract_prose, reward_prose
from surefoot.experiments.lab.record import CoComputed, Entry, Episode, LabRecord, PanelAbout, RunAbout
from surefoot.policy import PREFIX
from surefoot.runs import RunFolder, caveat, load_audit, read_rows, timestamp, versions
from surefoot.statistics import column_summary, split_columns
from surefoot.training import RobotPlan

EPISODES = 5
METRICS = {
    "success": ("success_low", "success_high"),
    "fall_rate": ("fall_low", "fall_high"),
    "velocity_error_mps": ("velocity_error_low", "velocity_error_high"),
    "yaw_error_radps": None,
    "cost_of_transport": None,
}
"""Metrics of a column's summary, with the ends of the interval where there is one."""


def gather(
    path: Path,
    design: LabDesign,
    plans: Mapping[Job, RobotPlan],
    baselines: Sequence[str],
    second: Panel | None,
) -> LabRecord:
    runs = {job: RunFolder.open(path / "runs" / job.name) for job in plans}
    host = next(iter(plans))
    done = {j: r for j, r in runs.items() if r.record.confirmation is not None}
    if host not in done:
        raise SurefootError(f"{runs[host].path} has no result, so there is nothing to compare with.")
    for run in done.values():
        _check_as_designed(run, design)
    first, entries = plans[host], list[Entry]()
    about = [_about(1, first)]
    if second is not None:
        about.append(_about(2, first.on_panel(second), first.panel))
    for number in range(1, len(about) + 1):
        for name in baselines:
            plan = first if number == 1 or second is None else first.on_panel(second)
            entries += _entries(path, number, plan, runs[host], None, name)
        for job, run in done.items():
            plan = plans[job] if number == 1 or second is None else plans[job].on_panel(second)
            entries += _entries(path, number, plan, run, job, job.learner)
    postmortems = {j: look_back(r) for j, r in done.items() if j.seed == host.seed}
    cases = find_cases(path, plans, runs, postmortems, baselines, host)
    sparse = [r for j, r in runs.items() if j.sparse]
    sparse_contracts = [p.task.contract for j, p in plans.items() if j.sparse][:1]
    return LabRecord(
        id=path.name,
        created=timestamp(),
        design=design,
        contract=first.task.contract,
        contract_digest=first.task.contract.digest,
        prose=(
            *contract_prose(first.task.contract, first.recipe, first.panel),
            *(
                f"With the sparse reward: {reward_prose(c.rewards)} ({c.rewards[0].doc}.)"
                for c in sparse_contracts
            ),
        ),
        recipe=first.recipe,
        samples=design.updates * first.accounting.samples_per_update,
        panels=tuple(about),
        runs=tuple(_run(path, j, r) for j, r in runs.items()),
        episodes=tuple(e for b in baselines for e in _episodes(path, first, runs[host], b)),
        entries=tuple(entries),
        comparison=compare_learners([r for j, r in runs.items() if not j.sparse]),
        sparse=_compared(sparse),
        co_computed=co_computed(entries),
        cases=cases,
        cases_note=""
        if len(cases) >= LEAST
        else f"{len(cases)} failures with a trace were found, and no more among the baselines.",
        postmortems=tuple(postmortems.values()),
        versions=versions(),
    )


def _check_as_designed(run: RunFolder, design: LabDesign) -> None:
    """Refuses a run that somebody trained on by hand: its result is of another budget, or of an update that
    training has left behind, and would stand beside the others as if it were not."""
    updates = int(run.record.figures.get("updates") or 0)
    said = caveat(run)
    if updates != design.updates:
        said = f"It was trained for {updates} updates, and this lab's runs are of {design.updates}. {said}"
    if said:
        raise SurefootError(
            f"{run.path} is not as the lab trained it. {said.strip()} Move it away and start the lab again: "
            "it is then trained anew."
        )


def _compared(runs: Sequence[RunFolder]) -> LearnerComparison | None:
    return compare_learners(runs) if any(r.record.confirmation is not None for r in runs) else None


def _about(number: int, plan: RobotPlan, before: Panel | None = None) -> PanelAbout:
    half = plan.panel.select("confirmation")
    return PanelAbout(
        number=2 if number == 2 else 1,
        name=plan.panel.name,
        panel_digest=plan.panel.digest,
        half="confirmation",
        construct_id=plan.construct_id,
        seeds=plan.panel.seeds,
        families=len({s.family for s in half}),
        episodes=len(half),
        apart_from_training=prove_disjoint(plan.seeds, plan.panel.seeds),
        apart_from_first=prove_disjoint(before.seeds, plan.panel.seeds) if before else None,
    )


def _run(path: Path, job: Job, run: RunFolder) -> RunAbout:
    r, f, audit = run.record, run.record.figures, load_audit(run.path)
    proof = audit.proof if audit else ()
    return RunAbout(
        folder=run.path.relative_to(path).as_posix(),
        learner=job.learner,
        version=r.library.version if r.library else None,
        seed=job.seed,
        reward="sparse" if job.sparse else "task",
        status=r.status,
        error=r.error,
        training_id=r.training_id,
        updates=int(f.get("updates") or 0),
        samples=int(f.get("samples") or 0),
        train_seconds=f.get("train_seconds"),
        steps_per_second=f.get("steps_per_second"),
        audit=audit.says if audit else "",
        unproven=" ".join(f"{x.cause}: {x.statement}" for x in proof),
    )


def _entries(
    path: Path, number: int, plan: RobotPlan, run: RunFolder, job: Job | None, policy: str
) -> list[Entry]:
    """Returns what the rows say of a policy, computed anew: an entry per column and engine."""
    folder = place(run, plan, TRAINED if job else policy)
    summary = checked_summary(folder, plan)
    out = []
    for _, _, rows in split_columns(read_rows(folder, summary)):
        measured = column_summary(rows, plan.task.contract)
        traces = [folder / "traces" / f"{t}.npz" for t in rows["trace"].tolist() if t]
        name = measured.column.removeprefix(f"{PREFIX}{policy}").removeprefix(":") or NOMINAL
        out.append(
            Entry(
                panel=2 if number == 2 else 1,
                policy=policy,
                seed=job.seed if job else None,
                reward=("sparse" if job.sparse else "task") if job else None,
                column=name,
                folder=folder.relative_to(path).as_posix(),
                checkpoint=summary.checkpoint,
                ends=dict(sorted(Counter(rows["reason"].tolist()).items())),
                found=measured,
                traces=tuple(t.relative_to(path).as_posix() for t in traces),
            )
        )
    return out


def _episodes(path: Path, plan: RobotPlan, run: RunFolder, policy: str) -> list[Episode]:
    """Returns five episodes of the nominal pass, evenly spread over its scenarios: the same for every
    baseline."""
    folder = place(run, plan, policy)
    summary = checked_summary(folder, plan)
    parts = split_columns(read_rows(folder, summary))
    column, engine, rows = next(p for p in parts if p[1] == summary.engine and not p[2]["perturbation"][0])
    count = len(rows["success"])
    out = []
    for i in np.unique(np.linspace(0, count - 1, min(EPISODES, count)).round().astype(int)).tolist():
        r = {k: v[i] for k, v in rows.items()}
        error = float(r["velocity_error_mps"])
        out.append(
            Episode(
                policy=policy,
                engine=engine,
                scenario=int(r["scenario"]),
                key=str(r["key"]),
                family=int(r["family"]),
                member=int(r["member"]),
                command=(float(r["command_vx"]), float(r["command_vy"]), float(r["command_wz"])),
                friction=float(r["friction"]),
                payload_kg=float(r["payload_kg"]),
                success=bool(r["success"]),
                reason=str(r["reason"]),
                lived_s=float(r["lived_s"]),
                velocity_error_mps=error if np.isfinite(error) else None,
                label=str(r["label"]),
                cause=str(r["cause"]),
                episode_return=float(r["return"]),
                terms={t.name: float(r[f"return.{t.name}"]) for t in plan.task.contract.rewards},
                replay=replay_command(run.path.relative_to(path), str(r["scenario"]), folder.name, column),
            )
        )
    return out


def co_computed(entries: Sequence[Entry]) -> tuple[CoComputed, ...]:
    """Returns what both panels measured of the same policy, column and engine. A metric that one of them
    lacks is in neither's report: it would be compared with nothing."""
    second = {e.key: e for e in entries if e.panel == 2}
    out = []
    for a in (e for e in entries if e.panel == 1 and e.key in second):
        b = second[a.key]
        for name, ends in METRICS.items():
            x, y = getattr(a.found, name), getattr(b.found, name)
            if x is None or y is None:
                continue
            out.append(
                CoComputed(
                    policy=a.policy,
                    seed=a.seed,
                    reward=a.reward,
                    column=a.column,
                    engine=a.found.engine,
                    metric=name,
                    first=x,
                    second=y,
                    first_interval=_ends(a, ends),
                    second_interval=_ends(b, ends),
                )
            )
    return tuple(out)


def _ends(e: Entry, names: tuple[str, str] | None) -> tuple[float, float] | None:
    low, high = (getattr(e.found, n) for n in names) if names else (None, None)
    return None if low is None or high is None else (low, high)
