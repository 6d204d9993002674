"""Puts what was measured into the documents: every block between `<!-- name -->` and `<!-- end -->`.

    python benchmarks/tables.py            fills all of them anew (make tables)
    python benchmarks/tables.py --check    writes nothing; exits with 1 if something would change
    python benchmarks/tables.py --plots    draws the plots of performance_plots.py anew as well

Under a table stand its scripts, machines, dates and commits (provenance.py). `<!-- output FILE -->` is a
block too: a text file as it is.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import distributed_plan
import fleet_acting_tables
import fleet_faults_tables
import fleet_sizing_tables
import fleet_training_tables
import forgeries
import learners
import mirroring
import performance_tables
import proof_tables
import provenance
import result_tables
import small_tables
import terrain_tables
from document import HERE, Block, filled, places, table

sys.path.append(str(HERE / "mutants"))
import clean
import matrix

ROOT = HERE.parent
MODULES = (
    result_tables, proof_tables, performance_tables, learners, mirroring, distributed_plan, small_tables,
    forgeries, terrain_tables, fleet_acting_tables, fleet_sizing_tables, fleet_training_tables,
    fleet_faults_tables, matrix, clean,
)  # fmt: skip
BLOCKS: dict[str, Block] = {name: block for m in MODULES for name, block in m.BLOCKS.items()}
SOURCES = {name for block in BLOCKS.values() for name in block.sources}
FILES = SOURCES | {"machine_code.json"}
"""Every JSON that a document speaks of."""


def documents() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def files() -> str:
    head = ["file", "made by", "machine", "date", "version", "commit"]
    return table(head, provenance.overview(FILES))


def made(name: str) -> str:
    """What stands in a block."""
    if name == "files":
        return files()
    if name.startswith("output "):
        return f"```\n{(ROOT / name.removeprefix('output ')).read_text().rstrip()}\n```"
    if name not in BLOCKS:
        raise SystemExit(f"There is no table '{name}'; there are: {', '.join(sorted(BLOCKS))}.")
    block = BLOCKS[name]
    return block.make() + (f"\n\n{provenance.caption(block.sources)}" if block.sources else "")


def fresh(path: Path) -> str:
    text = path.read_text()
    return filled(text, {name: made(name) for name in places(text)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--plots", action="store_true", help="draw plots anew as well")
    args = parser.parse_args()
    if args.check:
        old = provenance.stale(FILES)
        if old:
            sys.exit(f"{', '.join(old)} changed since provenance.json was written; run make tables.")
    else:
        provenance.update(FILES)
    for path in documents():
        after = fresh(path)
        if after == path.read_text():
            continue
        if args.check:
            sys.exit(f"{path.relative_to(ROOT)} is not what the JSON says; run make tables.")
        path.write_text(after)
        print(f"Wrote {path.relative_to(ROOT)}")
    if args.plots:
        performance_tables.draw()


if __name__ == "__main__":
    main()
