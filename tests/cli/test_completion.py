"""Shells complete commands, options, tasks and runs."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import stat
import struct
import subprocess
import sys
import termios
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


BEGINS = {
    "bash": (".bashrc", 'PS1="ready> "\neval "$(surefoot completion bash)"\n'),
    "zsh": (".zshrc", 'PS1="ready> "\neval "$(surefoot completion zsh)"\n'),
    "fish": (
        ".config/fish/config.fish",
        'function fish_prompt; echo -n "ready> "; end\nsurefoot completion fish | source\n',
    ),
}
"""What a user of a shell writes into which file, as the command's help says; and a prompt to wait for."""
ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|\(B)|\r")
"""What a shell writes to colour words and move about."""


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_completes(shell: str, tmp_path: Path) -> None:
    """A real one, at a terminal, with the tab key."""
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    program = tmp_path / "bin" / "surefoot"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{SOURCE}" exec "{sys.executable}" -m surefoot "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    name, text = BEGINS[shell]
    begin = tmp_path / "home" / name
    begin.parent.mkdir(parents=True)
    begin.write_text(text)
    work = tmp_path / "work"
    for run in ("first", "of mine"):
        (work / "runs" / run).mkdir(parents=True)
        (work / "runs" / run / "run.json").touch()
    (work / "my-plan.json").touch()
    homes = {"HOME": tmp_path / "home", "ZDOTDIR": tmp_path / "home"}
    homes |= {f"XDG_{of}_HOME": tmp_path / "home" / f".{of.lower()}" for of in ("CONFIG", "DATA")}
    environment = {**os.environ, **{k: str(v) for k, v in homes.items()}, "COLUMNS": "200"}
    environment |= {"PATH": f"{program.parent}:{os.environ['PATH']}", "TERM": "xterm"}
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(work)
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
        os.execvpe(shell, [shell, "-i"], environment)
    try:
        wait_for(terminal, "ready> ")
        for typed, completed in (
            ("surefoot trai", "train "),
            ("surefoot panel mak", "make "),
            ("surefoot train trot", "trot-flat "),
            ("surefoot train --upd", "--updates "),
            ("surefoot train --config my-p", "my-plan.json "),
            ("surefoot report runs/fi", "runs/first "),
            ("surefoot report runs/of", r"runs/of\ mine "),
            (r"surefoot report runs/of\ mi", r"runs/of\ mine "),
        ):
            os.write(terminal, f"{typed}\t".encode())
            wait_for(terminal, completed)
            os.write(terminal, b"\x15")  # forget the line
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


def wait_for(terminal: int, text: str, seconds: float = 60) -> None:
    seen, end = "", time.monotonic() + seconds
    while text not in ESCAPES.sub("", seen):
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
