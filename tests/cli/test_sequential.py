"""A training that is confirmed in looks: its list grows under way, and all that reads the run follows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from surefoot.statistics import looks
from tiny import surefoot

SIZE = ("--envs", "64", "--families", "8", "--hidden", "32", "--updates", "2")
SAID = ("--sequential", "--perturb", "none", "--quiet", "--tracker", "none")


def test_a_list_that_grew_is_read_by_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # A policy that has hardly begun is found out at the first look: let that one stay open.
    monkeypatch.setattr(looks.Look, "decided", property(lambda look: look.number > 1))
    run = tmp_path / "run"
    assert surefoot("train", "walk-flat", *SIZE, "--scenarios", "80", *SAID, "--out", run) == 0
    record = json.loads((run / "run.json").read_text())
    assert record["confirmation"]["panel"] == "walk-flat-v2+160scenarios"
    assert record["confirmation"]["look"] == 2
    assert (run / "report.html").is_file()
    folder = run / "panels" / record["panel"] / "confirmation"
    assert json.loads((folder / "summary.json").read_text())["episodes"] == 160
    capsys.readouterr()
    for verb in (("verify", run), ("audit", run, "--short"), ("report", run), ("compare", run, run)):
        assert surefoot(*verb) == 0, (verb, capsys.readouterr())
    last = 80 + 160 - 1
    assert surefoot("replay", run, str(last), "--verify") == 0


def test_a_list_too_short_to_grow_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert surefoot("train", "walk-flat", *SIZE, "--scenarios", "4", *SAID, "--out", run) == 2
    assert "use --scenarios 80 or more" in capsys.readouterr().err
    assert not run.exists()
