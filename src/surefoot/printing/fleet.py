"""A fleet on a terminal: whether it trains, who is in it, and its books."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console

from surefoot.printing.display import bytes_text
from surefoot.printing.tables import seconds_text
from surefoot.printing.terminal import plain_table, say

if TYPE_CHECKING:
    from surefoot.fleet import FleetStatus


def print_fleet(console: Console, fleet: FleetStatus) -> None:
    """Prints what the fleet of a run does, its actors, how old experience is, and its books."""
    say(console, f"{fleet.folder}: {fleet.says}", style=None if fleet.trains else "dim")
    table = plain_table("", "part", "actor", "incarnation", "fragments", "transitions/s", "lag", "last wrote")
    for a in fleet.parts:
        table.add_row(
            str(a.number),
            "nobody" if a.actor is None else str(a.actor),
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
        f"{row['fleet.learner.utilisation']:.0%} of the time; {turnover(row)}; {bytes_text(row)}.",
    )
    say(
        console,
        f"Fragments: {row['fleet.issued']:,} asked for = {row['fleet.trained']:,} learned from + "
        f"{row['fleet.dropped']:,} dropped + {row['fleet.lost']:,} lost + {row['fleet.open']:,} open.",
    )


def turnover(row: Mapping[str, Any]) -> str:
    """Says of a row which actors came and went since the learner's process began."""
    if row.get("fleet.joined") or row.get("fleet.left"):
        return f"actors that joined: {row['fleet.joined']}, that left: {row['fleet.left']}"
    return f"actors replaced: {row['fleet.replaced']}"
