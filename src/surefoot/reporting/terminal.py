"""Tables of the evidence room for people: columns, baselines, engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from surefoot.statistics import HOLDS_AT, WORDS, Grade, judge, percent

if TYPE_CHECKING:
    from surefoot.statistics import ColumnSummary, PanelSummary


COLOURS: dict[Grade, str] = {"good": "green", "mixed": "yellow", "bad": "red"}


def plain_table(title: str, *columns: str) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        padding=(0, 2, 0, 0),
        header_style="dim",
    )
    for c in columns:
        table.add_column(c)
    return table


def print_columns(console: Console, s: PanelSummary) -> None:
    """Prints the columns beside the nominal one, the baselines, and what follows from all of them."""
    console.print()
    if len(s.columns) > 1:
        console.print(_columns(s), highlight=False)
        console.print()
    for line in verdicts(s):
        console.print(line, highlight=False, soft_wrap=True)


def _columns(s: PanelSummary) -> Table:
    table = plain_table(
        f"Columns: the same {s.episodes} scenarios each; on stride unless it says otherwise; errors in m/s",
        "column", "success", "95%", "falls", "error", "n_eff", "holds", "most failures",
    )  # fmt: skip
    table.padding = (0, 1, 0, 0)
    for column in table.columns:
        column.no_wrap = True
    for c in s.columns:
        table.add_row(*_row(c))
    return table


def _row(c: ColumnSummary) -> tuple[str, ...]:
    most = max(c.labels.items(), key=lambda x: x[1], default=None)
    return (
        c.column.removeprefix("baseline:") + ("" if c.engine == "stride" else f", {c.engine}"),
        percent(c.success),
        f"{100 * c.success_low:.0f}-{100 * c.success_high:.0f}",
        percent(c.fall_rate),
        "-" if c.velocity_error_mps is None else f"{c.velocity_error_mps:.3f}",
        f"{c.effective_episodes:.1f}",
        "yes" if c.holds else "no",
        f"{most[0]} {most[1]}" if most else "-",
    )


def _from_to(s: PanelSummary, tag: str) -> str:
    """Writes the interval of a transfer tag; of a column, the engine's where it holds."""
    cls = tag.removeprefix("terrain:")
    if cls in s.terrain and cls != tag:
        low, high = s.terrain[cls].low, s.terrain[cls].high
    else:
        column = next(c for c in s.columns if c.column == tag and c.holds)
        low, high = column.success_low, column.success_high
    return "not measured" if low is None or high is None else f"{100 * low:.0f} to {100 * high:.0f}%"


def verdicts(s: PanelSummary) -> list[str]:
    """Says in sentences what the columns show."""
    grade = judge(s.success, s.success_low, s.safety_held, s.beats_baselines)
    out = [
        f"[bold {COLOURS[grade]}]{WORDS[grade]}:[/] {percent(s.success)} of {s.episodes} held-out episodes "
        f"succeed (95% interval {percent(s.success_low)} to {percent(s.success_high)}, "
        f"n_eff {s.effective_episodes:g})"
        + ("; the safety limit is broken." if s.safety_held is False else ".")
    ]
    if s.beats_baselines is False:
        out.append(
            "[bold red]It does not beat the baselines:[/bold red] its success interval is not above that of "
            "every baseline, so nothing is shown to be learned."
        )
    elif s.beats_baselines:
        out.append("It beats every baseline: its success interval lies above theirs.")
    held = ", ".join(f"{tag} ({_from_to(s, tag)})" for tag in s.transfer) or "nothing"
    out.append(f"Shown to hold (success interval from {HOLDS_AT:.0%} up): {held}.")
    for a in s.agreement:
        rank = "not measured" if a.rank_correlation is None else f"{a.rank_correlation:.2f}"
        out.append(
            f"Sim-to-sim, {a.engine} against {a.reference}: success agrees on "
            f"{percent(a.success_agreement)} of {a.n} scenarios, rank correlation of errors {rank}."
        )
    if s.total_seconds and s.total_steps_per_second:
        out.append(
            f"Evaluated {len(s.columns)} columns in {s.total_seconds:.0f} s "
            f"({s.total_steps_per_second:,.0f} steps/s)."
        )
    return out
