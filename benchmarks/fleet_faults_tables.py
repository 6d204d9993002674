"""The table of killed actors; for tables.py."""

from __future__ import annotations

from typing import Any

from document import HERE, Block, measured, table

FILE = "fleet_faults.json"
PLOT = "fleet_faults.svg"


def _seconds(row: dict[str, Any], name: str) -> str:
    """The median and the most, and of how many kills where it is not known of all."""
    s, kills = row[name], len(row["kills"])
    if not s["known"]:
        return "not within the time"
    of = "" if s["known"] == kills else f" (of {s['known']})"
    return f"{s['median']:.1f} s, {s['most']:.1f} s{of}"


def faults() -> str:
    """A row per machine and number of actors."""
    rows = []
    for machine, entry in measured(FILE)["machines"].items():
        for r in entry["rows"]:
            row = [f"{machine}, {r['cores']} cores", str(r["actors"]), f"{r['every_s']:g} s"]
            row += [str(len(r["kills"])), _seconds(r, "successor_s"), _seconds(r, "back_s")]
            row += [f"{r['learned_per_s']:,.0f}", f"{r['dip']:.0%}"]
            rows.append([*row, f"{r['books']['lost']} of {r['books']['issued']:,}"])
    head = [
        "machine",
        "actors",
        "one killed every",
        "kills",
        "its successor brings something after (median, most)",
    ]
    head += [
        "nine tenths of the rate are back after (median, most)",
        "samples learned from per second before",
    ]
    return table([*head, "fewer in that minute", "fragments lost"], rows)


def _block() -> Block:
    """What stands in the page before and after it was measured."""
    if (HERE / FILE).exists():
        return Block(lambda: f"{faults()}\n\n![Arrivals, and kills](../../benchmarks/{PLOT})", (FILE,))
    return Block(lambda: "*Not measured yet.*")


BLOCKS = {"fleet faults": _block()}
