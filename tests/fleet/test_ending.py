"""A fleet that was begun from a terminal ends with it: Ctrl-C leaves no process, and a run that is whole."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from places import SOURCE, TESTS
from surefoot.runs import RunFolder, read_ledger

PATIENCE_S = 300


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose name leaves room for that of a socket."""
    folder = Path(tempfile.mkdtemp(prefix="sf", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def processes_of(folder: Path) -> list[str]:
    found = []
    for p in psutil.process_iter():
        try:
            if str(folder) in " ".join(p.cmdline()) or str(folder) in p.environ().get("TMPDIR", ""):
                found.append(f"{p.pid} {p.name()}")
        except psutil.Error:
            continue
    return found


def test_ctrl_c_leaves_no_process_and_a_run_that_is_whole(short: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["train", "tiny:walk", "--actors", "2", "--minutes", "60", "--tracker", "none", "--out", str(run)]
    path = os.pathsep.join(map(str, (SOURCE, TESTS)))
    environment = {**os.environ, "TMPDIR": str(short), "PYTHONPATH": path, "COLUMNS": "200"}
    with (tmp_path / "said").open("w") as said:
        started = subprocess.Popen(
            [sys.executable, "-m", "surefoot", *words],
            env=environment,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            until = time.monotonic() + PATIENCE_S
            while len(_rows(run)) < 2 and started.poll() is None and time.monotonic() < until:
                time.sleep(0.1)
            assert len(processes_of(short)) > 3, "a fleet is at work"
            os.killpg(started.pid, signal.SIGINT)  # as a terminal does, to all of them
            assert started.wait(PATIENCE_S) == 130, (tmp_path / "said").read_text()
            until = time.monotonic() + 30
            while processes_of(short) and time.monotonic() < until:
                time.sleep(0.2)
            assert processes_of(short) == []
        finally:
            if started.poll() is None:
                started.kill()
    assert "Stopped by SIGINT; saved." in (tmp_path / "said").read_text()
    assert list(short.glob("surefoot-ray-*")) == []
    opened = RunFolder.open(run)
    assert opened.record.status == "interrupted"
    there = _rows(run)
    assert [r["update"] for r in there] == list(range(1, len(there) + 1))
    assert opened.load_checkpoint("latest").meta["update"] == len(there)
    used = [json.loads(line) for line in (run / "fleet" / "trained.jsonl").read_text().splitlines()]
    assert len(used) == there[-1]["fleet.trained"] == 2 * len(there)


def _rows(run: Path) -> list[dict[str, int]]:
    ledger = run / "ledger.jsonl"
    return read_ledger(ledger)[0] if ledger.exists() else []
