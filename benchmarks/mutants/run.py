"""Trains a small run with each planted bug in the source, audits it with that source, keeps what was found.

    python benchmarks/mutants/run.py --out DIR                     every bug that is not held back, full size
    python benchmarks/mutants/run.py --out DIR --only gamma-wrong --size all
    python benchmarks/mutants/run.py --out DIR --which all --size all --jobs 2
    python benchmarks/mutants/run.py --out DIR --clean --seeds 1 2 3     the same without a bug: false alarms
    python benchmarks/mutants/run.py --out DIR --later             trains, leaves the audits to --again
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
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from corpus import HERE, SIZES, Bug, corpus, plant
from work import STOPPED, load, worked

sys.path.append(str(HERE.parent))  # what all benchmarks share
from machines import commit

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


def unfinished(job: Job, args: argparse.Namespace) -> dict[str, Any] | None:
    """Returns what is known of a job that is still to be done; None where its JSON says all."""
    out = args.out / f"{job.name}.json"
    before: dict[str, Any] = json.loads(out.read_text()) if out.is_file() else {}
    if (before.get("digest"), before.get("length")) != (job.digest, args.length):
        before = {}
    return None if before and not args.again else before


def done(job: Job, args: argparse.Namespace, before: dict[str, Any]) -> None:
    """Trains and audits one job, as far as that was not done `before`, and writes its JSON."""
    run = args.out / "runs" / job.name / "run"
    with tempfile.TemporaryDirectory() as folder:
        src = plant(job.bug, job.size, Path(folder) / "src")
        report = before.get("trained")
        anew = report is None or bool(report["exit"]) or not run.is_dir()
        if anew:
            set_aside(run)
        options = (job.task, *LENGTHS[args.length], *SAID, "--seed", str(job.seed))
        made = worked(src, run, options, args.timeout, train=anew, audit=not args.later)
    report = made["trained"] if anew else report
    assert isinstance(report, dict)
    if report["exit"] in STOPPED or (made.get("audit") or {"exit": 0})["exit"] in STOPPED:
        return
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
        "audit": made.get("audit"),
        "audited_at": commit() if made.get("audit") else None,
        "verdict_before": made.get("verdict_before"),
        "verdict_after": made.get("verdict_after"),
    }
    whole = args.out / f"{job.name}.json.new"
    whole.write_text(json.dumps(result, indent=2) + "\n")
    whole.rename(args.out / f"{job.name}.json")
    if args.discard:
        shutil.rmtree(run.parent, ignore_errors=True)


def all_done(todo: list[Job], args: argparse.Namespace) -> Iterator[Job]:
    """Does jobs, `args.jobs` at a time, each in a process forked from this one; yields them as they end. Each
    works on one core: several jobs' threads would wait for each other, and figures, whose last digits depend
    on the number of threads, are to be the same however many jobs run."""
    waiting, working, fork = list(todo), dict[Any, tuple[Job, int]](), get_context("fork")
    free = list(range(args.jobs))
    while waiting or working:
        while waiting and free:
            job = waiting.pop(0)
            before = unfinished(job, args)
            if before is None:
                yield job
                continue
            place = free.pop(0)
            process = fork.Process(target=_pinned, args=(place, job, args, before))
            process.start()
            working[process.sentinel] = (job, place)
        for sentinel in wait(list(working)):
            job, place = working.pop(sentinel)
            free.append(place)
            yield job


def _pinned(place: int, job: Job, args: argparse.Namespace, before: dict[str, Any]) -> None:
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[place % len(cores)]})
    done(job, args, before)


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
    parser.add_argument("--later", action="store_true", help="train alone; --again audits")
    parser.add_argument("--again", action="store_true", help="audit anew what is trained already")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds of a command")
    args = parser.parse_args()
    args.out = args.out.resolve()
    (args.out / "runs").mkdir(parents=True, exist_ok=True)
    todo = jobs(args)
    load()
    for k, job in enumerate(all_done(todo, args), 1):
        out = args.out / f"{job.name}.json"
        says = line(job, json.loads(out.read_text())) if out.is_file() else f"{job.name}: it broke off"
        print(f"{k}/{len(todo)}  {says}", flush=True)


if __name__ == "__main__":
    main()
