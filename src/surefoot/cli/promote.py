"""`surefoot promote`: the decision, and the differences that it rests on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from surefoot.cli.compare import REFUSED, interval, print_fields
from surefoot.cli.parser import Positional
from surefoot.cli.terminal import plain_table, say

if TYPE_CHECKING:
    from surefoot.evidence import Promotion, Side

NOT_PROMOTED = 1


@dataclass(frozen=True)
class PromoteCommand:
    """Decide whether a candidate may replace a baseline run: only if it is better under held-out disturbances
    and on a second simulator, both at once, scenario by scenario, and works by itself.

    Exit code 0: promoted. 1: not promoted. 3: not measured alike.

    Example: surefoot promote runs/CANDIDATE runs/BASELINE
    """

    candidate: Positional[str]
    """Run folder of the candidate."""
    baseline: Positional[str]
    """Run folder of what it would replace."""
    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self, console: Console) -> int:
        from surefoot.artifacts import plain
        from surefoot.evidence import promote_run

        promotion = promote_run(self.candidate, self.baseline)
        if self.json:
            print(json.dumps(plain(promotion.as_json()), indent=2))
        else:
            print_promotion(console, promotion)
        if promotion.differs:
            return REFUSED
        return 0 if promotion.promoted else NOT_PROMOTED


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
