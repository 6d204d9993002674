"""What a decision about a promotion says, for people: the differences that it rests on, and the sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from surefoot.printing.comparison import interval, print_fields
from surefoot.printing.terminal import plain_table, say

if TYPE_CHECKING:
    from surefoot.evidence import Promotion, Side


def print_promotion(console: Console, p: Promotion) -> None:
    from surefoot.evidence import METRICS, refusal_sentence

    if p.differs:
        say(console, refusal_sentence(p.baseline, p.candidate, p.differs))
        print_fields(console, "What differs", p.differs)
        return
    sides = [s for s in (p.disturbances, p.transfer) if s is not None]
    table = plain_table(f"{escape(p.candidate)} less {escape(p.baseline)}", "", *METRICS, "outcome")
    for s in sides:
        table.add_row(
            s.name, *(interval(s.metrics[m]) if m in s.metrics else "-" for m in METRICS), s.outcome
        )
    console.print(table, highlight=False)
    if p.baseline_caveat:
        say(console, f"[yellow]The baseline:[/yellow] {escape(p.baseline_caveat)}", markup=True)
    say(console, sentence(p, sides), markup=True)


def sentence(p: Promotion, sides: list[Side]) -> str:
    """Says whether the candidate is promoted, and what it rests on."""
    if p.promoted:
        shown = "; ".join(f"{b.name}: {b.measured}" for b in p.bars)
        better = f"{escape(p.candidate)} is better on both, and works by itself"
        return f"[green]Promoted:[/green] {better} ({escape(shown)})."
    text = "[red]Not promoted:[/red]"
    if p.candidate_caveat:
        text += f" {escape(p.candidate_caveat)} Let it finish, or promote a run that has."
    if any(s.outcome != "better" for s in sides):
        why = "; ".join(f"{s.name}: {s.outcome}" for s in sides if s.outcome != "better")
        text += f" both must be better. {why}."
    missed = [f"{b.name}: asked {b.asked}, measured {b.measured}" for b in p.bars if not b.met]
    if missed:
        text += (
            f" The candidate does not work by itself. {escape('; '.join(missed))}. Train it until it does; a "
            "panel cut by --eval-families may be too small to show that."
        )
    return text
