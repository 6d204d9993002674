"""An audit and the detectors it asks, for people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from surefoot.printing.terminal import plain_table, say, say_commands

if TYPE_CHECKING:
    from surefoot.audits import Detector
    from surefoot.runs import Audit, AuditFinding, NotLooked

COLOURS = {"proof": "bold red", "behaviour": "yellow"}
NAMES = 6
"""Detectors that are named of those with one reason; the rest are counted."""


def print_audit(console: Console, path: Path, audit: Audit) -> None:
    """Prints findings first, then what passed, what was not looked at and why, and what to type next."""
    say(console, f"[bold]Audit of {escape(str(path))}[/]", markup=True)
    for f in audit.findings:
        print_finding(console, f)
    if audit.passed:
        say(console, f"\nFound nothing: {', '.join(audit.passed)}.")
    _absent(console, "Do not apply", audit.not_applicable)
    _absent(console, "Exempt by the contract", audit.exempt)
    _absent(console, "Could not look", audit.failed)
    say(console, f"\n{audit.says} {audit.seconds:.1f} s, seed {audit.seed}.")
    if audit.proof:
        causes = ", ".join(sorted({f.cause for f in audit.proof}))
        say(console, f"[bold red]Unproven:[/] this run is not what it says ({causes}).", markup=True)
    elif audit.failed:
        say(console, "[yellow]Not all could be looked at;[/] nothing is said of that.", markup=True)
    _next(console, path, audit)


def print_finding(console: Console, f: AuditFinding) -> None:
    """Prints a finding: on what, of which cause, by whom, how sure, what it means and what to do."""
    chance = "" if f.p is None else f", chance in a clean run {f.p:.1g}"
    head = f"[{COLOURS[f.kind]}]On the {f.kind}, {f.cause}[/] ({f.detector}{chance})"
    say(console, f"\n{head}: {escape(f.statement)}", markup=True)
    if f.means:
        say(console, f"  It means: {f.means}")
    if f.remedy:
        say(console, f"  What to do: {f.remedy}")


def print_verdict_line(console: Console, audit: Audit | None) -> None:
    """Prints what came of an audit, in a line and what to do about its findings, below a run's summary."""
    if audit is None:
        say(console, "Not audited: nobody has asked whether this run is what it says.")
        return
    say(console, audit.says, style="bold red" if audit.proof else None)
    for f in audit.findings:
        if f.remedy:
            say(console, f"What to do about {f.cause} ({f.detector}): {f.remedy}")


def _absent(console: Console, what: str, absent: Sequence[NotLooked]) -> None:
    """Prints detectors that had no look, by reason."""
    from surefoot.runs import grouped

    if absent:
        say(console, f"\n{what}:")
    for because, names in grouped(absent).items():
        shown = names if what != "Do not apply" else names[:NAMES]
        more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
        say(console, f"  {because}: {', '.join(shown)}{more}")


def _next(console: Console, path: Path, audit: Audit) -> None:
    from surefoot.runs import typed

    first = next(iter(audit.proof or audit.findings), None)
    commands = []
    if first is not None:
        commands += [
            (typed("audit", "--explain", first.detector), "what it asks, and what to do"),
            (typed("audit", path, "--only", first.detector), "ask it again, under fresh keys"),
        ]
    if not audit.full:
        commands += [(typed("audit", path), "every detector, in half a minute")]
    if audit.proof:
        commands += [(typed("postmortem", path), "did the policy fail, or did the batch lie?")]
    if commands:
        say(console, "\n[bold]Next[/]", markup=True)
        say_commands(console, commands)


def print_detectors(console: Console, every: Sequence[Detector]) -> None:
    """Prints detectors by what they look at, and which kinds of runs each applies to."""
    from surefoot.audits import LACKS, applies, by_area

    for area, of in by_area(every).items():
        table = plain_table(f"\n{area}", "", "", "asks")
        for d in of:
            table.add_row(d.name, "[dim]short[/]" if d.short else "", escape(d.asks))
        for column in table.columns[:2]:
            column.no_wrap = True
        console.print(table, highlight=False)
    table = plain_table("\nApplies to", "", *LACKS, "on the")
    table.columns[0].no_wrap = True
    for d in every:
        table.add_row(d.name, *("yes" if applies(d, k) else "-" for k in LACKS), d.kind)
    console.print(table, highlight=False)
    short = sum(d.short for d in every)
    say(
        console,
        f"\n{len(every)} detectors, {short} of them in the short form that ends every training. A run may "
        "lack more than its kind does (nothing confirmed yet, no episodes): an audit says so, and never "
        "counts it as passed.",
    )


def print_detector(console: Console, d: Detector) -> None:
    """Prints all that a detector says of itself."""
    from surefoot.audits import LACKS, applies, needed
    from surefoot.runs import typed

    table = plain_table(d.name, "", "")
    table.columns[0].no_wrap = True
    on = "the run is not what it says" if d.kind == "proof" else "a remark beside the verdict"
    rows = {
        "asks": d.asks,
        "statistic": d.statistic,
        "threshold": d.threshold,
        "a finding is": f"on the {d.kind} ({on}); cause: {d.cause}",
        "it means": d.means,
        "what to do": d.remedy,
        "needs": needed(d),
        "applies to": ", ".join(k for k in LACKS if applies(d, k)),
        "in the short form": "yes" if d.short else "no",
        "exempt": "a task may exempt itself, with a reason that stands beside the verdict: "
        f'exempt={{"{d.name}": "because ..."}}',
    }
    for name, text in rows.items():
        table.add_row(name, escape(text))
    console.print(table, highlight=False)
    say_commands(console, [(typed("audit", "runs/RUN", "--only", d.name), "ask it of a run")])
