"""What a lab says on the terminal: who did what, where it is, what to type next."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.console import Console

from surefoot.contract import NOMINAL
from surefoot.experiments.lab.record import Entry, LabRecord
from surefoot.experiments.lab.views import Who, headings, policies, shown
from surefoot.reporting import plain_table
from surefoot.runs import surefoot_command


def print_lab(console: Console, path: Path, lab: LabRecord, asked: str) -> None:
    """`asked` is the command that the lab was asked for with."""
    p = lab.panels[0]
    two = f" | {lab.panels[1].name}" if len(lab.panels) > 1 else ""
    names = [h.title for h in headings(lab)]
    table = plain_table(
        f"{lab.design.task}: success on {p.episodes} held-out episodes of {p.name}{two}",
        "policy", *names,
    )  # fmt: skip
    for who in policies(lab):
        cells = [_success(lab, who, h.column, h.engine, h.sparse) for h in headings(lab)]
        table.add_row(who.title, *cells)
    console.print()
    console.print(table, highlight=False)
    for who in policies(lab):
        nominal = shown(lab, who, NOMINAL, headings(lab)[0].engine)
        if who.seed is not None and nominal is not None:
            console.print(f"{who.title} failed by: {_labels(nominal)}", highlight=False, soft_wrap=True)
    for run in lab.runs:
        if run.status == "failed":
            console.print(
                f"{run.folder} failed: {run.error} (remove it to train it again)",
                style="red",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
    me, here = surefoot_command(), shlex.quote(str(path))
    verified = sum(c.verified for c in lab.cases)
    console.print(
        f"\n{verified} of {len(lab.cases)} failure cases verified by replay. {lab.cases_note}".rstrip()
    )
    console.print("\n[bold]Where[/bold]")
    for name, what in (
        ("lab.html", "all of it on one page, the failures to play"),
        ("lab.json, lab.csv", "configuration, seeds, metrics, traces, labels"),
        ("runs/", "every run with its report, ledger, checkpoints and traces"),
    ):
        console.print(f"  {path}/{name}   # {what}", highlight=False, markup=False, soft_wrap=True)
    console.print("\n[bold]Next[/bold]")
    commands = [(f"cd {here} && {me} {c.replay}", f"{c.case.label} again") for c in lab.cases[:1]]
    commands += [(f"{me} serve --runs {here}/runs", "every run's report, side by side")]
    if len(lab.panels) == 1:
        commands += [(f"{asked} --panel2", "all of them on a second panel too")]
    for command, why in commands:
        console.print(f"  {command}   # {why}", highlight=False, markup=False, soft_wrap=True)


def _success(lab: LabRecord, who: Who, column: str, engine: str, sparse: bool) -> str:
    if sparse and who.seed is None:
        return "not trained"
    e = shown(lab, who, column, engine, sparse=sparse)
    if e is None:
        return "not measured"
    f = e.found
    if len(lab.panels) > 1:
        again = shown(lab, who, column, engine, sparse=sparse, panel=2)
        return f"{100 * f.success:.1f}% | {100 * again.found.success:.1f}%" if again else "not both"
    return f"{100 * f.success:.1f}% ({100 * f.success_low:.0f} to {100 * f.success_high:.0f})"


def _labels(e: Entry) -> str:
    found = sorted(e.found.labels.items(), key=lambda x: -x[1])
    return ", ".join(f"{k} {v}" for k, v in found) or "none"
