"""No sentence is broken within a word, however narrow the terminal; commands can be copied as they stand."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from surefoot.contract import SurefootError
from surefoot.printing import continued, make_console, say, say_commands
from surefoot.runs import RunFolder, load_result, typed
from tiny import surefoot

RUN = "my runs/it's $HOME; a:b:c [x]"
"""A name that a shell, rich and a regular expression all have something to say about."""
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def run(tiny_run: Path, elsewhere: Path) -> Path:
    shutil.copytree(tiny_run, elsewhere / RUN)
    return Path(RUN)


def shown(
    width: int,
    words: tuple[str | Path, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> str:
    """What a terminal of this width shows of a command."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes whatever it prints to for a terminal
    surefoot(*words)
    said = capsys.readouterr()
    return ESCAPES.sub("", said.out + said.err)


COMMANDS = (
    ("compare", "RUN", "RUN"),
    ("postmortem", "RUN"),
    ("promote", "RUN", "RUN"),
    ("replay", "RUN", "12"),
    ("report", "RUN"),
    ("tasks",),
    ("engines",),
    ("panel", "show", "walk-rough-v1"),
    ("doctor",),
    ("evaluate", "RUN", "--perturb", "none", "--no-baselines"),
    ("evaluate", "RUN", "--checkpoint", "nothing.safetensors"),
    ("train", "tiny:walk", "--perturb", "hurricane"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_line_ends_within_a_word(
    words: tuple[str, ...], run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tuple(run if w == "RUN" else w for w in words)
    known = set(shown(400, given, monkeypatch, capsys).split())
    for width in (80, 40):
        text = shown(width, given, monkeypatch, capsys)
        lines = [line for line in text.splitlines() if not _of_a_table(line)]
        odd = {w for line in lines for w in line.split() if re.search("[A-Za-z]{3}", w)} - known
        assert {w for w in odd if not re.search(r"\d", w)} == set(), f"at {width} columns"
        long = [line for line in lines if len(line) > width and len(line.split()) > 1]
        assert [line for line in long if max(map(len, line.split())) < width - 12] == []


def _of_a_table(line: str) -> bool:
    """Cells are filled up with blanks to the width of their column."""
    return line.endswith(" ") or "   " in line.strip() or "…" in line


def test_a_pipe_gets_whole_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    say(make_console(), "one sentence of more than twenty characters")
    assert capsys.readouterr().out == "one sentence of more than twenty characters\n"


@pytest.mark.parametrize("width", [30, 40, 80, 400])
def test_a_command_in_several_lines_is_the_same_command(width: int) -> None:
    words = ["surefoot", "evaluate", RUN, "--perturb", 'a"b', "two  blanks", "--half", "all"]
    lines = continued(shlex.join(words), "why", width)
    text = "\n".join(lines)
    assert shlex.split(text.replace("\\\n", " "), comments=True) == words
    assert all(len(line) <= width or len(line) < 12 + len(shlex.quote(RUN)) for line in lines)


def test_what_is_printed_to_be_typed_is_quoted(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a narrow terminal too, and in the sentences of refusals."""
    for width in (400, 60):
        text = shown(width, ("evaluate", run, "--perturb", "none", "--no-baselines"), monkeypatch, capsys)
        following = text.rpartition("Next\n")[2].replace("\\\n", " ")
        commands = [shlex.split(line, comments=True) for line in following.splitlines() if "surefoot" in line]
        assert ["surefoot", "evaluate", str(run), "--half", "all"] in commands
        assert ["surefoot", "train", "--resume", str(run), "--minutes", "5"] in commands
        assert ["surefoot", "serve", "--runs", str(run.parent)] in commands
    with pytest.raises(SurefootError) as refusal:
        load_result(RunFolder.open(run), "all" if not _has_all(run) else "selection", "none such")
    quoted = re.search(r"`(surefoot .*)`", str(refusal.value))
    assert quoted is None or str(run) in shlex.split(quoted[1])
    assert shlex.split(typed("report", run)) == ["surefoot", "report", str(run)]


def _has_all(run: Path) -> bool:
    return any((run / "panels").glob("*/all*"))


def test_colons_are_no_pictures_and_remarks_stay_remarks(capsys: pytest.CaptureFixture[str]) -> None:
    say(make_console(), "runs/:ID:/:smile:")
    say_commands(make_console(), [("surefoot report 'a # b'", "a :smile: # of it")])
    out = capsys.readouterr().out
    assert out == "runs/:ID:/:smile:\n  surefoot report 'a # b'   # a :smile: # of it\n"
