"""`surefoot audit`: whether a run is what it says, by its files and by probes of its environments."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console

from surefoot.cli.parser import Positional
from surefoot.contract import SurefootError
from surefoot.printing import make_console, print_detector, print_detectors


@dataclass(frozen=True)
class AuditCommand:
    """Audit a run: detectors read its files and probe its task and environments, each by changing one thing
    and seeing what moves.

    A finding on the proof (the run is not what it says) leaves it Unproven; a remark on the behaviour stands
    beside the verdict. What chance could explain is looked at again under fresh keys before it counts.

    Exit code 0: nothing on the proof. 1: a finding on the proof. 2: no finding, and something could not be
    looked at. What does not apply to a run is said with its reason, and never counted as passed. A run that
    is being trained is not audited.

    Example: surefoot audit runs/RUN

    Example (what is asked): surefoot audit --list

    Example (one question, and what it means): surefoot audit --explain first-ratio
    """

    run_folders: Positional[tuple[str, ...]] = ()
    """Run folder, as `surefoot train` printed it."""
    list: bool = False
    """List the detectors by what they look at, and which kinds of runs each applies to."""
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
        from surefoot.audits import detector, detectors

        if self.explain is not None:
            print_detector(console, detector(self.explain))
            return 0
        if self.list:
            print_detectors(console, tuple(detectors().values()))
            return 0
        if len(self.run_folders) != 1:
            raise SurefootError(
                "Give one run folder: `surefoot audit runs/RUN`, or --list for what is asked."
            )
        from surefoot.api import audit

        shown = make_console(stderr=True) if self.json else console
        with asking(shown) as tell:
            done = audit(self.run_folders[0], only=self.only, short=self.short, seed=self.seed, tell=tell)
        if self.json:
            print(json.dumps({"exit": done.audit.exit_status} | done.audit.model_dump(mode="json"), indent=2))
        else:
            done.show(console)
        return done.audit.exit_status


@contextmanager
def asking(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """Shows on a terminal which detector has its turn, for as long as the block lasts."""
    if not console.is_terminal:
        yield lambda name, k, n: None
        return
    with console.status("Reading the run") as status:
        yield lambda name, k, n: status.update(f"Auditing: {k + 1} of {n}, {name}")
