"""What a decision about a promotion says, for people: the differences that it rests on, and the sentence;
and what a registry keeps of decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from surefoot.printing.comparison import interval, print_fields
from surefoot.printing.terminal import plain_table, say

if TYPE_CHECKING:
    from surefoot.evidence import Decision, Promotion, Registry

COLOURS = {"PROMOTE": "green", "REJECT": "red", "INVALID": "red", "INCONCLUSIVE": "yellow"}


def print_promotion(console: Console, p: Promotion) -> None:
    if p.differs:
        print_fields(console, "What differs", p.differs)
    _print_sides(console, p)
    _print_strata(console, p)
    for b in p.bars:
        mark = {True: "[green]shown[/green]", False: "[red]failed[/red]", None: "[yellow]not shown[/yellow]"}
        text = f"{mark[b.met]}: {escape(f'{b.name} ({b.asked}): {b.measured}')}"
        say(console, f"Works by itself, {text}", markup=True)
    if p.baseline_caveat:
        say(console, f"[yellow]The baseline:[/yellow] {escape(p.baseline_caveat)}", markup=True)
    if p.look is not None:
        what = "fresh scenarios, made for this decision" if p.fresh else "the recorded half"
        say(console, f"[dim]On {what}. {escape(p.look.said)} Error of each side: {p.alpha:.4f}.", markup=True)
    say(console, sentence(p), markup=True)
    if p.record:
        say(console, f"Kept: {p.record}")


def sentence(p: Promotion) -> str:
    """Says what was decided, and why."""
    word = f"[bold {COLOURS[p.outcome]}]{p.outcome}[/]"
    if p.promoted:
        better = (
            f"{escape(p.candidate)} is better than {escape(p.baseline)} on both sides, shown to be worse in "
        )
        text = f"{word}: {better}no stratum, and works by itself."
    else:
        text = f"{word}: {escape(' '.join(p.reasons))}"
    small = [s.name for s in p.undecided]
    if small and p.outcome in ("PROMOTE", "INCONCLUSIVE"):
        names = ", ".join(dict.fromkeys(small))
        text += f" Too small to say that they did not get worse: {escape(names)}."
    return text


def _print_sides(console: Console, p: Promotion) -> None:
    from surefoot.evidence import METRICS

    sides = [s for s in (p.disturbances, p.transfer) if s is not None]
    if not sides:
        return
    beside = list(dict.fromkeys(m for s in sides for m in s.beside))
    table = plain_table(
        f"{escape(p.candidate)} less {escape(p.baseline)} (95% intervals)", "", *(s.name for s in sides)
    )
    table.add_row("scenarios", *(str(s.pairs) for s in sides))
    for m in METRICS:
        table.add_row(m, *(interval(s.metrics[m]) if m in s.metrics else "-" for s in sides))
    table.add_row("outcome", *(s.outcome for s in sides))
    for m in beside:
        cells = (interval(s.beside[m]) if m in s.beside else "-" for s in sides)
        table.add_row(f"beside: {m}", *cells)
    console.print(table, highlight=False)


def _print_strata(console: Console, p: Promotion) -> None:
    shown = [s for s in p.strata if s.outcome in ("worse", "not shown")]
    if not shown:
        return
    table = plain_table("Strata in the way", "stratum", "side", "success", "pairs", "p (Holm)", "outcome")
    for s in sorted(shown, key=lambda s: s.difference.value):
        table.add_row(
            escape(s.name), s.side, interval(s.difference), str(s.difference.n), f"{s.p:.3f}", s.outcome
        )
    console.print(table, highlight=False)


def print_decisions(console: Console, registry: Registry) -> None:
    """Prints a line per decision."""
    known, current = registry.decisions(), registry.current()
    names = ("number", "decided", "outcome", "candidate", "over", "panel", "alpha")
    table = plain_table(f"{escape(str(registry.path))}: decisions", *names)
    for d in known:
        panel = f"{d.panel.partition('+')[0]}{', fresh' if d.fresh else ''}"
        table.add_row(
            str(d.number), d.created[:16].replace("T", " "), f"[{COLOURS[d.outcome]}]{d.outcome}[/]",
            escape(d.candidate.run), escape(d.baseline.run), panel, f"{d.alpha:.4f}",
        )  # fmt: skip
    console.print(table, highlight=False)
    if current is not None:
        say(
            console,
            f"Stands: {current.candidate.run} (decision {current.number}), {registry.bundle(current)}",
        )
    _print_faults(console, registry)


def print_decision(console: Console, registry: Registry, d: Decision) -> None:
    """Prints what a decision says and rests on."""
    word = f"[bold {COLOURS[d.outcome]}]{d.outcome}[/]"
    say(console, f"Decision {d.number}, {d.created}, by {escape(d.by)}: {word}", markup=True)
    where = f"{d.panel} ({'fresh, ' if d.fresh else ''}root {d.root}, digest {d.panel_digest[:12]})"
    lines = [
        f"candidate {d.candidate.run}, checkpoint {d.candidate.checkpoint[:12]}, {d.candidate.task}, "
        f"seed {d.candidate.seed}",
        f"baseline {d.baseline.run}, checkpoint {d.baseline.checkpoint[:12]}; attempt {d.attempt}",
        f"scenarios {where}",
        f"error of each side {d.alpha:.4f} (decision {d.decision} on these scenarios, look {d.look})",
        f"parent {d.parent[:12] or 'none in this registry'}",
        *d.reasons,
    ]
    for line in lines:
        say(console, f"  {line}")
    for name in ("disturbances", "transfer"):
        side = d.figures.get(name) or {}
        for metric, f in side.get("metrics", {}).items():
            text = f"{side['name']}, {metric}: {f['value']:+.3f}"
            if f["low"] is not None and f["high"] is not None:
                text += f" ({f['low']:+.3f} to {f['high']:+.3f}, n {f['n']})"
            say(console, f"  {text}")
    for b in d.figures.get("bars", []):
        say(console, f"  {b['name']}: asked {b['asked']}, measured {b['measured']}")
    _print_faults(console, registry)


def print_lineage(console: Console, registry: Registry, d: Decision) -> None:
    """Prints the promotions that led to a policy."""
    for step in registry.lineage(d):
        say(
            console,
            f"{step.candidate.run} ({step.candidate.checkpoint[:12]}): {step.outcome} over "
            f"{step.baseline.run} ({step.baseline.checkpoint[:12]}), decision "
            f"{step.number}, {step.created[:10]}",
        )
    _print_faults(console, registry)


def _print_faults(console: Console, registry: Registry) -> None:
    for fault in registry.faults():
        say(console, f"[red]{escape(fault)}", markup=True)
