"""Which column predicts success on the second simulator best, over runs on one panel.

    python benchmarks/predictors.py RUN RUN RUN ...     # run folders, three at least; writes predictors.json

Runs must have been evaluated with `surefoot evaluate` (or confirmed) by a version that plays the box world.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from surefoot.artifacts import write_json
from surefoot.runs import RunFolder, load_result
from surefoot.statistics import predictors


def measure(folders: list[Path]) -> dict[str, Any]:
    results = [load_result(RunFolder.open(folder)) for folder in folders]
    panels = {r.summary.panel_digest for r in results}
    if len(panels) > 1:
        raise SystemExit("These runs were judged on different panels; give runs on one.")
    found = predictors([r.table for r in results], [r.run.engine for r in results])
    return {
        "schema_version": 1,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "panel": results[0].summary.panel,
        "runs": [
            {"task": r.run.task, "seed": r.run.seeds.root, "samples": r.run.figures.get("samples"),
             "success": {a.engine: a.success for a in r.summary.columns if a.column == "nominal"}}
            for r in results
        ],
        "predictors": [asdict(p) for p in found],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", type=Path, nargs="+", help="run folders")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    document = measure(args.runs)
    for p in document["predictors"]:
        print(f"{p['column']}, {p['engine']}: {p['rank_correlation']} {p['without_one']}")
    write_json(args.out, document)


if __name__ == "__main__":
    main()
