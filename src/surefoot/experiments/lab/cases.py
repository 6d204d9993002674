"""Failures of a lab that a person should look at, each replayed before it is shown."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from surefoot.contract import Column
from surefoot.evidence import Case, Postmortem, representative_failures
from surefoot.experiments.lab.design import Job
from surefoot.experiments.lab.judge import LEARNED, checked_summary, place
from surefoot.experiments.lab.record import LabCase
from surefoot.replays import find_recorded, replay_episode
from surefoot.runs import RunFolder, load_result, perturbed, read_rows
from surefoot.training import RobotPlan

LEAST = 2


def find_cases(
    path: Path,
    plans: Mapping[Job, RobotPlan],
    runs: Mapping[Job, RunFolder],
    postmortems: Mapping[Job, Postmortem],
    baselines: Sequence[str],
    host: Job,
) -> tuple[LabCase, ...]:
    """Returns the failures that the postmortems name, and what the perturbation does most often; where
    learners failed too seldom, failures of baselines (kept by `host`)."""
    failures: list[LabCase] = []
    for job, postmortem in postmortems.items():
        named = {c.trace: c for c in (*postmortem.cases, *_perturbed(runs[job])) if c.trace}
        failures += [_case(path, runs[job], job, job.learner, LEARNED, c) for c in named.values()]
    for name in baselines:
        if len(failures) >= LEAST:
            break
        plan, run = plans[host], runs[host]
        folder = place(run, plan, name)
        summary = checked_summary(folder, plan)
        rows = read_rows(folder, summary)
        file = (folder / "episodes.parquet").relative_to(run.path).as_posix()
        cases, _ = representative_failures(rows, file)
        failures += [_case(path, run, None, name, folder.name, c) for c in cases if c.trace]
    return tuple(failures)


def _perturbed(run: RunFolder) -> tuple[Case, ...]:
    """Returns the median of the most common failure under the perturbation."""
    result = load_result(run)
    others = perturbed(result)
    if not others.size:
        return ()
    file = (result.folder / "episodes.parquet").relative_to(run.path).as_posix()
    return representative_failures({k: v[others] for k, v in result.table.items()}, file, others)[0][:1]


def _case(path: Path, run: RunFolder, job: Job | None, policy: str, where: str, case: Case) -> LabCase:
    trace = run.path / Path(case.file).parent / "traces" / f"{case.trace}.npz"
    verdict = replay_episode(run, case.trace, where=where, check=True).verdict
    return LabCase(
        policy=policy,
        seed=job.seed if job else None,
        reward=("sparse" if job.sparse else "task") if job else None,
        engine=_engine(run, where, case),
        run=run.path.relative_to(path).as_posix(),
        trace=trace.relative_to(path).as_posix(),
        case=case,
        replay=replay_command(run.path.relative_to(path), case.trace, where),
        verified=verdict is not None and verdict.holds,
    )


def _engine(run: RunFolder, where: str, case: Case) -> str:
    return str(find_recorded(run, case.trace, where).row["engine"])


def replay_command(run: Path, episode: str, where: str, column: str = Column().name) -> str:
    """Returns the arguments of `surefoot` that replay an episode, to be given in the lab's folder."""
    words = ["replay", run.as_posix(), episode]
    words += ["--where", where] if where != LEARNED else []
    words += ["--perturb", column] if column != Column().name else []
    return shlex.join([*words, "--verify"])
