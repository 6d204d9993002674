"""Shells complete commands, options, tasks and runs."""

from __future__ import annotations

import os
import pty
import select
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from places import SOURCE
from surefoot.cli.complete import KNOWN, TASKS, candidates
from surefoot.cli.completion import SCRIPTS
from surefoot.cli.verbs import VERBS
from surefoot.contract import PERTURBATIONS
from surefoot.engines import ENGINES
from surefoot.tasks import task_names
from tiny import surefoot


@pytest.mark.parametrize(
    ("words", "offers"),
    [
        ([""], [*VERBS, "--help", "--version"]),
        (["tra"], ["track", "train"]),
        (["panel", ""], ["--help", "make", "show"]),
        (["panel", "show", "walk-f"], ["walk-flat-v1", "walk-flat-v2"]),
        (["train", "trot"], ["trot-flat"]),
        (["train", "--upd"], ["--updates"]),
        (["train", "trot-flat", "--tracker", "w"], ["wandb"]),
        (["evaluate", "x", "--no-b"], ["--no-baselines"]),
        (["study", "epochs", "--samp"], ["--samples"]),
        (["frobnicate", ""], []),
        (["completion", "f"], ["fish"]),
    ],
)
def test_words_are_completed(words: list[str], offers: list[str]) -> None:
    assert candidates(words) == sorted(offers)


def test_runs_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "other"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    (tmp_path / "runs" / "one" / "run.json").touch()
    monkeypatch.chdir(tmp_path)
    assert candidates(["report", ""]) == ["runs/", "runs/one", "runs/other/"]
    assert candidates(["report", "runs/on"]) == ["runs/one"]
    assert candidates(["train", "--resume", f"{tmp_path}/runs/on"]) == [f"{tmp_path}/runs/one"]
    assert candidates(["report", "nowhere/x"]) == []


def test_the_lists_are_those_of_the_registries() -> None:
    assert set(TASKS) <= set(task_names())
    assert set(KNOWN["engine"]) == {"auto", *ENGINES}
    assert set(KNOWN["perturb"]) | {"curbs", "stones"} == {"all", "none", *(p.name for p in PERTURBATIONS)}


def test_bash_completes(tmp_path: Path) -> None:
    """A real one, at a terminal, with the tab key."""
    program = tmp_path / "surefoot"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{SOURCE}" exec "{sys.executable}" -m surefoot "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    begin = tmp_path / "begin"
    begin.write_text('PS1="ready> "\neval "$(surefoot completion bash)"\n')
    (tmp_path / "runs" / "first").mkdir(parents=True)
    (tmp_path / "runs" / "first" / "run.json").touch()
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TERM": "dumb", "COLUMNS": "200"}
    ours, theirs = pty.openpty()
    bash = subprocess.Popen(
        ["bash", "--noprofile", "--rcfile", str(begin), "-i"],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=tmp_path, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        wait_for(ours, "ready> ")
        for typed, completed in (
            ("surefoot trai", "surefoot train "),
            ("surefoot panel mak", "surefoot panel make "),
            ("surefoot train trot", "surefoot train trot-flat "),
            ("surefoot train --upd", "surefoot train --updates "),
            ("surefoot report runs/fi", "surefoot report runs/first "),
        ):
            os.write(ours, f"{typed}\t".encode())
            wait_for(ours, completed)
            os.write(ours, b"\x15")  # forget the line
    finally:
        bash.kill()
        bash.wait()
        os.close(ours)


def wait_for(terminal: int, text: str, seconds: float = 60) -> None:
    seen, end = "", time.monotonic() + seconds
    while text not in seen:
        assert time.monotonic() < end, seen
        if select.select([terminal], [], [], 0.2)[0]:
            seen += os.read(terminal, 4096).decode(errors="replace")


@pytest.mark.parametrize("shell", SCRIPTS)
def test_every_script_is_one_of_its_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert surefoot("completion", shell) == 0
    script = capsys.readouterr().out
    assert "--complete" in script
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    assert subprocess.run([shell, "-n"], input=script, text=True, capture_output=True).stderr == ""
