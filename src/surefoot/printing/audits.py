"""An audit and the detectors it asks, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from surefoot.printing.terminal import plain_table, say

if TYPE_CHECKING:
    from surefoot.audits import Detector
    from surefoot.runs import Audit


def print_audit(console: Console, path: Path, audit: Audit) -> None:
    """Prints what was found, what was passed, and what could not be looked at."""
    if audit.findings:
        table = plain_table(f"Audit of {escape(str(path))}", "found by", "on the", "cause", "")
        for f in audit.findings:
            table.add_row(f.detector, f.kind, f.cause, escape(f.statement))
        console.print(table, highlight=False)
    absent = [("not applicable", n) for n in audit.not_applicable]
    absent += [("could not look", n) for n in audit.failed] + [("exempt", n) for n in audit.exempt]
    for what, n in absent:
        say(console, f"{n.detector}: {what}, because {n.because}")
    asked = len(audit.passed) + len({f.detector for f in audit.findings}) + len(absent)
    say(console, f"{len(audit.passed)} of {asked} detectors found nothing ({audit.seconds:.1f} s).")
    if audit.proof:
        causes = ", ".join(sorted({f.cause for f in audit.proof}))
        say(console, f"[bold red]Unproven:[/] this run is not what it says ({causes}).", markup=True)
        say(console, f"Next: surefoot audit --explain {audit.proof[0].detector}")


def print_detectors(console: Console, every: Sequence[Detector]) -> None:
    """Prints one line a detector."""
    table = plain_table("Detectors (* in the short form)", "name", "on the", "asks")
    for d in every:
        table.add_row(d.name + ("*" if d.short else ""), d.kind, escape(d.asks))
    console.print(table, highlight=False)


def print_detector(console: Console, d: Detector) -> None:
    """Prints all that a detector says of itself."""
    table = plain_table(d.name, "", "")
    rows = {
        "asks": d.asks,
        "a finding is on the": f"{d.kind} (cause: {d.cause})",
        "statistic": d.statistic,
        "threshold": d.threshold,
        "it means": d.means,
        "what to do": d.remedy,
        "looks at": ", ".join(d.needs) or "any run",
    }
    for name, text in rows.items():
        table.add_row(name, escape(text))
    console.print(table, highlight=False)
