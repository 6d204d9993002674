"""A lab as it runs: every run, every policy on the panel, the record, the table and the page. It goes on
where it was stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from surefoot.artifacts import atomic_write, csv_text, new_folder, plain, read_json, write_json
from surefoot.compute import prepare_torch
from surefoot.contract import TRAINED, Panel, SurefootError, dump_panel, second_panel
from surefoot.experiments.lab.design import Job, LabDesign, default_folder
from surefoot.experiments.lab.gather import gather
from surefoot.experiments.lab.judge import judge, usable_baselines
from surefoot.experiments.lab.page import lab_page
from surefoot.experiments.lab.progress import LabObserver, Stages
from surefoot.experiments.lab.record import LabRecord
from surefoot.experiments.lab.sheet import rows_of
from surefoot.runs import RunFolder
from surefoot.sessions import train_planned
from surefoot.training import RobotPlan


@dataclass(frozen=True)
class LabResult:
    """Holds what a lab found, and where; no record where it was stopped."""

    path: Path
    record: LabRecord | None
    exit_status: int
    """0; 1 where a library broke off, which the record names; 130 or 143 where it was stopped."""


def run_lab(
    design: LabDesign,
    plans: Mapping[Job, RobotPlan],
    observer: LabObserver,
    *,
    out: str | None = None,
    panel2: bool = False,
) -> LabResult:
    """Trains what is not trained yet, judges every policy on the panel (with `panel2`, on a second one too)
    and writes the record, the table and the page."""
    path = Path(out) if out else default_folder(design)
    open_folder(path, design)
    first = next(iter(plans.values()))
    baselines = usable_baselines(first)
    second = _second(path, first) if panel2 or (path / "panel2.json").is_file() else None
    judged = len(baselines) + (len(plans) + len(baselines) if second else 0)
    kinds = ["training"] * len(plans) + ["panel"] * judged + ["record"]
    stages = Stages(observer.stage_begins, kinds)
    observer.lab_begins(path, design, first, len(plans))
    perturb = tuple(c.name for c in design.columns) or ("none",)
    broken = False
    for job, plan in plans.items():
        with stages.stage(f"{job.name}: {design.updates} updates, then the held-out panel"):
            trained = train_planned(plan, path / "runs" / job.name, design.updates, perturb, observer)
        observer.run_ended(trained)
        if trained.stopped is not None:
            return LabResult(path, None, trained.exit_status)
        broken |= trained.run.record.status == "failed"
    prepare_torch()
    _judge_all(path, design, plans, baselines, second, stages)
    with stages.stage("failures lived again, record, table and page"):
        record = gather(path, design, plans, baselines, second)
        write_lab(path, record)
    return LabResult(path, record, 1 if broken else 0)


def write_lab(path: Path, record: LabRecord) -> None:
    """Writes lab.json, lab.csv and lab.html."""
    write_json(path / "lab.json", record)
    atomic_write(path / "lab.csv", csv_text(rows_of(record)).encode())
    atomic_write(path / "lab.html", lab_page(path, record).encode())


def open_folder(path: Path, design: LabDesign) -> None:
    """Makes a new folder, or takes that of the same lab; anything else is refused and left alone."""
    if not path.exists():
        new_folder(path)
        write_json(path / "design.json", design)
        (path / "runs").mkdir()
        return
    if not (path / "design.json").is_file():
        raise SurefootError(f"{path} is there and is no lab; choose another --out.")
    stored, requested = plain(read_json(path / "design.json", LabDesign)), plain(design)
    differ = [k for k in requested if stored[k] != requested[k]]
    if differ:
        was = ", ".join(f"{k} {stored[k]}" for k in differ)
        raise SurefootError(f"{path} is another lab ({was}); choose another --out, or ask for the same.")
    (path / "runs").mkdir(exist_ok=True)


def _second(path: Path, plan: RobotPlan) -> Panel:
    """Makes the second panel, also as a file that `surefoot evaluate --panel` takes."""
    made = second_panel(plan.panel)
    atomic_write(path / "panel2.json", dump_panel(made).encode())
    return made


def _judge_all(
    path: Path,
    design: LabDesign,
    plans: Mapping[Job, RobotPlan],
    baselines: tuple[str, ...],
    second: Panel | None,
    stages: Stages,
) -> None:
    runs = {job: RunFolder.open(path / "runs" / job.name) for job in plans}
    host = next(iter(plans))
    panels: list[tuple[str, Callable[[RobotPlan], RobotPlan]]] = [("", lambda plan: plan)]
    if second is not None:
        panels.append((" on the second panel", lambda plan: plan.on_panel(second)))
    for where, moved in panels:
        for name in baselines:
            with stages.stage(f"baseline {name}{where}"):
                judge(moved(plans[host]), runs[host], name, design.columns)
        for job, run in runs.items() if where else ():  # on the first panel they were judged when trained
            with stages.stage(f"{job.name}{where}"):
                if run.record.confirmation is not None:
                    judge(moved(plans[job]), run, TRAINED, design.columns)
