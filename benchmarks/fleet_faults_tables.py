"""The table of killed actors; for tables.py."""

from __future__ import annotations

from document import Block, measured, table


def faults() -> str:
    """A row per machine and number of actors."""
    rows = []
    for machine, entry in measured("fleet_faults.json")["machines"].items():
        for r in entry["rows"]:
            after = r["successor_s"]
            row = [f"{machine}, {r['cores']} cores", str(r["actors"]), f"{r['every_s']:g} s"]
            row += [str(len(r["kills"])), f"{after['median']:.1f} s, {after['most']:.1f} s"]
            row += [f"{r['back_s']['median']:.1f} s, {r['back_s']['most']:.1f} s"]
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


BLOCKS = {"fleet faults": Block(faults, ("fleet_faults.json",))}
