"""What `surefoot study` prints: the design before it runs, the figures and the verdict after."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.markup import escape

from surefoot.experiments.studies.design import BUDGETS, near
from surefoot.experiments.studies.figures import Group
from surefoot.experiments.studies.record import StudyRecord
from surefoot.reporting import plain_table
from surefoot.statistics import Estimate
from surefoot.training import Plan


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
        table = plain_table(f"With the same {what}", d.knob.unit, *(f"{g.value:,}" for g in groups))
        for name, cells in _rows(groups).items():
            table.add_row(name, *cells)
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


def _rows(groups: list[Group]) -> dict[str, list[str]]:
    """A row per figure, a cell per value."""

    def cells(name: str, text: Callable[[Estimate], str]) -> list[str]:
        return [text(g.figures[name]) if name in g.figures else "not measured" for g in groups]

    rows = {
        "training, s": cells("train_seconds", lambda f: f"{f.value:.2f}"),
        "samples": cells("samples", lambda f: f"{f.value:,.0f}"),
        "steps/s": cells("steps_per_second", lambda f: f"{f.value:,.0f}"),
        "n of a rollout block": cells("block_samples", lambda f: f"{f.value:,.0f}"),
        "n_eff of it, by return": cells("n_eff_return", lambda f: f"{f.value:,.0f}"),
        "age of a sample, steps": cells("age_steps", lambda f: f"{f.value:g}"),
        "reuse, epochs": cells("reuse", lambda f: f"{f.value:g}"),
        "policy change, KL": cells("kl", lambda f: f"{f.value:.4f}"),
        "success": cells("success", _rate),
        "falls": cells("fall", _rate),
        "success, disturbed": cells("disturbed_success", _rate),
    }
    for name in list(groups[0].columns)[1:]:
        rows[f"  {name}"] = [_rate(g.columns[name]) for g in groups]
    rows["failures"] = [_most(g.labels) for g in groups]
    return rows


def _rate(f: Estimate) -> str:
    if f.low is None or f.high is None:
        return f"{100 * f.value:.1f}%"
    return f"{100 * f.value:.1f}% ({100 * f.low:.0f} to {100 * f.high:.0f})"


def _most(labels: dict[str, int]) -> str:
    found = sorted(labels.items(), key=lambda x: -x[1])[:2]
    return ", ".join(f"{name} {count}" for name, count in found) or "none"
