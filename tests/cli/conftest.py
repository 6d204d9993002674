"""How commands are tried: in a folder of their own, and refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from refusals import Refused, everything
from tiny import surefoot


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Whatever is written by default would be written here; colours and wrapping are a terminal's."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    return here


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Runs a command that must be refused; gives the sentence."""

    def run(*arguments: str | Path) -> str:
        before = everything(tmp_path)
        code = surefoot(*arguments)
        said = capsys.readouterr()
        assert code == 2, said.err
        assert said.err.startswith("surefoot: ")
        assert said.err.count("\n") == 1, "one sentence, one line"
        assert said.err.endswith((".\n", "?\n"))
        assert "Traceback" not in said.out + said.err
        assert everything(tmp_path) == before, "something was written"
        return said.err

    return run
