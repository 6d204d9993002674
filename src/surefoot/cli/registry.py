"""`surefoot registry`: which decisions were made, what each rests on, and how the policy that stands came
there."""

from __future__ import annotations

import json
from dataclasses import dataclass

from rich.console import Console

from surefoot.cli.parser import Positional
from surefoot.printing import print_decision, print_decisions, print_lineage

FOLDER = "registry"


@dataclass(frozen=True)
class RegistryListCommand:
    """List the decisions of a registry, and which policy stands.

    Example: surefoot registry list registry
    """

    registry: Positional[str] = FOLDER
    """Folder that `surefoot promote --registry` made."""
    json: bool = False
    """Print one JSON list."""

    def run(self, console: Console) -> int:
        from surefoot.evidence import open_registry

        kept = open_registry(self.registry)
        if self.json:
            print(json.dumps([d.model_dump(mode="json") for d in kept.decisions()], indent=2))
        else:
            print_decisions(console, kept)
        return 1 if kept.faults() else 0


@dataclass(frozen=True)
class RegistryShowCommand:
    """Show one decision: who made it, on what, and the figures that it rests on.

    Example: surefoot registry show 3 --registry registry
    """

    decision: Positional[str]
    """Its number, or a run or checkpoint that it is about (the last one then)."""
    registry: str = FOLDER
    """Folder that `surefoot promote --registry` made."""
    json: bool = False
    """Print its record."""

    def run(self, console: Console) -> int:
        from surefoot.evidence import open_registry

        kept = open_registry(self.registry)
        found = kept.find(self.decision)
        if self.json:
            print(json.dumps(found.model_dump(mode="json"), indent=2))
        else:
            print_decision(console, kept, found)
        return 1 if kept.faults() else 0


@dataclass(frozen=True)
class RegistryLineageCommand:
    """Show how a policy came to stand: the promotions that led to it, the newest first.

    Example: surefoot registry lineage --registry registry
    """

    decision: Positional[str] = ""
    """A decision's number, a run or a checkpoint (default: what stands now)."""
    registry: str = FOLDER
    """Folder that `surefoot promote --registry` made."""

    def run(self, console: Console) -> int:
        from surefoot.contract import SurefootError
        from surefoot.evidence import open_registry

        kept = open_registry(self.registry)
        found = kept.find(self.decision) if self.decision else kept.current()
        if found is None:
            raise SurefootError(f"Nothing was promoted in {self.registry} yet.")
        print_lineage(console, kept, found)
        return 1 if kept.faults() else 0
