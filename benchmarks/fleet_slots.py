"""Experiments side by side on one machine: each slot is some cores that nobody else has.

What runs in a slot is a process of its own, pinned to its cores before it begins; a Ray that it starts has
its own ports and folder, and its processes are pinned as it is. Rows are written when they are
there, so what was interrupted goes on where it was.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import torch

from machines import about, device_name
from surefoot.artifacts import write_json

Row = dict[str, Any]
ROOT = Path(__file__).parent.parent
PINNED = """
import os, sys
os.sched_setaffinity(0, {int(core) for core in sys.argv[1].split(",")})
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""
"""A program that keeps to some cores, with all that it starts, and becomes another one."""
TAIL = 12
"""Lines of a failed process that are kept."""


@dataclass(frozen=True)
class Job:
    """One process, and the row that it makes."""

    name: str
    command: Sequence[str]
    row: Callable[[], Row]
    """Reads what the process has left; called when it has ended well."""
    left: Path
    """The file that it leaves last; what is beside it is of this run alone."""
    limit_s: float = 900.0

    def wanting(self) -> Job:
        """Returns what is left to do: where the process had ended, nothing but to read the row. What was
        broken off is removed."""
        if self.left.is_file():
            return replace(self, command=("-c", "pass"))
        shutil.rmtree(self.left.parent, ignore_errors=True)
        return self


def usable(cores: int) -> list[int]:
    """The cores that this process may use, as many as were asked for (0: all)."""
    there = sorted(os.sched_getaffinity(0))
    if cores > len(there):
        raise SystemExit(f"--cores is {cores}, and this process may use {len(there)}.")
    return there[: cores or len(there)]


def run_all(jobs: Iterable[Job], cores: int, each: int, done: Callable[[Row], None]) -> list[str]:
    """Runs all jobs, `each` cores a job, and gives their rows to `done` as they come; returns what failed,
    a line each."""
    there = usable(cores)
    slots: SimpleQueue[list[int]] = SimpleQueue()
    count = max(1, len(there) // each)
    for k in range(count):
        slots.put(there[k * each : (k + 1) * each])
    failed: list[str] = []
    with ThreadPoolExecutor(count) as pool:
        waiting = {pool.submit(_run, job.wanting(), slots): job for job in jobs}
        for future in as_completed(waiting):
            job = waiting[future]
            try:
                row = future.result()
            except (RuntimeError, subprocess.TimeoutExpired, OSError, KeyError, ValueError) as error:
                failed.append(f"{job.name}: {error}")
                print(failed[-1], flush=True)
                continue
            done(row)
    return failed


def _run(job: Job, slots: SimpleQueue[list[int]]) -> Row:
    slot = slots.get()
    try:
        begun = time.perf_counter()
        folders = [
            str(ROOT / "src"),
            str(Path(__file__).parent),
            *os.environ.get("PYTHONPATH", "").split(":"),
        ]
        env = os.environ | {"PYTHONPATH": ":".join(p for p in folders if p)}
        # Where there is no token yet, every Ray that begins would write one into the same file.
        env |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        print(f"{job.name} begins on cores {slot}", flush=True)
        ended = subprocess.run(
            [sys.executable, "-c", PINNED, ",".join(map(str, slot)), *job.command],
            env=env, cwd=ROOT, capture_output=True, text=True, timeout=job.limit_s, check=False,
        )  # fmt: skip
        if ended.returncode:
            said = (ended.stdout + ended.stderr).strip().splitlines()[-TAIL:]
            raise RuntimeError(f"exit status {ended.returncode}: " + " | ".join(said))
        return job.row() | {"process_seconds": round(time.perf_counter() - begun, 2), "cores": len(slot)}
    finally:
        slots.put(slot)


class Table:
    """The rows of a benchmark in its JSON, each with its day and commit."""

    def __init__(self, path: Path, quick: bool, commit: str | None = None) -> None:
        self.path, self._quick = path, quick
        self._said = about(torch.device("cpu"), quick)
        if commit is not None:
            self._said["commit"] = commit
        there = json.loads(path.read_text()) if path.exists() else {}
        self.rows: list[Row] = there.get("rows", [])
        self.more: Row = {k: v for k, v in there.items() if k not in {*self._said, "rows", "machine"}}

    def has(self, **named: Any) -> bool:
        """Whether there is a row with these fields."""
        return any(all(r.get(k) == v for k, v in named.items()) for r in self.rows)

    def add(self, row: Row) -> None:
        self.rows.append(row | {k: self._said[k] for k in ("commit", "date")})
        self.write()

    def write(self) -> None:
        machine = {"cores": os.cpu_count(), "cpu": device_name(torch.device("cpu"))}
        write_json(self.path, {"machine": machine} | self._said | self.more | {"rows": self.rows})
