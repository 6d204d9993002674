"""Which commands there are, in the order in which a user comes to need them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from surefoot.cli.audit import AuditCommand
from surefoot.cli.compare import CompareCommand
from surefoot.cli.completion import CompletionCommand
from surefoot.cli.doctor import DoctorCommand
from surefoot.cli.evaluate import EvaluateCommand
from surefoot.cli.fleet import FleetStatusCommand, FleetStopCommand
from surefoot.cli.lab import LabCommand
from surefoot.cli.learners import CompareLearnersCommand
from surefoot.cli.list import EnginesCommand, TasksCommand
from surefoot.cli.panels import PanelMakeCommand, PanelShowCommand
from surefoot.cli.postmortem import PostmortemCommand
from surefoot.cli.promote import PromoteCommand
from surefoot.cli.registry import RegistryLineageCommand, RegistryListCommand, RegistryShowCommand
from surefoot.cli.replay import ReplayCommand
from surefoot.cli.report import ReportCommand, ServeCommand
from surefoot.cli.size import SizeCommand
from surefoot.cli.study import EpochsCommand, HorizonCommand, MemoryCommand, ParallelismCommand
from surefoot.cli.track import TrackCommand
from surefoot.cli.train import PlanCommand, TrainCommand
from surefoot.cli.verify import VerifyCommand
from surefoot.contract import unknown

Command: TypeAlias = type[Any]
"""A dataclass of options with a method `run`, which prints and returns the exit code."""


@dataclass(frozen=True)
class Group:
    """Commands behind a common word: `surefoot panel show`."""

    says: str
    verbs: dict[str, Command]


PANEL = Group(
    "Panels: the frozen lists of held-out scenarios that policies are judged on.",
    {"show": PanelShowCommand, "make": PanelMakeCommand},
)
STUDY = Group(
    "Ask whether more environments, a longer horizon, more epochs or a memory help. Each study trains "
    "several values over several seeds, with the same samples and with the same time, and judges all "
    "policies on one panel.",
    {
        "parallelism": ParallelismCommand,
        "horizon": HorizonCommand,
        "epochs": EpochsCommand,
        "memory": MemoryCommand,
    },
)
REGISTRY = Group(
    "Registries: every decision about a promotion, what it rests on, and how what stands came there.",
    {"list": RegistryListCommand, "show": RegistryShowCommand, "lineage": RegistryLineageCommand},
)
FLEET = Group(
    "Fleets: what the actors of a run do, and how to end it in order from another terminal.",
    {"status": FleetStatusCommand, "stop": FleetStopCommand},
)
CHAPTERS: dict[str, dict[str, Command | Group]] = {
    "Train": {
        "tasks": TasksCommand,
        "plan": PlanCommand,
        "train": TrainCommand,
        "fleet": FLEET,
        "size": SizeCommand,
    },
    "Judge a run": {
        "report": ReportCommand,
        "serve": ServeCommand,
        "evaluate": EvaluateCommand,
        "replay": ReplayCommand,
        "verify": VerifyCommand,
        "audit": AuditCommand,
        "postmortem": PostmortemCommand,
        "track": TrackCommand,
    },
    "Decide between runs": {"compare": CompareCommand, "promote": PromoteCommand, "registry": REGISTRY},
    "Experiments of many runs": {
        "lab": LabCommand,
        "compare-learners": CompareLearnersCommand,
        "study": STUDY,
    },
    "What there is": {
        "doctor": DoctorCommand,
        "engines": EnginesCommand,
        "panel": PANEL,
        "completion": CompletionCommand,
    },
}
VERBS: dict[str, Command | Group] = {k: v for chapter in CHAPTERS.values() for k, v in chapter.items()}


def find(words: Sequence[str]) -> tuple[tuple[str, ...], Command | Group | None]:
    """Returns which of the first words name a command or a group of them, and it; None where none does."""
    if not words or words[0].startswith("-"):
        return (), None
    if words[0] not in VERBS:
        raise unknown("command", words[0], VERBS)
    found = VERBS[words[0]]
    if not isinstance(found, Group) or len(words) == 1 or words[1].startswith("-"):
        return (words[0],), found
    if words[1] not in found.verbs:
        raise unknown(f"command {words[0]}", words[1], found.verbs)
    return (words[0], words[1]), found.verbs[words[1]]


def commands() -> dict[tuple[str, ...], Command]:
    """Returns every command by the words that call it."""
    out: dict[tuple[str, ...], Command] = {}
    for name, of in VERBS.items():
        out |= {(name, n): c for n, c in of.verbs.items()} if isinstance(of, Group) else {(name,): of}
    return out
