"""Help teaches: what every command is for, an example that can be typed, values with names, whole words."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

import pytest

from surefoot import __version__
from surefoot.cli.help import documents, examples, help_text, summary
from surefoot.cli.parser import METAVARS, options_of, parse
from surefoot.cli.verbs import CHAPTERS, VERBS, Group, commands
from tiny import surefoot

GROUPS = [(name,) for name, of in VERBS.items() if isinstance(of, Group)]
PAGES = [(), *GROUPS, *commands()]
FORBIDDEN = (
    r"\bSTR\b", r"\bINT\b", r"\bFLOAT\b", r"\bNone\b", r"\bUnion\b", "options options", r"\[\[", "MISSING",
    r"default: \)", r"default: ''", "dataclass", "tyro", "<class", "subclass",
)  # fmt: skip


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("called", PAGES, ids=" ".join)
def test_no_page_of_help_has_words_of_the_machinery_or_lines_too_long(
    called: tuple[str, ...], width: int
) -> None:
    text = help_text(called, width)
    assert [f for f in FORBIDDEN if re.search(f, text)] == []
    for line in text.splitlines():
        assert len(line) <= width or len(line.split()) == 1, line


@pytest.mark.parametrize("called", PAGES, ids=" ".join)
def test_the_same_words_at_every_width(called: tuple[str, ...]) -> None:
    """Continued commands have a backslash more."""

    def words(width: int) -> list[str]:
        return sorted(w for w in help_text(called, width).split() if w not in ("\\", "#"))

    assert words(40) == words(80) == words(120)


@pytest.mark.parametrize("called", [*commands()], ids=" ".join)
def test_every_command_says_what_it_is_for_and_has_an_example_that_parses(called: tuple[str, ...]) -> None:
    command = commands()[called]
    assert len(summary(command).split()) > 3
    shown = examples(command)
    assert shown
    for typed, _ in shown:
        words = shlex.split(re.sub(r'^eval "\$\((.*)\)"$', r"\1", typed))
        assert tuple(words[: 1 + len(called)]) == ("surefoot", *called)
        parse(command, words[1 + len(called) :], "surefoot")


@pytest.mark.parametrize("called", [*commands()], ids=" ".join)
def test_every_option_is_explained_and_its_value_has_a_name(called: tuple[str, ...]) -> None:
    command = commands()[called]
    said = documents(command)
    for o in options_of(command):
        assert len(said[o.path].split()) >= 2, o.path
        assert o.switch or re.fullmatch(r"[A-Z][A-Z-]*|\{.*\}|True\|False", o.metavar), o.metavar
    page = help_text(called)
    assert all(
        o.metavar in page if o.positional else o.name.replace("_", "-") in page for o in options_of(command)
    )


def test_one_option_is_one_line_of_the_first_page_of_help() -> None:
    page = help_text(())
    for name in VERBS:
        assert re.search(rf"^  {name}\s", page, re.MULTILINE), name
    assert all(chapter in page for chapter in CHAPTERS)
    assert page.index("plan") < page.index("train ") < page.index("report") < page.index("compare")


@dataclass(frozen=True)
class Inner:
    """About all of them."""

    envs: int = 1
    """How many there are."""


@dataclass(frozen=True)
class Inherited(Inner):
    """About these."""

    horizon: int = 2
    """How long they last."""


@dataclass(frozen=True)
class Outer:
    """A command."""

    options: Inherited = Inherited()


def test_options_of_a_parent_class_are_explained_and_read_too() -> None:
    said = documents(Outer)
    assert said["options", "envs"] == "How many there are."
    assert said["options", "horizon"] == "How long they last."
    assert parse(Outer, ["--envs", "3"], "surefoot") == Outer(Inherited(envs=3))


def test_no_name_of_a_value_is_idle() -> None:
    named = {o.name for c in commands().values() for o in options_of(c)}
    assert set(METAVARS) - named <= {"config", "save"}


@pytest.mark.parametrize(
    "called", [("--help",), ("-h",), ("train", "--help"), ("train", "x", "-h"), ("panel", "--help")]
)
def test_help_is_printed_wherever_it_is_asked_for(
    called: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert surefoot(*called) == 0
    assert capsys.readouterr().out.startswith("usage: surefoot")


@pytest.mark.parametrize("called", [(), ("panel",), ("study",)])
def test_a_command_that_is_not_complete_gets_help_and_two(
    called: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert surefoot(*called) == 2
    said = capsys.readouterr()
    assert said.err.startswith("usage: surefoot")
    assert said.out == ""


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert surefoot("--version") == 0
    assert capsys.readouterr().out == f"surefoot {__version__}\n"
