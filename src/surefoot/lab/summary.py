"""What a lab says on the terminal: who did what, where it is, what to type next."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.console import Console

from surefoot.commands import surefoot_command
from surefoot.evidence_tables import plain_table
from surefoot.lab.record import Entry, LabRecord
from surefoot.lab.views import Who, headings, policies, shown


def print_lab(console: Console, path: Path, lab: LabRecord) -> None:
    p = lab.panels[0]
    two = f" / {lab.panels[1].name}, what both measured" if len(lab.panels) > 1 else ""
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
        nominal = shown(lab, who, "nominal", headings(lab)[0].engine)
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
        commands += [
            (f"{me} lab --task {lab.design.task}{_same(lab)} --panel2 --out {here}", "a second panel")
        ]
    for command, why in commands:
        console.print(f"  {command}   # {why}", highlight=False, markup=False, soft_wrap=True)


def _same(lab: LabRecord) -> str:
    """Options that ask for the same lab, as far as they are this command's own."""
    d = lab.design
    out = " --quick" if d.quick else ""
    out += f" --perturbation {d.perturbation}" if d.perturbation != "delay" else ""
    out += f" --learners {' '.join(d.learners)}" if d.learners != ("ppo", "rsl_rl") else ""
    return out


def _success(lab: LabRecord, who: Who, column: str, engine: str, sparse: bool) -> str:
    if sparse and who.seed is None:
        return "not trained"
    e = shown(lab, who, column, engine, sparse=sparse)
    if e is None:
        return "not measured"
    text = (
        f"{100 * e.found.success:.1f}% ({100 * e.found.success_low:.0f} to {100 * e.found.success_high:.0f})"
    )
    again = shown(lab, who, column, engine, sparse=sparse, panel=2)
    return f"{text} / {100 * again.found.success:.1f}%" if again else text


def _labels(e: Entry) -> str:
    found = sorted(e.found.labels.items(), key=lambda x: -x[1])
    return ", ".join(f"{k} {v}" for k, v in found) or "none"
