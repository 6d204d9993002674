"""What a job costs beside its training, made small: torch, Warp and MuJoCo are imported once, before jobs are
forked; a job imports its own source once, and forks again for training and for the audit, so that neither
knows what the other left in memory.
"""

from __future__ import annotations

import compileall
import contextlib
import gc
import hashlib
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from corpus import SRC
from pyarrow import parquet

OTHERS = ("torch", "warp", "mujoco", "mujoco.rollout", "numpy", "pydantic", "rich", "safetensors.torch")
"""What the source imports and no bug changes."""
OWN = ("cli.main", "cli.train", "cli.audit", "api", "sessions", "audits", "evidence", "printing")
STOPPED = (129, 130, 143, -1, -2, -9, -15)
"""Exit codes of what was stopped from outside: no result."""


def load() -> None:
    """Imports what all jobs share, and compiles the source that they copy."""
    os.environ["OMP_NUM_THREADS"] = "1"  # as the command line sets it before torch: a job has one core
    compileall.compile_dir(SRC, quiet=2)
    for name in OTHERS:
        import_module(name)
    gc.collect()
    gc.freeze()


def worked(
    src: Path, run: Path, options: Sequence[str], timeout: float, *, train: bool, audit: bool
) -> dict[str, Any]:
    """Trains the run folder `run` with `options` (unless that was done), audits it (unless that is for
    later) and judges it, with the source folder `src`; meant for a process of its own. Returns `trained`,
    `audit` and the two verdicts."""
    os.fsync = lambda fd: None  # a power cut costs one job
    os.chdir(src.parent)
    sys.path.insert(0, str(src))
    made: dict[str, Any] = {}
    try:
        for name in OWN:
            import_module(f"surefoot.{name}")
    except Exception:
        return {"trained": {"exit": 1, "seconds": 0.0, "error": traceback.format_exc()[-2000:]}}
    if not str(sys.modules["surefoot"].__file__).startswith(str(src)):
        raise RuntimeError(f"surefoot came from {sys.modules['surefoot'].__file__}, not from {src}.")
    with tempfile.TemporaryDirectory() as folder:
        if train:
            words = ["train", *options, "--out", str(run)]
            code, out, err, seconds = forked(lambda: command(words), Path(folder), timeout)
            made["trained"] = _trained(run, code, out, err, seconds)
            if code or not audit:
                return made
        code, out, err, seconds = forked(
            lambda: command(["audit", str(run), "--json"]), Path(folder), timeout
        )
        made["audit"] = _audited(code, out, err, seconds)
        code, out, _, _ = forked(lambda: judge(run), Path(folder), timeout)
        made["verdict_before"], made["verdict_after"] = json.loads(out) if code == 0 else (None, None)
    return made


def forked(work: Callable[[], None], folder: Path, timeout: float) -> tuple[int, str, str, float]:
    """Does `work` in a fork of this process; returns exit code, output, errors and seconds."""
    out, err, begun = folder / "out", folder / "err", time.perf_counter()
    process = get_context("fork").Process(target=_told, args=(work, out, err))
    process.start()
    process.join(timeout)
    code = process.exitcode
    if code is None:
        process.kill()
        process.join()
        return 124, "", f"It took more than {timeout:g} s.", time.perf_counter() - begun
    return code, out.read_text(), err.read_text(), time.perf_counter() - begun


def _told(work: Callable[[], None], out: Path, err: Path) -> None:
    """Does `work`, which writes to the files `out` and `err`."""
    for number, path in ((1, out), (2, err)):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    try:
        work()
    finally:
        sys.stdout.flush()


def command(words: Sequence[str]) -> None:
    """Runs the command line of the source that this process has imported."""
    import_module("surefoot.cli.main").main(words)


def judge(run: Path) -> None:
    """Prints the verdict on a run without what an audit found, and with it, as the source judges."""
    evidence, runs = import_module("surefoot.evidence"), import_module("surefoot.runs")
    judged = evidence.judgement(runs.load_result(runs.RunFolder.open(run)))
    alone = replace(judged, faults=tuple(f for f in judged.faults if f.check != "audit"))
    print(json.dumps([alone.word, judged.word]))


def _trained(run: Path, code: int, out: str, err: str, seconds: float) -> dict[str, Any]:
    """Says how training went."""
    if code:
        return {"exit": code, "seconds": seconds, "error": err[-2000:]}
    said = json.loads(out)
    kept = {k: said[k] for k in ("success", "success_low", "fall_rate", "episodes")}
    return {
        "exit": 0,
        "seconds": seconds,
        "verdict": said["judgement"]["verdict"],
        **kept,
        "left": traces_left(run),
    }


def _audited(code: int, out: str, err: str, seconds: float) -> dict[str, Any]:
    """Says what an audit found; where the command itself breaks off, its error."""
    with contextlib.suppress(json.JSONDecodeError):
        said = json.loads(out)
        kept = ("not_applicable", "passed", "failed", "exempt")
        return {
            "exit": code,
            "seconds": said.get("seconds", seconds),
            "findings": said["findings"],
            **{k: said.get(k, []) for k in kept},
        }
    return {"exit": code, "seconds": seconds, "error": err[-2000:]}


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
