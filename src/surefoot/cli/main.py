"""Train legged robots in thousands of parallel environments, and prove what they learned."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.markup import escape

from surefoot.cli.compare import CompareCommand
from surefoot.cli.evaluate import EvaluateCommand
from surefoot.cli.lab import LabCommand
from surefoot.cli.learners import CompareLearnersCommand
from surefoot.cli.list import EnginesCommand, PanelMakeCommand, PanelShowCommand, TasksCommand
from surefoot.cli.postmortem import PostmortemCommand
from surefoot.cli.promote import PromoteCommand
from surefoot.cli.replay import ReplayCommand
from surefoot.cli.report import ReportCommand, ServeCommand
from surefoot.cli.study import StudyCommands
from surefoot.cli.track import TrackCommand
from surefoot.cli.train import PlanCommand, TrainCommand
from surefoot.compute import missing_package
from surefoot.contract import SurefootError

Commands = (
    Annotated[PlanCommand, tyro.conf.subcommand("plan")]
    | Annotated[TrainCommand, tyro.conf.subcommand("train")]
    | Annotated[EvaluateCommand, tyro.conf.subcommand("evaluate")]
    | Annotated[CompareCommand, tyro.conf.subcommand("compare")]
    | Annotated[CompareLearnersCommand, tyro.conf.subcommand("compare-learners")]
    | Annotated[LabCommand, tyro.conf.subcommand("lab")]
    | Annotated[PromoteCommand, tyro.conf.subcommand("promote")]
    | Annotated[PostmortemCommand, tyro.conf.subcommand("postmortem")]
    | Annotated[ReplayCommand, tyro.conf.subcommand("replay")]
    | Annotated[ReportCommand, tyro.conf.subcommand("report")]
    | Annotated[ServeCommand, tyro.conf.subcommand("serve")]
    | Annotated[TrackCommand, tyro.conf.subcommand("track")]
    | Annotated[TasksCommand, tyro.conf.subcommand("tasks")]
    | Annotated[EnginesCommand, tyro.conf.subcommand("engines")]
    | Annotated[
        Annotated[PanelShowCommand, tyro.conf.subcommand("show")]
        | Annotated[PanelMakeCommand, tyro.conf.subcommand("make")],
        tyro.conf.subcommand("panel"),
    ]
    | Annotated[StudyCommands, tyro.conf.subcommand("study")]
)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line. Errors that a user can cause are one sentence on stderr and exit code 2."""
    console = Console()
    try:
        command: Any = tyro.cli(Commands, prog="surefoot", description=__doc__, args=arguments)
        code = command.run(console)
    except SurefootError as error:
        code = _refused(error)
    except ImportError as error:
        package = missing_package(error)
        if package is None:
            raise
        needs = f"This command needs {package[0]}, which cannot be imported here ({error})"
        code = _refused(SurefootError(f"{needs}; install all that training needs: pip install surefoot."))
    # Outside the training loop, which handles it itself: nothing is lost, files are whole.
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:  # the reader of our output went away, e.g. `| head`
        code = 0
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    except OSError as error:
        from surefoot.artifacts import cannot_use  # here: numpy and pyarrow would slow every --help

        refusal = cannot_use(error)
        if refusal is None:
            raise
        code = _refused(refusal)
    sys.exit(code)


def _refused(error: SurefootError) -> int:
    Console(stderr=True).print(f"[red]surefoot:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
    return 2
