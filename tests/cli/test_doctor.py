"""The doctor says what is here, what is missing, what to type, and whether training works."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from places import ROOT
from refusals import everything
from surefoot.cli.doctor import EXTRAS, NEEDED
from tiny import surefoot


def examined(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, dict[str, dict[str, str]]]:
    capsys.readouterr()
    code = surefoot("doctor", *words, "--json")
    said = json.loads(capsys.readouterr().out)
    assert said["training_works"] == (code == 0)
    return code, {f["name"]: f for f in said["findings"]}


def test_training_works_here_and_nothing_is_written(
    elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = examined(capsys)
    assert code == 0
    assert everything(elsewhere) == {}
    assert {"surefoot", "python", "cores", "gpu", "kernel cache", "runs", *NEEDED} <= found.keys()
    assert all(found[name]["state"] == "ok" for name in NEEDED)
    assert surefoot("doctor") == 0
    assert "Training works here." in capsys.readouterr().out


@pytest.mark.parametrize("package", NEEDED)
def test_what_is_missing_is_named_with_what_to_type(
    package: str, elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = NEEDED[package]
    for name in [m for m in sys.modules if m.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    code, found = examined(capsys)
    assert code == 1
    assert found[package]["state"] == "missing"
    assert "pip install surefoot" in found[package]["fix"]


def test_a_package_that_breaks_when_imported_is_missing_too(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (elsewhere / "gymnasium.py").write_text("raise OSError('libfoo.so: cannot open shared object file')")
    for name in [m for m in sys.modules if m.split(".")[0] == "gymnasium"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(elsewhere))
    code, found = examined(capsys)
    assert code == 1
    assert "libfoo.so" in found["gymnasium"]["found"]


def test_a_folder_that_cannot_be_written_and_a_full_disk_are_told(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (elsewhere / "file").touch()
    assert examined(capsys, "--runs", elsewhere / "file" / "runs")[1]["runs"]["state"] == "missing"
    if os.geteuid() != 0:
        (elsewhere / "locked").mkdir(mode=0o500)
        code, found = examined(capsys, "--runs", elsewhere / "locked" / "runs")
        assert (code, found["runs"]["state"]) == (1, "missing")
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=5000))
    assert "make room" in examined(capsys)[1]["runs"]["fix"]


def test_every_extra_is_one_of_the_package() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(declared) - {"dev", "docs", "learners", "gym-mujoco"}
