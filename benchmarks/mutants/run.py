"""Trains a small run with each planted bug in the source, audits it with that source, keeps what was found.

    python benchmarks/mutants/run.py --out DIR                     every bug that is not held back, full size
    python benchmarks/mutants/run.py --out DIR --only gamma-wrong --size all
    python benchmarks/mutants/run.py --out DIR --which all --size all --jobs 2
    python benchmarks/mutants/run.py --out DIR --clean --seeds 1 2 3     the same without a bug: false alarms
    python benchmarks/mutants/run.py --out DIR --again             audits what is trained already anew
    python benchmarks/mutants/run.py --out DIR --full              runs of full length, on the whole panel
    python benchmarks/mutants/run.py --out DIR --quick             seconds each: shows that no bug crashes

A bug is planted in a copy of src/, so this tree is never touched. DIR has one JSON per bug, size and seed,
and the run folders (50 MB each; --discard removes them once they are audited). What is there already is not
done again, so the command goes on where it was stopped. Compiled kernels stay in Warp's cache, where a kernel
that a bug changes has an entry of its own. Small runs have 40 updates of 192 environments, and 32 scenarios
in each half of the panel: one would be allowed, and would show nothing. matrix.py makes tables of the JSONs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from corpus import HERE, SIZES, Bug, corpus, plant
from pyarrow import parquet

SCHEMA_VERSION = 1
SAID = ("--tracker", "none", "--quiet", "--json")
LENGTHS = {
    "small": ("--envs", "192", "--updates", "40", "--evaluate-every", "15", "--scenarios", "32"),
    "quick": ("--envs", "64", "--updates", "7", "--evaluate-every", "3", "--scenarios", "4"),
    "full": (),
}
"""Options of a run. The last update of the short ones is none of the schedule's evaluations, so that it is
scored apart."""
CLEAN = "clean"
VERDICT = (
    "import sys; from surefoot.evidence import judgement; from surefoot.runs import RunFolder, load_result; "
    "print(judgement(load_result(RunFolder.open(sys.argv[1]))).word)"
)
"""Prints the verdict on a run, as the source that it is run with judges."""


@dataclass(frozen=True)
class Job:
    """One bug (None: none) of one size, trained with one seed."""

    bug: Bug | None
    size: str
    seed: int
    task: str = "trot-flat"

    @property
    def name(self) -> str:
        """Returns what its files are called."""
        return f"{self.bug.name if self.bug else CLEAN}.{self.size}.seed{self.seed}"

    @property
    def digest(self) -> str:
        """Returns a digest of what is edited."""
        edits = [asdict(e) for e in self.bug.edits_at(self.size)] if self.bug else []
        return hashlib.sha256(json.dumps(edits).encode()).hexdigest()[:16]


def jobs(args: argparse.Namespace) -> list[Job]:
    """Returns what was asked for."""
    if args.clean:
        return [Job(None, "full", seed, task) for seed in args.seeds for task in args.tasks]
    bugs = corpus()
    unknown = set(args.only or ()) - set(bugs)
    if unknown:
        sys.exit(f"There is no bug {', '.join(sorted(unknown))}; there are: {', '.join(bugs)}.")
    sizes = SIZES if args.size == "all" else (args.size,)
    chosen = [bugs[n] for n in args.only] if args.only else list(bugs.values())
    if not args.only and args.which != "all":
        chosen = [b for b in chosen if b.held_back == (args.which == "held-back")]
    return [Job(b, s, seed, b.task) for s in sizes for b in chosen if s in b.sizes for seed in args.seeds]


def called(src: Path, *words: str, code: str = "", timeout: float) -> tuple[int, str, str, float]:
    """Runs the command line (or `code`) on a source folder; returns exit code, output, errors and seconds."""
    begun = time.perf_counter()
    program = ["-c", code] if code else ["-m", "surefoot"]
    try:
        done = subprocess.run(
            [sys.executable, *program, *words],
            env=os.environ | {"PYTHONPATH": str(src), "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=src.parent,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return 124, "", f"It took more than {timeout:g} s.", time.perf_counter() - begun
    return done.returncode, done.stdout, done.stderr, time.perf_counter() - begun


def trained(job: Job, src: Path, run: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Trains the run folder `run`; returns how that went."""
    options = (*LENGTHS[args.length], *SAID, "--seed", str(job.seed), "--out", str(run))
    code, out, err, seconds = called(src, "train", job.task, *options, timeout=args.timeout)
    if code:
        return {"exit": code, "seconds": seconds, "error": err[-2000:]}
    said = json.loads(out)
    kept = {k: said[k] for k in ("success", "success_low", "fall_rate", "episodes")}
    left = {"verdict": said["judgement"]["verdict"], **kept, "left": traces_left(run)}
    return {"exit": 0, "seconds": seconds, **left}


def traces_left(run: Path) -> dict[str, str]:
    """Returns digests of what a run left, without what is timed: a bug that is live changes one of them,
    since two runs that do the same leave the same."""
    rows = [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]
    timed = ("second", "memory", "chain", "previous", "link")
    ledger = [{k: v for k, v in row.items() if not any(word in k for word in timed)} for row in rows]
    summary = json.loads((run / "run.json").read_text())["confirmation"]
    kept = ("success", "success_low", "fall_rate", "beats_baselines", "figures", "columns", "agreement")
    return {
        "ledger": _digest(ledger),
        "episodes": _digest([_table(p) for p in sorted((run / "episodes").glob("*.parquet"))]),
        "policy": hashlib.sha256((run / "policy.safetensors").read_bytes()).hexdigest()[:16],
        "panels": _digest([_table(p) for p in sorted((run / "panels").rglob("episodes.parquet"))]),
        "summary": _digest({k: summary[k] for k in kept}),
    }


def _table(path: Path) -> dict[str, Any]:
    columns: dict[str, Any] = parquet.read_table(path).to_pydict()
    return columns


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()[:16]


def audited(src: Path, run: Path, timeout: float) -> dict[str, Any]:
    """Audits the run folder `run`; returns what was found. Where the command itself breaks off, its error."""
    code, out, err, seconds = called(src, "audit", str(run), "--json", timeout=timeout)
    try:
        said = json.loads(out)
    except json.JSONDecodeError:
        return {"exit": code, "seconds": seconds, "error": err[-2000:]}
    return {
        "exit": code,
        "seconds": said.get("seconds", seconds),
        "findings": said["findings"],
        "not_applicable": said.get("not_applicable", []),
        "passed": said.get("passed", []),
    }


def verdict(src: Path, run: Path, timeout: float) -> str | None:
    """Returns the verdict on a run as it stands now; None where it cannot be told."""
    code, out, _, _ = called(src, str(run), code=VERDICT, timeout=timeout)
    return out.strip() if code == 0 else None


def done(job: Job, args: argparse.Namespace) -> dict[str, Any]:
    """Trains and audits one job, as far as that was not done before; writes and returns its JSON."""
    out, run = args.out / f"{job.name}.json", args.out / "runs" / job.name / "run"
    before = json.loads(out.read_text()) if out.is_file() else {}
    if (before.get("digest"), before.get("length")) != (job.digest, args.length):
        before = {}
    if before and not args.again:
        return before
    with tempfile.TemporaryDirectory() as folder:
        src = plant(job.bug, job.size, Path(folder) / "src")
        report = before.get("trained")
        if report is None or report["exit"] or not run.is_dir():
            set_aside(run)
            report = trained(job, src, run, args)
        found = None if report["exit"] else audited(src, run, args.timeout)
        after = None if report["exit"] else verdict(src, run, args.timeout)
    bug = job.bug
    result = {
        "schema_version": SCHEMA_VERSION,
        "bug": bug.name if bug else None,
        "size": job.size,
        "seed": job.seed,
        "task": job.task,
        "length": args.length,
        "cause": bug.cause if bug else None,
        "also": list(bug.also) if bug else [],
        "room": bug.room if bug else None,
        "what": bug.what if bug else None,
        "held_back": bug.held_back if bug else False,
        "digest": job.digest,
        "trained": report,
        "audit": found,
        "verdict_after": after,
    }
    out.write_text(json.dumps(result, indent=2) + "\n")
    if args.discard:
        shutil.rmtree(run.parent, ignore_errors=True)
    return result


def set_aside(run: Path) -> None:
    """Moves a run folder that is there already out of the way: of another edit, or not finished."""
    k = 1
    while run.exists():
        aside = run.with_name(f"{run.name}.old{k}")
        if not aside.exists():
            run.rename(aside)
        k += 1


def line(job: Job, result: dict[str, Any]) -> str:
    """Says in a line what came of a job."""
    report, found = result["trained"], result["audit"]
    if report["exit"]:
        last = (report["error"].strip().splitlines() or [""])[-1]
        return f"{job.name}: training broke off ({report['exit']}): {last}"
    says = f"{job.name}: {report['verdict']}, success {report['success']:.1%}"
    if found is None or "findings" not in found:
        return f"{says}; not audited ({(found or {}).get('exit')})"
    named = sorted({f"{f['detector']} ({f['cause']})" for f in found["findings"]})
    return f"{says}; {', '.join(named) or 'nothing found'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=HERE / "out", help="folder of the JSONs and runs")
    parser.add_argument("--only", nargs="+", metavar="BUG", help="these bugs alone")
    parser.add_argument("--which", choices=("open", "held-back", "all"), default="open")
    parser.add_argument("--size", choices=(*SIZES, "all"), default="full")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--clean", action="store_true", help="no bug: false alarms")
    parser.add_argument("--tasks", nargs="+", default=["trot-flat"], help="tasks of --clean")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--full", dest="length", action="store_const", const="full", default="small")
    length.add_argument("--quick", dest="length", action="store_const", const="quick")
    parser.add_argument("--discard", action="store_true", help="remove run folders once they are audited")
    parser.add_argument("--again", action="store_true", help="audit anew what is trained already")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds of a command")
    args = parser.parse_args()
    args.out = args.out.resolve()
    (args.out / "runs").mkdir(parents=True, exist_ok=True)
    todo = jobs(args)
    with ThreadPoolExecutor(args.jobs) as pool:
        for k, (job, result) in enumerate(zip(todo, pool.map(lambda j: done(j, args), todo), strict=True), 1):
            print(f"{k}/{len(todo)}  {line(job, result)}", flush=True)


if __name__ == "__main__":
    main()
