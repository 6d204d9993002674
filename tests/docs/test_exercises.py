"""Every command of every exercise runs, and prints what stands below it in the text."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from places import ROOT
from tiny import surefoot

sys.path.insert(0, str(ROOT / "docs"))
from capture import WIDTH, Block, blocks

EXERCISES = sorted((ROOT / "docs" / "exercises").glob("*.md"))


def printed(run: Callable[[], object]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        run()
    return out.getvalue()


def in_this_process(command: str) -> str:
    """What a command prints: `surefoot` and scripts here, where everything has been imported, torchrun's
    processes apart."""
    program, *arguments = shlex.split(command)
    if program == "surefoot":
        return printed(lambda: surefoot(*arguments) and pytest.fail(command))
    if program == "python":
        script = str(ROOT / arguments[0])
        with mock.patch.object(sys, "argv", [script, *arguments[1:]]):
            return printed(lambda: runpy.run_path(script, run_name="__main__"))
    assert program == "torchrun", f"a test must say how to run {program}"
    env = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    whole = [sys.executable, "-m", "torch.distributed.run", *arguments]
    done = subprocess.run(whole, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("path", EXERCISES, ids=lambda p: p.stem)
def test_commands_print_what_the_text_shows(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    found = blocks(path.read_text())
    assert found or path.stem == "index"
    for block in found:
        assert block.commands
        assert block.compared(block.text(in_this_process)) == block.compared(block.shown)


def test_every_exercise_has_its_parts_and_is_listed() -> None:
    index = (ROOT / "docs" / "exercises" / "index.md").read_text()
    for path in EXERCISES:
        if path.stem == "index":
            continue
        assert f"({path.name})" in index
        text = path.read_text()
        parts = ["## Question", "## Hint", "## The command", "## Discussion"]
        places = [text.index(part) for part in parts]
        assert places == sorted(places)


def test_a_block_that_was_cut_says_so_and_measured_numbers_are_not_compared() -> None:
    block = Block("keep=two|four measured", "$ count\n")
    shown = block.text(lambda command: "one 1\ntwo 2.5\nthree 3\nfour 4e-3\nfive 5\n")
    assert shown == "$ count\n...\ntwo 2.5\n...\nfour 4e-3\n...\n"
    assert block.compared(shown) == block.compared(shown.replace("2.5", "3,700"))
    assert block.compared(shown) != block.compared(shown.replace("two", "too"))
    exact = Block("", shown)
    assert exact.compared(shown) != exact.compared(shown.replace("2.5", "2.6"))
