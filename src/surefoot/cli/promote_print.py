"""What `surefoot promote` prints: the decision, and the differences that it rests on."""

from __future__ import annotations

import json

from rich.console import Console
from rich.markup import escape

from surefoot.artifacts import plain
from surefoot.cli.compare_print import REFUSED, interval, print_fields
from surefoot.contract import ExternalContract, SurefootError
from surefoot.evidence import METRICS, Promotion, Side, promote, refusal_sentence
from surefoot.reporting import plain_table
from surefoot.runs import RunFolder, load_result

NOT_PROMOTED = 1


def promote_run(console: Console, candidate: str, baseline: str, as_json: bool) -> int:
    """Exit code 0: promoted; 1: not; 3: the two may not be compared."""
    runs = [RunFolder.open(f) for f in (candidate, baseline)]
    for run in runs:
        if isinstance(run.record.contract, ExternalContract):
            raise SurefootError(
                f"{run.path} was trained on {run.record.task}, which comes from outside and can neither be "
                "perturbed nor simulated elsewhere; use `surefoot compare`."
            )
    found = promote(*(load_result(run) for run in runs))
    if as_json:
        print(json.dumps(plain(found.as_json()), indent=2))
    else:
        _print(console, found)
    if found.differs:
        return REFUSED
    return 0 if found.promoted else NOT_PROMOTED


def _print(console: Console, p: Promotion) -> None:
    if p.differs:
        console.print(escape(refusal_sentence(p.baseline, p.candidate, p.differs)), highlight=False)
        print_fields(console, "What differs", p.differs)
        return
    sides = [s for s in (p.disturbances, p.transfer) if s is not None]
    table = plain_table(f"{escape(p.candidate)} less {escape(p.baseline)}", "", *METRICS, "outcome")
    for s in sides:
        table.add_row(
            s.name, *(interval(s.metrics[m]) if m in s.metrics else "-" for m in METRICS), s.outcome
        )
    console.print(table, highlight=False)
    console.print(sentence(p, sides), highlight=False, soft_wrap=True)


def sentence(p: Promotion, sides: list[Side]) -> str:
    if p.promoted:
        shown = "; ".join(f"{b.name}: {b.measured}" for b in p.bars)
        better = f"{escape(p.candidate)} is better on both, and works by itself"
        return f"[green]Promoted:[/green] {better} ({escape(shown)})."
    said = "[red]Not promoted:[/red]"
    if any(s.outcome != "better" for s in sides):
        why = "; ".join(f"{s.name}: {s.outcome}" for s in sides if s.outcome != "better")
        said += f" both must be better. {why}."
    missed = [f"{b.name}: asked {b.asked}, measured {b.measured}" for b in p.bars if not b.met]
    if missed:
        said += (
            f" The candidate does not work by itself. {escape('; '.join(missed))}. Train it until it does; a "
            "panel cut by --eval-families may be too small to show that."
        )
    return said
