"""A fleet on a terminal: whether it trains, who is in it, and its books."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from surefoot.printing.display import bytes_text
from surefoot.printing.tables import seconds_text
from surefoot.printing.terminal import plain_table, say

if TYPE_CHECKING:
    from surefoot.fleet import FleetStatus


def print_fleet(console: Console, fleet: FleetStatus) -> None:
    """Prints what the fleet of a run does, its actors, how old experience is, and its books."""
    say(console, f"{fleet.folder}: {fleet.says}", style=None if fleet.trains else "dim")
    table = plain_table("", "actor", "incarnation", "fragments", "transitions/s", "lag", "last wrote")
    for a in fleet.actors:
        table.add_row(
            str(a.number),
            "-" if a.incarnation is None else str(a.incarnation),
            f"{a.fragments:,}",
            "-" if a.rate is None else f"{a.rate:,.0f}",
            "-" if a.lag is None else str(a.lag),
            "never" if a.silent_s is None else f"{seconds_text(a.silent_s)} ago",
        )
    console.print(table)
    row = fleet.row
    if not row:
        say(console, "No update has been made with them yet.")
        return
    say(
        console,
        f"Lag {row['fleet.lag.mean']:.1f} versions (most {row['fleet.lag.max']:.0f}); the learner is at work "
        f"{row['fleet.learner.utilisation']:.0%} of the time; actors replaced: {row['fleet.replaced']}; "
        f"{bytes_text(row)}.",
    )
    say(
        console,
        f"Fragments: {row['fleet.issued']:,} asked for = {row['fleet.trained']:,} learned from + "
        f"{row['fleet.dropped']:,} dropped + {row['fleet.lost']:,} lost + {row['fleet.open']:,} open.",
    )
