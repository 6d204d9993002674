"""Looks for false alarms: detectors are asked about runs without a bug.

    python benchmarks/mutants/clean.py --out DIR                 trains what is listed below, audits each once
    python benchmarks/mutants/clean.py --out DIR --keys 60       asks the detectors of five runs under 60 keys
    python benchmarks/mutants/clean.py --out DIR --runs RUN ...  of other runs: trained elsewhere, on a GPU
    python benchmarks/mutants/clean.py --out DIR --show          prints the tables; trains and writes nothing

Runs are of every task; some are long, some have hardly begun, one falls apart, libraries trained some, one
was resumed. DIR has the run folders, and a JSON Lines file with a row per run, key and detector. What is
there already is not done again, so the command goes on where it was stopped. audits_clean.json sums it up.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from corpus import HERE

sys.path.append(str(HERE.parent))  # what all benchmarks share
from document import Block, measured, table
from machines import commit, device_name

SCHEMA_VERSION = 1
FILE = "audits_clean.json"
SMALL = "--envs 192 --updates 40 --evaluate-every 15 --scenarios 32"
ROUGH = "--envs 192 --updates 40 --evaluate-every 15 --scenarios 128"
LIBRARIES = ("rsl_rl", "skrl", "rl_games", "sb3", "tianshou", "cleanrl")
TRAININGS = {
    "trot-flat": f"trot-flat {SMALL} --seed 101",
    "walk-flat": f"walk-flat {SMALL} --seed 102",
    "walk-rough": f"walk-rough {ROUGH} --seed 103",
    "walk-anymal-flat": f"walk-anymal-flat {SMALL} --seed 104",
    "walk-anymal-rough": f"walk-anymal-rough {ROUGH} --seed 105",
    "walk-biped-flat": f"walk-biped-flat {SMALL} --seed 106",
    "long": "trot-flat --minutes 1.5 --seed 107",
    "long, walking": "walk-flat --minutes 2 --seed 108",
    "hardly begun": "trot-flat --envs 192 --updates 3 --scenarios 32 --seed 109",
    "hardly begun, rough": "walk-rough --envs 192 --updates 3 --scenarios 128 --seed 110",
    "falls apart": f"trot-flat {SMALL} --epochs 60 --minibatches 24 --seed 111",
    "another engine": f"trot-flat {SMALL} --engine mujoco --seed 112",
    "few families": f"walk-flat {SMALL} --families 2 --seed 113",
    "resumed": "trot-flat --envs 192 --updates 20 --scenarios 32 --seed 114",
    **{name: f"trot-flat {SMALL} --learner {name} --seed {115 + k}" for k, name in enumerate(LIBRARIES)},
}
PROBED = ("trot-flat", "walk-flat", "walk-rough", "walk-anymal-flat", "walk-biped-flat")


def trained(name: str, out: Path) -> Path:
    """Trains one of the list, unless that was done; returns its folder."""
    run = out / name.replace(", ", "-").replace(" ", "-")
    surefoot = [sys.executable, "-m", "surefoot", "train"]
    said = ["--tracker", "none", "--quiet"]
    if not finished(run):
        if run.exists():
            run.rename(run.with_name(f"{run.name}.broken-{time.time_ns()}"))
        subprocess.run([*surefoot, *TRAININGS[name].split(), *said, "--out", str(run)], check=True)
        if name == "resumed":
            more = ["--resume", str(run), "--updates", "40", *said]
            subprocess.run([*surefoot, *more], check=True)
    return run


def finished(run: Path) -> bool:
    record = run / "run.json"
    return record.is_file() and json.loads(record.read_text())["status"] == "finished"


def asked(run: Path, seed: int, names: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Asks every detector about a run under one key; yields a row for each. What is below 1% is looked at
    again, as the auditor does."""
    from surefoot.audits import detectors
    from surefoot.audits.auditor import ask
    from surefoot.audits.case import Case
    from surefoot.audits.detector import SCREEN, NotApplicable
    from surefoot.runs import RunFolder

    case = Case(RunFolder.open(run), seed)
    try:
        for d in (d for d in detectors().values() if not names or d.name in names):
            row: dict[str, Any] = {"run": run.name, "seed": seed, "detector": d.name, "kind": d.kind}
            begun = time.perf_counter()
            because = case.why_not(d.needs)
            found = []
            try:
                if because:
                    raise NotApplicable(because)
                with torch.inference_mode():
                    looked = list(d.look(case))
                chances = [f.p for f in looked if f.p is not None]
                row |= {"p": min(chances, default=None), "screened": any(p < SCREEN for p in chances)}
                if row["screened"] or any(f.p is None for f in looked):
                    found = ask(d, case)
            except NotApplicable as reason:
                row["not_applicable"] = str(reason)
            row |= {"findings": [f.statement for f in found], "seconds": time.perf_counter() - begun}
            yield row
    finally:
        case.close()


def ask_all(runs: Sequence[Path], seeds: Sequence[int], rows_file: Path, names: Sequence[str] = ()) -> None:
    """Asks what was not asked yet, a run and a key at a time, and writes it down."""
    there = {(r["run"], r["seed"], r["detector"]) for r in rows(rows_file)}
    todo = [(run, seed) for seed in seeds for run in runs]
    for k, (run, seed) in enumerate(todo, 1):
        if not names and any((run.name, seed) == (r, s) for r, s, _ in there):
            continue
        made = [r for r in asked(run, seed, names) if (r["run"], r["seed"], r["detector"]) not in there]
        with rows_file.open("a") as file:
            file.writelines(json.dumps(r) + "\n" for r in made)
        said = [f"{r['detector']}: {s}" for r in made for s in r["findings"]]
        print(f"{k}/{len(todo)}  {run.name}, key {seed}: {'; '.join(said) or 'nothing found'}", flush=True)


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []


def summed(once: Sequence[dict[str, Any]], probed: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sums up audits of clean runs, one each (`once`), and under many keys."""
    return {
        "schema_version": SCHEMA_VERSION,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": {"cpu": device_name(torch.device("cpu")), "cores": len(os.sched_getaffinity(0))},
        "trainings": _of(once),
        "probes": _of(probed),
        "detectors": {
            name: _detector([r for r in (*once, *probed) if r["detector"] == name])
            for name in sorted({r["detector"] for r in (*once, *probed)})
        },
    }


def _of(some: Sequence[dict[str, Any]]) -> dict[str, Any]:
    audits = {(r["run"], r["seed"]) for r in some}
    seconds = [sum(r["seconds"] for r in some if (r["run"], r["seed"]) == a) for a in audits]
    alarms = {(r["run"], r["seed"]) for r in some if r["findings"]}
    proof = {(r["run"], r["seed"]) for r in some if r["findings"] and r["kind"] == "proof"}
    return {
        "runs": sorted({r["run"] for r in some}),
        "audits": len(audits),
        "with_a_finding": len(alarms),
        "with_one_on_the_proof": len(proof),
        "seconds_median": sorted(seconds)[len(seconds) // 2] if seconds else None,
    }


def _detector(of: Sequence[dict[str, Any]]) -> dict[str, Any]:
    looked = [r for r in of if "not_applicable" not in r]
    chances = [r["p"] for r in looked if r.get("p") is not None]
    return {
        "kind": of[0]["kind"],
        "asked": len(looked),
        "not_applicable": len(of) - len(looked),
        "screened": sum(bool(r.get("screened")) for r in looked),
        "by_chance": len(chances),
        "found": sum(bool(r["findings"]) for r in looked),
        "seconds_median": sorted(r["seconds"] for r in looked)[len(looked) // 2] if looked else None,
    }


# ---- tables


def by_detector(made: dict[str, Any] | None = None) -> str:
    """Returns the table of detectors: how often asked about clean runs, below 1%, found something."""
    made = made or measured(FILE)
    head = [
        "detector",
        "kind",
        "asked",
        "not applicable",
        "states a chance",
        "below 1%",
        "findings",
        "seconds",
    ]
    body = []
    for name, d in made["detectors"].items():
        counts = (d["asked"], d["not_applicable"], d["by_chance"], d["screened"], d["found"])
        seconds = "" if d["seconds_median"] is None else f"{d['seconds_median']:.2f}"
        body.append([name, d["kind"], *map(str, counts), seconds])
    said = [
        f"{of['audits']} audits of {len(of['runs'])} runs {what}: {of['with_a_finding']} with a finding, "
        f"{of['with_one_on_the_proof']} with one on the proof."
        for what, of in (("without a bug", made["trainings"]), ("under fresh keys", made["probes"]))
        if of["audits"]
    ]
    return "\n\n".join([table(head, body), *said])


BLOCKS = {"audits clean": Block(by_detector, (FILE,))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=HERE / "out" / "clean", help="folder of runs and rows")
    parser.add_argument("--keys", type=int, default=0, help="keys that five runs are asked under")
    parser.add_argument("--runs", type=Path, nargs="+", default=[], help="these run folders alone")
    parser.add_argument("--only", nargs="+", default=[], help="these of the list alone")
    parser.add_argument(
        "--detectors", nargs="+", default=[], help="these detectors alone (asked if they were not)"
    )
    parser.add_argument("--show", action="store_true", help="print the tables")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    once, probed = args.out / "once.jsonl", args.out / "probed.jsonl"
    if not args.show:
        names = [n for n in TRAININGS if not args.only or n in args.only]
        runs = [p.resolve() for p in args.runs] or [trained(n, args.out.resolve()) for n in names]
        if args.keys:
            five = [r for r in runs if args.runs or r.name in PROBED]
            ask_all(five, range(1000, 1000 + args.keys), probed, args.detectors)
        else:
            ask_all(runs, [1], once, args.detectors)
        (HERE.parent / FILE).write_text(json.dumps(summed(rows(once), rows(probed)), indent=2) + "\n")
    print(by_detector(summed(rows(once), rows(probed))))


if __name__ == "__main__":
    main()
