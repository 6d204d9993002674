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
from surefoot.contract import SurefootError
from surefoot.fleet.on_ray.cluster import Cluster
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


@pytest.fixture
def started(short: Path, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A fleet that was begun from a terminal, and has made two updates of the run in tmp_path / "run"."""
    words = ["train", "tiny:walk", "--actors", "2", "--minutes", "60", "--tracker", "none"]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "surefoot", *words, "--out", str(tmp_path / "run")],
            env=environment(short),
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            until = time.monotonic() + PATIENCE_S
            while len(_rows(tmp_path / "run")) < 2 and process.poll() is None and time.monotonic() < until:
                time.sleep(0.1)
            assert len(processes_of(short)) > 3, "a fleet is at work"
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def environment(short: Path) -> dict[str, str]:
    path = os.pathsep.join(map(str, (SOURCE, TESTS)))
    return {**os.environ, "TMPDIR": str(short), "PYTHONPATH": path, "COLUMNS": "200"}


def command(short: Path, *words: str | Path) -> tuple[int, str]:
    """What another terminal says to a command, and its exit code."""
    called = [sys.executable, "-m", "surefoot", *map(str, words)]
    done = subprocess.run(called, env=environment(short), capture_output=True, text=True, timeout=PATIENCE_S)
    return done.returncode, " ".join((done.stdout + done.stderr).removeprefix("surefoot: ").split())


def check_ended(short: Path, tmp_path: Path) -> None:
    """Nothing is left of the fleet but a run that is whole."""
    until = time.monotonic() + 30
    while processes_of(short) and time.monotonic() < until:
        time.sleep(0.2)
    assert processes_of(short) == []
    run = tmp_path / "run"
    assert "Stopped by SIGINT; saved." in (tmp_path / "said").read_text()
    assert list(short.glob("surefoot-ray-*")) == []
    opened = RunFolder.open(run)
    assert opened.record.status == "interrupted"
    there = _rows(run)
    assert [r["update"] for r in there] == list(range(1, len(there) + 1))
    assert opened.load_checkpoint("latest").meta["update"] == len(there)
    used = [json.loads(line) for line in (run / "fleet" / "trained.jsonl").read_text().splitlines()]
    assert len(used) == there[-1]["fleet.trained"] == 2 * len(there)


def test_ctrl_c_leaves_no_process_and_a_run_that_is_whole(
    started: subprocess.Popen[bytes], short: Path, tmp_path: Path
) -> None:
    os.killpg(started.pid, signal.SIGINT)  # as a terminal does, to all of them
    assert started.wait(PATIENCE_S) == 130, (tmp_path / "said").read_text()
    check_ended(short, tmp_path)


def test_another_terminal_sees_a_fleet_and_stops_it(
    started: subprocess.Popen[bytes], short: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    code, said = command(short, "fleet", "status", run, "--json")
    (seen,) = json.loads(said)
    assert code == 0
    assert seen["trains"]
    assert seen["process"]["pid"] == started.pid
    assert [(p["number"], p["actor"]) for p in seen["parts"]] == [(0, 0), (1, 1)]
    assert all(p["fragments"] >= 1 and p["silent_s"] < PATIENCE_S for p in seen["parts"])
    code, said = command(short, "fleet", "stop", run)
    assert code == 0, said
    assert started.wait(PATIENCE_S) == 130
    check_ended(short, tmp_path)
    go_on = f"Continue with: surefoot train --resume {run} --actors 2 --max-lag 1"
    assert said == f"Stopped, after update {len(_rows(run))}. {go_on}"
    assert go_on in " ".join((tmp_path / "said").read_text().split()), "the run itself says the same"
    code, said = command(short, "fleet", "stop", run)
    assert code == 2
    assert said.startswith(f"There is nothing to stop in {run}. Nobody trains it: it was interrupted")


def test_a_ray_that_cannot_start_is_said_in_a_sentence(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = short / ("x" * 100)  # its sockets would have names that no system takes
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with pytest.raises(SurefootError, match=r"^Ray did not start on this machine \(.*; if other work"):
        Cluster(None, 1, 128 << 20)
    assert list(long.iterdir()) == []


def _rows(run: Path) -> list[dict[str, int]]:
    ledger = run / "ledger.jsonl"
    return read_ledger(ledger)[0] if ledger.exists() else []
