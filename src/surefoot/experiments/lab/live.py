"""A lab as it runs: every run, every policy on the panel, the record, the table and the page. It goes on
where it was stopped."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console

from surefoot.artifacts import atomic_write, csv_text, new_folder, plain, read_json, write_json
from surefoot.compute import prepare_torch
from surefoot.contract import TRAINED, Panel, SurefootError, dump_panel, second_panel
from surefoot.experiments.lab.design import Job, LabDesign, default_folder
from surefoot.experiments.lab.gather import gather
from surefoot.experiments.lab.judge import judge, usable_baselines
from surefoot.experiments.lab.page import lab_page
from surefoot.experiments.lab.progress import Stages
from surefoot.experiments.lab.record import LabRecord
from surefoot.experiments.lab.sheet import rows_of
from surefoot.experiments.lab.summary import print_lab
from surefoot.runs import RunFolder, surefoot_command
from surefoot.training import RobotPlan, on_panel, train_planned

INTERRUPTED = (130, 143)


def run_lab(
    console: Console,
    design: LabDesign,
    plans: Mapping[Job, RobotPlan],
    out: str | None,
    panel2: bool,
    as_json: bool,
) -> int:
    """Exit code 0; 1 where a library broke off, which the record names; 130 or 143 where it was stopped."""
    path = Path(out) if out else default_folder(design)
    open_folder(path, design)
    first = next(iter(plans.values()))
    baselines = usable_baselines(first)
    second = _second(path, first) if panel2 or (path / "panel2.json").is_file() else None
    judged = len(baselines) + (len(plans) + len(baselines) if second else 0)
    stages = Stages(console, ["training"] * len(plans) + ["panel"] * judged + ["record"])
    _introduce(console, path, design, first, len(plans))
    perturb = tuple(c.name for c in design.columns) or ("none",)
    broken = 0
    for job, plan in plans.items():
        with stages.stage(f"{job.name}: {design.updates} updates, then the held-out panel"):
            code = train_planned(console, plan, path / "runs" / job.name, design.updates, perturb, brief=True)
        if code in INTERRUPTED:
            console.print(f"Go on with: {_asked()}", highlight=False, markup=False, soft_wrap=True)
            return code
        run = RunFolder.open(path / "runs" / job.name)
        broken += run.record.status == "failed"
        _outcome(console, run)
    prepare_torch()
    _judge_all(path, design, plans, baselines, second, stages)
    with stages.stage("failures lived again, record, table and page"):
        record = gather(path, design, plans, baselines, second)
        write_lab(path, record)
    if as_json:
        print(json.dumps(plain(record), indent=2))
    else:
        print_lab(console, path, record, _asked())
    return 1 if broken else 0


def _asked() -> str:
    return f"{surefoot_command()} {shlex.join(sys.argv[1:])}"


def write_lab(path: Path, record: LabRecord) -> None:
    write_json(path / "lab.json", record)
    atomic_write(path / "lab.csv", csv_text(rows_of(record)).encode())
    atomic_write(path / "lab.html", lab_page(path, record).encode())


def open_folder(path: Path, design: LabDesign) -> None:
    """A new folder, or that of the same lab; anything else is left alone."""
    if not path.exists():
        new_folder(path)
        write_json(path / "design.json", design)
        (path / "runs").mkdir()
        return
    if not (path / "design.json").is_file():
        raise SurefootError(f"{path} is there and is no lab; choose another --out.")
    found, asked = plain(read_json(path / "design.json", LabDesign)), plain(design)
    differ = [k for k in asked if found[k] != asked[k]]
    if differ:
        was = ", ".join(f"{k} {found[k]}" for k in differ)
        raise SurefootError(f"{path} is another lab ({was}); choose another --out, or ask for the same.")
    (path / "runs").mkdir(exist_ok=True)


def _second(path: Path, plan: RobotPlan) -> Panel:
    """The second panel, also as a file that `surefoot evaluate --panel` takes."""
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
        panels.append((" on the second panel", lambda plan: on_panel(plan, second)))
    for where, moved in panels:
        for name in baselines:
            with stages.stage(f"baseline {name}{where}"):
                judge(moved(plans[host]), runs[host], name, design.columns)
        for job, run in runs.items() if where else ():  # on the first panel they were judged when trained
            with stages.stage(f"{job.name}{where}"):
                if run.record.confirmation is not None:
                    judge(moved(plans[job]), run, TRAINED, design.columns)


def _introduce(console: Console, path: Path, design: LabDesign, plan: RobotPlan, runs: int) -> None:
    r, a = plan.recipe, plan.accounting
    console.print(
        f"Lab folder: {path}\n{design.task}: {', '.join(design.learners)} x seeds "
        f"{', '.join(map(str, design.seeds))} = {runs} runs of "
        f"{design.updates * a.samples_per_update:,} samples "
        f"({design.updates} updates of {r.horizon} x {r.envs}, networks {' x '.join(map(str, r.hidden))}, "
        f"{r.epochs} epochs); panel {plan.panel.name}; perturbation: {design.says}.",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _outcome(console: Console, run: RunFolder) -> None:
    s, f = run.record.confirmation, run.record.figures
    if s is None:
        return
    console.print(
        f"  {100 * s.success:.1f}% held-out success ({100 * s.success_low:.1f}% to "
        f"{100 * s.success_high:.1f}%, {s.episodes} episodes), "
        f"{f.get('steps_per_second') or 0:,.0f} steps/s, {f.get('train_seconds') or 0:.0f} s of training",
        highlight=False,
        soft_wrap=True,
    )
