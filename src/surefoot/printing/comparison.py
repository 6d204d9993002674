"""What a comparison says, for people: differences with intervals, a forest by stratum, or why not."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from surefoot.printing.terminal import plain_table, say

if TYPE_CHECKING:
    from surefoot.evidence import Compared, Comparison, Field, Refusal
    from surefoot.statistics import Difference

WIDTH = 21
"""Characters of a forest bar, odd so that zero has a middle."""


def print_refusal(console: Console, a: str, b: str, refusal: Refusal) -> None:
    from surefoot.evidence import refusal_sentence

    say(console, refusal_sentence(a, b, refusal.differs))
    print_fields(console, "What differs", refusal.differs)
    say(console, refusal.offer)


def print_comparison(console: Console, c: Comparison) -> None:
    on = f"{c.n} scenarios that both have" if c.shared_panel else f"{c.n} scenarios"
    say(
        console,
        f"\n[bold]{escape(c.b)}[/bold] against [bold]{escape(c.a)}[/bold]: {on}, {c.half} half, "
        f"{escape(c.column)}, {c.engine}",
        markup=True,
    )
    for text in filter(None, (c.a_caveat and f"A: {c.a_caveat}", c.b_caveat and f"B: {c.b_caveat}")):
        say(console, text, style="yellow")
    if c.same_policy:
        say(
            console,
            "A and B are the same policy, by the digest of their checkpoints: nothing can differ.",
            style="yellow",
        )
    head = ("metric", "A", "B", "B - A [95% interval]", "p", "detects", "n/n_eff")
    rows = _table("Differences", *head, wraps=("metric",))
    for name, d in c.metrics.items():
        rows.add_row(name, f"{d.a:.3f}", f"{d.b:.3f}", interval(d), f"{d.p:.4f}", detects(d), _worth(d))
    console.print(rows, highlight=False)
    print_forest(console, c)
    if c.interface:
        print_fields(
            console, "Other interfaces: part of the treatment (shown, no reason to refuse)", c.interface
        )
    if c.other_signals:
        say(
            console,
            f"Not the same signal in both, though called alike: {', '.join(c.other_signals)}. What their "
            "noise is worth may differ.",
            style="yellow",
        )
    if c.training:
        print_fields(console, "Trained differently (shown, no reason to refuse)", c.training)
    drawn = sorted({f.name.split(".")[2] for f in c.training if f.name.startswith("contract.factors.")})
    if drawn:
        say(console, f"They were trained on different distributions of {', '.join(drawn)}.", style="yellow")
    if any(d.few and math.isfinite(d.low) for d in c.metrics.values()):
        say(
            console,
            "Few families: the intervals of errors and energy also allow for differences that whole "
            "families may now and then have and none of these showed.",
            style="yellow",
        )
    if any(d.few and not math.isfinite(d.low) for d in c.metrics.values()):
        say(
            console,
            "Unbounded: fewer than 28 families, or families that do not differ at all, bound no mean "
            "of values whose range is not known.",
            style="yellow",
        )
    families = next(iter(c.metrics.values())).families
    say(
        console,
        f"{families} families. p: their signs flipped. detects: the smallest true difference that would "
        "be found with 80% power.",
        style="dim",
    )


def print_looks(console: Console, results: Sequence[Compared]) -> None:
    """Prints how often the half was looked at."""
    for said in dict.fromkeys(r.look.said for r in results if r.look is not None):
        say(console, said, style="dim")


def print_forest(console: Console, c: Comparison) -> None:
    reach = max((abs(x) for d in c.strata.values() for x in (d.low, d.high)), default=1.0)
    title = f"Success by stratum, worst first (bars from {-reach:+.2f} to {reach:+.2f})"
    forest = _table(title, "stratum", "worse | better", "B - A [95% interval]", "n/n_eff")
    for label, d in sorted(c.strata.items(), key=lambda item: item[1].value):
        forest.add_row(label, forest_bar(d, reach), interval(d), _worth(d))
    console.print(forest, highlight=False)


def interval(d: Difference) -> str:
    ends = f"{d.low:+.3f}, {d.high:+.3f}" if math.isfinite(d.low) else "unbounded"
    return escape(f"{d.value:+.3f} [{ends}]")


def detects(d: Difference) -> str:
    return f"{d.detectable:.3f}" if math.isfinite(d.detectable) else "-"


def _worth(d: Difference) -> str:
    return f"{d.n}/{d.n_eff:.0f}"


def forest_bar(d: Difference, reach: float, width: int = WIDTH) -> str:
    """Draws an interval as text: -- from low to high, o at the value, | at zero."""

    def at(x: float) -> int:
        return round((min(max(x / reach, -1), 1) + 1) / 2 * (width - 1))

    cells = [" "] * width
    for k in range(at(d.low), at(d.high) + 1):
        cells[k] = "-"
    cells[width // 2] = "|"
    cells[at(d.value)] = "o"
    return "".join(cells)


def _table(title: str, *columns: str, wraps: Sequence[str] = ("A", "B")) -> Table:
    """Returns a narrow table; only the columns of `wraps` may wrap."""
    table = plain_table(title)
    table.padding = (0, 1, 0, 0)
    for c in columns:
        table.add_column(escape(c), no_wrap=c not in wraps)
    return table


def print_fields(console: Console, title: str, fields: tuple[Field, ...]) -> None:
    say(console, f"\n{title}", style="bold")  # a table's own title wraps to the width of its columns
    rows = _table("", "field", "A", "B")
    for f in fields:
        rows.add_row(escape(f.name), escape(_short(f.a)), escape(_short(f.b)))
    console.print(rows, highlight=False)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
