"""Audits from Python: is a run what it says?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from surefoot.api.shown import Shown
from surefoot.api.verbs import RunLike, folder_of
from surefoot.contract import SurefootError
from surefoot.printing import print_audit
from surefoot.reporting import write_report
from surefoot.runs import Audit, AuditFinding, RunFolder, is_alive, load_audit

PAGE = "report.html"


@dataclass(frozen=True, repr=False)
class Audited(Shown):
    """What an audit of a run found, what it passed, and what was not looked at."""

    path: Path
    """The run's folder."""
    audit: Audit

    @property
    def proof(self) -> tuple[AuditFinding, ...]:
        """Findings that leave the run Unproven: it is not what it says."""
        return self.audit.proof

    @property
    def remarks(self) -> tuple[AuditFinding, ...]:
        """Remarks on the behaviour, which stand beside the verdict."""
        return self.audit.remarks

    @property
    def clean(self) -> bool:
        """Whether nothing speaks against the proof, and all that applies could be looked at."""
        return self.audit.exit_status == 0

    def show(self, console: Console) -> None:
        print_audit(console, self.path, self.audit)


def audit(
    run: RunLike,
    *,
    only: tuple[str, ...] | str = (),
    short: bool = False,
    seed: int | None = None,
    tell: Callable[[str, int, int], None] = lambda name, k, n: None,
) -> Audited:
    """Audits a run: detectors read its files and probe its task and environments, each by changing one thing
    and seeing what moves. A finding on the proof leaves the run Unproven.

    `only`: names of detectors, which are then asked alone, and nothing is written; else audit.json has it, in
    place of what was found before. `short`: what training asks at its end, in a few seconds. `seed`: repeats
    the probes of an audit. `tell` is told each detector's name, its number and how many there are.

        surefoot.audit(run).proof
    """
    from surefoot.audits import audit_run, detector

    folder = RunFolder.open(folder_of(run))
    asked = (only,) if isinstance(only, str) else tuple(only)
    for name in asked:
        detector(name)  # what nobody knows is refused before anything else is said
    if is_alive(folder.path):
        raise SurefootError(
            f"{folder.path} is in use: another process trains or judges it, and its files change while they "
            "are looked at; wait for it to end (training audits itself), or stop it."
        )
    if asked:
        return Audited(folder.path, audit_run(folder, only=asked, short=short, seed=seed, tell=tell))
    with folder.hold():
        done = Audited(folder.path, audit_run(folder, short=short, seed=seed, tell=tell))
        if (folder.path / PAGE).is_file():  # the page there speaks of the audit before
            write_report([folder.path])
    return done


def audited(run: RunLike) -> Audited | None:
    """Returns what the last audit of a run found; None where there was none. Nothing is asked anew."""
    path = folder_of(run)
    kept = load_audit(path)
    return Audited(path, kept) if kept is not None else None
