"""`surefoot fleet` reads what a fleet left, and refuses to stop what it cannot. (That it stops one that
trains: tests/fleet/test_ending.py.)"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleet_made import made_fleet, with_columns
from places import SOURCE
from surefoot.fleet import fleet_status
from surefoot.runs import RunFolder, lock_holder, typed_resume
from surefoot.runs.lock import LOCK
from tiny import surefoot

Captured = pytest.CaptureFixture[str]

HOLDING = """
import sys
from pathlib import Path
from surefoot.runs.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def run(tiny_run: Path, tmp_path: Path) -> Path:
    return made_fleet(tiny_run, tmp_path / "runs" / "one")


@contextmanager
def held(run: Path) -> Iterator[int]:
    """A process that holds the lock of a run, as one that trains does."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(run)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder.pid
    finally:
        holder.communicate("")
        assert holder.returncode == 0, "it was not disturbed"


def said(capsys: Captured) -> str:
    out = capsys.readouterr()
    return " ".join((out.out + out.err).removeprefix("surefoot: ").split())


def test_status_of_a_run_that_has_ended(run: Path, capsys: Captured) -> None:
    assert surefoot("fleet", "status", run) == 1
    shown = said(capsys)
    assert f"{run}: Nobody trains it: it is finished, after update 6." in shown
    assert "Lag 1.0 versions (most 1); the learner is at work 25% of the time; actors replaced: 1" in shown
    assert "16 asked for = 12 learned from + 3 dropped + 1 lost + 0 open" in shown


def test_status_names_actors_by_their_newest_incarnation(run: Path, capsys: Captured) -> None:
    os.utime(run / "fleet" / "actor-0001-000002.jsonl", (1e9, 1e9))
    assert surefoot("fleet", "status", run, "--json") == 1
    (shown,) = json.loads(capsys.readouterr().out)
    assert not shown["trains"]
    assert shown["process"] is None
    first, second = shown["parts"]
    assert (first["incarnation"], first["fragments"], first["rate"], first["lag"]) == (0, 9, 100.0, 1)
    assert (second["incarnation"], second["fragments"], second["rate"], second["lag"]) == (2, 4, 200.0, 1)
    assert first["silent_s"] < 600 < second["silent_s"]
    assert shown["ledger"]["fleet.issued"] == 16


def test_status_of_a_run_that_is_trained(run: Path, capsys: Captured) -> None:
    with held(run) as pid:
        assert surefoot("fleet", "status", run) == 0
    shown = said(capsys)
    assert f"2 actors collect for process {pid} on " in shown
    assert "(asynchronous, at most 1 versions old, local inference); update 6." in shown


def test_status_of_all_runs_in_a_folder(run: Path, tiny_run: Path, capsys: Captured) -> None:
    shutil.copytree(tiny_run, run.parent / "alone")
    made_fleet(tiny_run, run.parent / "other", actors=4)
    assert surefoot("fleet", "status", run.parent, "--json") == 1
    shown = json.loads(capsys.readouterr().out)
    assert {Path(r["run"]).name: r["actors"] for r in shown} == {"one": 2, "other": 4}


def test_status_of_a_fleet_whose_actors_come_and_go(run: Path, capsys: Captured) -> None:
    came = {"fleet.parts": 2, "fleet.actors": 1, "fleet.actor.by_part": [7, 7]}
    with_columns(run, {**came, "fleet.joined": 3, "fleet.left": 4})
    with held(run) as pid:
        assert surefoot("fleet", "status", run, "--json") == 0
        (shown,) = json.loads(capsys.readouterr().out)
        assert shown["actors"] == 1
        assert [(p["number"], p["actor"]) for p in shown["parts"]] == [(0, 7), (1, 7)]
        assert surefoot("fleet", "status", run) == 0
    shown = said(capsys)
    assert f"1 actors, with 2 parts, collect for process {pid} on " in shown
    assert "actors that joined: 3, that left: 4; " in shown


def test_a_fleet_that_has_made_no_update_yet(run: Path, capsys: Captured) -> None:
    (run / "ledger.jsonl").write_text("")
    (run / "fleet" / "trained.jsonl").unlink()
    with held(run):
        assert surefoot("fleet", "status", run) == 0
    assert "No update has been made with them yet." in said(capsys)


def test_what_no_fleet_collected_for_is_refused(tiny_run: Path, tmp_path: Path, capsys: Captured) -> None:
    for verb in ("status", "stop"):
        assert surefoot("fleet", verb, tiny_run) == 2
        assert f"No fleet has collected for {tiny_run}" in said(capsys)
    assert surefoot("fleet", "status", tmp_path) == 2
    assert f"No fleet has collected for a run in {tmp_path}" in said(capsys)
    assert surefoot("fleet", "status", tmp_path / "nowhere") == 2
    assert f"There is no folder {tmp_path / 'nowhere'}" in said(capsys)


def test_where_nothing_runs_there_is_nothing_to_stop(run: Path, capsys: Captured) -> None:
    assert surefoot("fleet", "stop", run) == 2
    assert (
        said(capsys)
        == f"There is nothing to stop in {run}. Nobody trains it: it is finished, after update 6."
    )
    RunFolder.open(run).write_record(status="running")
    assert surefoot("fleet", "stop", run) == 2
    shown = said(capsys)
    assert "it broke off, after update 6." in shown
    assert f"Continue with: surefoot train --resume {run} --actors 2 --max-lag 1" in shown


def test_a_process_that_is_not_the_holder_is_never_told_to_stop(run: Path, capsys: Captured) -> None:
    """What the lock's file says is for people; here it names this very process, which does not hold it."""
    with held(run) as pid:
        assert fleet_status(run).trains
        holder = lock_holder(run)
        assert holder is not None
        assert holder.pid == pid
        assert holder.has_open(run)
        there = json.loads((run / LOCK).read_text())
        (run / LOCK).write_text(json.dumps(there | {"pid": os.getpid()}))
        assert surefoot("fleet", "stop", run) == 2
        assert f"this user cannot see that process {os.getpid()} is who uses it" in said(capsys)
        (run / LOCK).write_text(json.dumps(there | {"host": "elsewhere"}))
        assert surefoot("fleet", "stop", run) == 2
        assert f"is trained by process {pid} on elsewhere; stop it on that machine." in said(capsys)


def test_a_run_that_goes_on_without_a_fleet_is_not_stopped_here(
    run: Path, tiny_run: Path, capsys: Captured
) -> None:
    shutil.copy(tiny_run / "ledger.jsonl", run / "ledger.jsonl")
    with held(run) as pid:
        assert surefoot("fleet", "status", run) == 1
        assert "without a fleet; update 6." in said(capsys)
        assert surefoot("fleet", "stop", run) == 2
        assert f"stop process {pid} with Ctrl-C." in said(capsys)


def test_patience_is_a_number_of_seconds(run: Path, capsys: Captured) -> None:
    assert surefoot("fleet", "stop", run, "--patience-s", "-1") == 2
    assert "--patience-s is -1; use seconds, 0 or more." in said(capsys)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("synchronous, local inference", "--actors 2 --sync"),
        ("asynchronous, at most 4 versions old, central inference", "--max-lag 4 --inference central"),
    ],
)
def test_how_to_go_on_names_the_fleet(run: Path, capsys: Captured, how: str, words: str) -> None:
    opened = RunFolder.open(run)
    opened.write_record(status="interrupted", versions=opened.record.versions | {"fleet": how})
    assert surefoot("fleet", "stop", run) == 2
    assert words in said(capsys)
    assert words in typed_resume(opened, "--minutes", 5)
