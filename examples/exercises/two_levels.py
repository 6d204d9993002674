"""Exercise 4: runs with other numbers of environments and processes side by side; the first two are also
compared row by row.

    python examples/exercises/two_levels.py runs/one runs/two runs/wide
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from surefoot.runs import RunFolder, read_ledger

COUNTS = ("samples", "episode.count", "stratum.samples", "family.resets")


def main(folders: list[Path]) -> None:
    records = [RunFolder.open(p).record for p in folders]
    ledgers = [read_ledger(p / "ledger.jsonl")[0] for p in folders]
    steady = [rows[1:] for rows in ledgers]  # the first update also compiles and loads

    def milliseconds(part: str) -> list[str]:
        return [f"{1e3 * sum(r[f'seconds.{part}'] for r in rows) / len(rows):.1f}" for rows in steady]

    table: list[tuple[str, list[Any]]] = [
        ("", [p.name for p in folders]),
        ("processes", [r.versions.get("processes", "1") for r in records]),
        ("environments in all", [r.recipe.envs for r in records]),
        ("samples an update", [f"{rows[0]['samples']:,}" for rows in ledgers]),
        ("environments, ms an update", milliseconds("environment")),
        ("learning, ms an update", milliseconds("learning")),
        ("steps/s", [f"{sum(r['steps_per_second'] for r in rows) / len(rows):,.0f}" for rows in steady]),
    ]
    for name, cells in table:
        print(f"{name:<28}" + "".join(f"{c:>12}" for c in cells))

    pairs = list(zip(*ledgers[:2], strict=True))
    same = all(a[k] == b[k] for a, b in pairs for k in COUNTS)
    apart = [abs(a["kl"] / b["kl"] - 1) for a, b in pairs]
    print(f"\n{folders[0].name} and {folders[1].name}: counts of every row {'equal' if same else 'differ'};")
    print(f"KL apart by {apart[0]:.0e} after the first update, by {apart[-1]:.0e} after the last")


if __name__ == "__main__":
    main([Path(p) for p in sys.argv[1:]])
