"""What `surefoot study` prints: the design before it runs, the figures and the verdict after."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from surefoot.evidence import Figure
from surefoot.evidence_tables import plain_table
from surefoot.plan import Plan
from surefoot.studies.design import BUDGETS, near
from surefoot.studies.figures import Group
from surefoot.studies.record import StudyRecord


def print_design(console: Console, record: StudyRecord, plan: Plan) -> None:
    d = record.design
    console.print(
        f"[bold]Study of {d.kind}[/bold] on {escape(d.task)}: {len(d.values)} values x {len(d.seeds)} seeds "
        f"= {len(d.values) * len(d.seeds)} runs, each to both budgets, trained on {d.engine}, {d.device}",
        highlight=False,
        soft_wrap=True,
    )
    seconds = (
        f"{d.seconds:g} s of training"
        if d.seconds is not None
        else "as many seconds of training as the first run takes for the samples "
        f"({60 * plan.task.minutes:g} at most)"
    )
    lines = [
        *record.scaled,
        f"Budgets: {d.samples:,} samples; {seconds}.",
        f"Scored: the last policy of each budget on the confirmation half of {record.panel} "
        f"({len(plan.panel.select('confirmation'))} episodes), on {d.scored_on} ({near(d)}), columns: "
        f"{', '.join(['nominal', *(c.name for c in d.columns)])}.",
        f"A gain of less than {100 * d.margin:g} points of success counts as none.",
    ]
    for line in lines:
        console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)


def print_results(console: Console, record: StudyRecord) -> None:
    d = record.design
    for budget in BUDGETS:
        groups = record.groups_of(budget)
        if not groups:
            continue
        what = f"{d.samples:,} samples" if budget == "samples" else f"{record.seconds or 0:.3g} s of training"
        table = plain_table(
            f"With the same {what}",
            d.knob.unit,
            "training s",
            "samples",
            "steps/s",
            "n_eff of a block",
            "age x reuse",
            "success",
            "falls",
            "disturbed",
        )
        for g in groups:
            table.add_row(*_cells(g))
        console.print(table, highlight=False)
        verdict = record.verdict_of(budget)
        if verdict is not None:
            console.print(f"[bold]{escape(verdict.sentence)}", highlight=False, soft_wrap=True)
            for s in verdict.steps:
                console.print(f"  {s.sentence}", highlight=False, markup=False, soft_wrap=True)
    console.print(
        f"[dim]Mean (95% interval) over {len(d.seeds)} training seeds; panel on {d.scored_on}. "
        "Every step is judged on its own.",
        highlight=False,
        soft_wrap=True,
    )


def _cells(g: Group) -> list[str]:
    f = g.figures
    block = (
        f"{f['n_eff_return'].value:,.0f} of {f['block_samples'].value:,.0f}"
        if "n_eff_return" in f
        else "not measured"
    )
    return [
        f"{g.value:,}",
        f"{f['train_seconds'].value:.2f}",
        f"{f['samples'].value:,.0f}",
        f"{f['steps_per_second'].value:,.0f}",
        block,
        f"{f['age_steps'].value:g} x {f['reuse'].value:g}",
        _rate(f["success"]),
        _rate(f["fall"]),
        _rate(f["disturbed_success"]) if "disturbed_success" in f else "not measured",
    ]


def _rate(f: Figure) -> str:
    if f.low is None or f.high is None:
        return f"{100 * f.value:.1f}%"
    return f"{100 * f.value:.1f}% ({100 * f.low:.0f} to {100 * f.high:.0f})"
