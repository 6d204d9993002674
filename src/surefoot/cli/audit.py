"""`surefoot audit`: whether a run is what it says, by its files and by probes of its environments."""

from __future__ import annotations

import json
from dataclasses import dataclass

from rich.console import Console

from surefoot.cli.parser import Positional
from surefoot.contract import SurefootError
from surefoot.printing import print_audit, print_detector, print_detectors, say


@dataclass(frozen=True)
class AuditCommand:
    """Audit a run: detectors read its files and probe its task and environments, each by changing one thing
    and seeing what moves.

    A finding on the proof (the run is not what it says) leaves it Unproven; a remark on the behaviour stands
    beside the verdict. What chance could explain is looked at again under fresh keys before it counts.

    Exit code 0: nothing on the proof. 1: a finding on the proof. 2: something could not be looked at.

    Example: surefoot audit runs/RUN

    Example (what is asked): surefoot audit --list

    Example (one question, and what it means): surefoot audit --explain first-ratio
    """

    run_folders: Positional[tuple[str, ...]] = ()
    """Run folder."""
    list: bool = False
    """List the detectors."""
    explain: str | None = None
    """Explain one detector: statistic, threshold with its source, what a finding means, what to do."""
    only: tuple[str, ...] = ()
    """Ask these detectors alone; nothing is written then."""
    short: bool = False
    """Ask what training asks at its end: a few seconds."""
    seed: int | None = None
    """Seed of the probes (default: a new one)."""
    json: bool = False
    """Print one JSON object instead of tables."""

    def run(self, console: Console) -> int:
        from surefoot.audits import audit_run, detectors
        from surefoot.contract import unknown
        from surefoot.runs import RunFolder

        if self.explain is not None:
            if self.explain not in detectors():
                raise unknown("detector", self.explain, detectors())
            print_detector(console, detectors()[self.explain])
            return 0
        if self.list:
            print_detectors(console, tuple(detectors().values()))
            return 0
        if len(self.run_folders) != 1:
            raise SurefootError(
                "Give one run folder: `surefoot audit runs/RUN`, or --list for what is asked."
            )
        run = RunFolder.open(self.run_folders[0])

        def tell(name: str, k: int, n: int) -> None:
            if not self.json and console.is_terminal:
                say(console, f"{k + 1} of {n}: {name}")

        audit = audit_run(run, only=self.only, short=self.short, seed=self.seed, tell=tell)
        if self.json:
            print(json.dumps({"exit": audit.exit_status} | audit.model_dump(mode="json"), indent=2))
        else:
            print_audit(console, run.path, audit)
        return audit.exit_status
