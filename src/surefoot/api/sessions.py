"""Training from Python: a run from its plan to its verdict, or on from where it stood."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Unpack, cast

from rich.console import Console

from surefoot.api.as_planned import AsPlanned
from surefoot.api.plans import Plan
from surefoot.api.runs import Run
from surefoot.api.settings import PlanFile, RunSettings, Settings, lists_settings
from surefoot.api.verbs import RunLike, folder_of
from surefoot.contract import SurefootError, unknown
from surefoot.printing import ConsoleObserver

if TYPE_CHECKING:
    from surefoot.fleet import FleetOptions
    from surefoot.sessions import ResumeOptions
    from surefoot.training import SessionObserver


@lists_settings
def train(
    task: str | Plan | None = None,
    *,
    config: str | os.PathLike[str] | None = None,
    manifest: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    tracker: str = "none",
    progress: bool | SessionObserver | None = None,
    spent: float = 0.0,
    fleet: FleetOptions | None = None,
    **settings: Unpack[RunSettings],
) -> Run:
    """Trains a task, evaluates it on the held-out panel while it learns and at the end, and records it all.

    Give one of: a `task` with settings as for `surefoot.plan`; a plan; or `config`, a file that `plan.save`
    wrote. A plan or a file is trained as it was planned, without further settings, and refused where the
    plan made now has other ids. Stops at the first limit reached (updates, minutes, until; the task's own
    where none is given).

    `manifest`: a file that `plan.freeze` wrote; a run in any other environment is refused before it begins.
    `out`: run folder to create (default: runs/<task>-<date>-<time>-<id>). `tracker`: tensorboard, wandb,
    mlflow or none. `progress`: True shows a bar, False nothing, None a bar in a terminal or a notebook; or an
    observer of your own (`surefoot.training.SessionObserver`). `spent`: seconds that a program took before,
    to be counted as start-up. `fleet`: who collects (`surefoot.fleet.FleetOptions`); None: this process.

    Ctrl-C (a notebook's stop button) ends training between two updates; the run that is returned is then
    `interrupted`, and `surefoot.resume` continues it exactly. From another thread than the main one it works
    as well, but only its limits end it. A library that breaks off leaves a run that is `failed`.

        run = surefoot.train("walk-flat", seed=1, until=0.95)
        run.verdict, run.success
    """
    from surefoot.sessions import train as train_session

    if (task is None) == (config is None):
        raise SurefootError(
            "Say one thing to train: a task (surefoot.train('walk-flat')), a plan, or config=FILE that "
            "plan.save wrote."
        )
    observer = observer_of(progress)
    asked: Settings
    if isinstance(task, str):
        asked = Settings.of(task, settings)
    else:
        planned = "a plan" if config is None else "config"
        if settings:
            raise SurefootError(
                f"{', '.join(sorted(settings))}: {planned} is trained as it was planned; leave out settings, "
                "or plan again with them."
            )
        if task is not None and not isinstance(task, Plan):
            raise SurefootError(f"{task!r} is not a task; give its name or what surefoot.plan returned.")
        file = task.file if task is not None else PlanFile.load(os.fspath(config or ""))
        asked, observer = file, cast("SessionObserver", AsPlanned(file, observer))
    folder = None if out is None else os.fspath(out)
    held_to = None if manifest is None else os.fspath(manifest)
    outcome = train_session(asked.options(folder, tracker, held_to, fleet), observer, spent=spent)
    return Run(outcome.run, outcome)


def resume(
    run: RunLike,
    *,
    progress: bool | SessionObserver | None = None,
    spent: float = 0.0,
    **settings: Unpack[ResumeOptions],
) -> Run:
    """Continues a run from its latest checkpoint, exactly, and confirms it again.

    `settings` are, as for `surefoot.train`: the limits updates, minutes and until, which count what was done
    before (`minutes=6` ends a run of 4 minutes after 2 more); tracker, strict and keep_block; fleet, which
    may have another number of actors; and perturb, baselines and sequential, which are as they were asked for
    at the start where they are not given. `progress` and `spent` are as for `surefoot.train`.
    """
    from surefoot.sessions import ResumeOptions
    from surefoot.sessions import resume as resume_session

    known = ResumeOptions.__annotations__
    for name in settings:
        if name not in known:
            raise unknown("setting of a run that goes on", name, known)
    if "perturb" in settings:
        given = settings["perturb"]
        settings["perturb"] = (given,) if isinstance(given, str) else tuple(given)
    outcome = resume_session(folder_of(run), observer_of(progress), spent=spent, **settings)
    return Run(outcome.run, outcome)


def observer_of(progress: bool | SessionObserver | None) -> SessionObserver:
    """Returns who follows a run: a bar, nobody, or an observer that is one already."""
    from surefoot.training import UNOBSERVED

    if progress is None or isinstance(progress, bool):
        notebook = Console().is_jupyter
        # A notebook marks what is written to stderr as a fault, calls its stdout a terminal though lines that
        # were drawn stay, and has bars for widgets alone; so a run is followed in lines, on stdout.
        console = Console(force_jupyter=False, force_terminal=False) if notebook else Console(stderr=True)
        shown = progress or (progress is None and (notebook or console.is_terminal))
        return ConsoleObserver(console, with_plan=False) if shown else UNOBSERVED
    return progress
