"""Tables of a fleet's codecs and of where its policy acts; for tables.py."""

from __future__ import annotations

from typing import Any

from document import Block, measured, table
from fleet_inference import crossover


def _speed(bytes_per_s: float | str) -> str:
    """A link's speed, in bits as links are sold."""
    if isinstance(bytes_per_s, str):
        return bytes_per_s
    bits = 8 * bytes_per_s
    return f"{bits / 1e9:.1f} Gb/s" if bits >= 1e9 else f"{bits / 1e6:.0f} Mb/s"


def codecs() -> str:
    rows = []
    for r in measured("fleet_codecs.json")["rows"]:
        name = f"`{r['codec']}`" + (" (rounds)" if r["lossy"] else "")
        base = r["codec"] == r["against"]
        pays = "-" if base else f"{_speed(r['pays_below_bytes_per_s'])}"
        size, share = r["bytes_per_transition"], r["bytes_per_transition"]
        share /= next(x["bytes_per_transition"] for x in _stream(r) if x["codec"] == r["against"])
        row = [
            r["stream"],
            name,
            f"{size:,.0f}",
            f"{share:.3g}",
            f"{r['pack_us']:.2f}",
            f"{r['read_us']:.2f}",
        ]
        rows.append([*row, pays])
    head = ["experience", "codec", "bytes per transition", "of the plain one's", "pack, us", "read, us"]
    return table([*head, "pays on a link below"], rows)


def _stream(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [r for r in measured("fleet_codecs.json")["rows"] if r["stream"] == row["stream"]]


def inference() -> str:
    """Every cell: local and central, and what the service did."""
    rows = []
    for machine, entry in measured("fleet_inference.json")["machines"].items():
        for r in sorted(entry["rows"], key=lambda r: (r["environment"], r["parameters"])):
            c = r["central"]
            row = [
                f"{machine}, {r['actors']} actors, {r['device']}",
                r["environment"],
                f"{r['parameters']:,}",
            ]
            row += [f"{r['local']['steps_per_s']:,.0f}", f"{c['steps_per_s']:,.0f}"]
            row += [f"{r['central_over_local']:.2f}", f"{c['trip_ms_p50']:.1f}, {c['trip_ms_p99']:.1f}"]
            rows.append(
                [
                    *row,
                    f"{c['rows']:.0f}",
                    f"{c['deadline_share']:.0%}",
                    f"{c['busy_share']:.0%}",
                    f"{r['load']:.0f}",
                ]
            )
    head = ["machine, service on", "environment", "parameters", "local, steps/s", "central, steps/s"]
    head += [
        "central / local",
        "round trip, ms: p50, p99",
        "rows of a batch",
        "deadline first",
        "service busy",
        "load",
    ]
    return table(head, rows)


def crossovers() -> str:
    """The size of policy from which central inference is faster."""
    rows = []
    for machine, entry in measured("fleet_inference.json")["machines"].items():
        for name in dict.fromkeys(r["environment"] for r in entry["rows"]):
            mine = [r for r in entry["rows"] if r["environment"] == name]
            at = crossover(mine)
            most = max(r["parameters"] for r in mine)
            said = (
                f"none up to {most:,} parameters" if at is None else f"{at:,.0f} parameters" if at else "all"
            )
            where = f"{machine}, {mine[0]['actors']} actors, {mine[0]['device']}"
            rows.append([where, name, said])
    return table(["machine, service on", "environment", "central is faster from"], rows)


BLOCKS = {
    "fleet codecs": Block(codecs, ("fleet_codecs.json",)),
    "fleet inference": Block(inference, ("fleet_inference.json",)),
    "fleet crossover": Block(crossovers, ("fleet_inference.json",)),
}
