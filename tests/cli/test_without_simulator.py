"""Runs are judged where torch, MuJoCo, Warp and Gymnasium are absent: the same answers, to the byte."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from places import ROOT, SOURCE
from tiny import surefoot

ABSENT = ("torch", "mujoco", "warp", "gymnasium", "mujoco_warp", "tensorboard")
SITE = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {ABSENT}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""
"""What Python runs before anything else in these processes."""
ROOMS = (
    "contract", "artifacts", "statistics", "compute", "trackers", "runs", "evidence", "robots", "terrain",
    "reporting", "cli",
)  # fmt: skip


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a process in which those packages are not there; this one prints as it does."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE)
    for name, value in {"COLUMNS": "200", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (site, SOURCE)))}


@pytest.fixture
def run(tiny_run: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "tiny"
    shutil.copytree(tiny_run, folder)
    return folder


def python(bare: dict[str, str], *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=bare, capture_output=True, text=True, timeout=120)


def test_the_packages_are_really_absent(bare: dict[str, str]) -> None:
    for name in ABSENT:
        assert "ModuleNotFoundError" in python(bare, "-c", f"import {name}.inner").stderr


def test_rooms_of_the_proof_import_no_simulator(bare: dict[str, str]) -> None:
    done = python(bare, "-c", "\n".join(f"import surefoot.{room}" for room in ROOMS))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "RUN", "RUN", "--json"),
        ("compare", "RUN", "RUN", "--column", "push_1.5", "--panel-half", "confirmation"),
        ("postmortem", "RUN", "--json"),
        ("promote", "RUN", "RUN", "--no-fresh", "--json"),
    ],
    ids=lambda command: " ".join(command[:1] + command[3:]),
)
def test_commands_say_the_same(
    bare: dict[str, str], run: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(run) if a == "RUN" else a for a in command]
    code = surefoot(*given)
    expected = capsys.readouterr()
    done = python(bare, "-m", "surefoot", *given)
    assert (done.returncode, done.stdout, done.stderr) == (code, expected.out, expected.err)
    assert done.stdout, "there is an answer"


def replays(page: str) -> dict[str, object]:
    """What the page's player is given."""
    _, _, rest = page.partition('id="replay-data-0"')
    data: dict[str, object] = json.loads(rest.partition(">")[2].partition("</script>")[0])
    return data


def test_the_page_is_the_same_with_its_replay(bare: dict[str, str], run: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "here.html", tmp_path / "there.html"
    assert surefoot("report", run, "--out", here) == 0
    done = python(bare, "-m", "surefoot", "report", run, "--out", there)
    assert done.returncode == 0, done.stderr
    assert there.read_text() == here.read_text()
    shown = replays(there.read_text())
    assert shown["robot"]
    assert shown["episodes"]


def test_the_page_of_an_older_run_says_what_its_replay_needs(
    bare: dict[str, str], run: Path, tmp_path: Path
) -> None:
    (run / "robot.json").unlink()
    page = tmp_path / "page.html"
    assert python(bare, "-m", "surefoot", "report", run, "--out", page).returncode == 0
    text = page.read_text()
    assert "The replay of this older run needs MuJoCo: pip install mujoco." in text
    assert 'data-figure="success"' in text, "everything else is there"


def test_runs_are_served(bare: dict[str, str], run: Path) -> None:
    command = [sys.executable, "-m", "surefoot", "serve", "--runs", str(run.parent), "--port", "0"]
    pipe = subprocess.PIPE
    # Who runs the tests in the background of a shell ignores SIGINT, and would hand that on.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, env=bare, stdout=pipe, stderr=pipe, text=True, preexec_fn=heed) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[0].rstrip("/")
            index, page = (
                urllib.request.urlopen(url + path, timeout=60).read().decode() for path in ("/", "/run/tiny")
            )
            server.send_signal(signal.SIGINT)
            _, errors = server.communicate(timeout=60)
        finally:
            server.kill()
    assert server.returncode == 0, errors
    assert "/run/tiny" in index
    assert replays(page)["episodes"]


def test_statistics_are_there(bare: dict[str, str]) -> None:
    program = (
        "from surefoot.statistics import rate; import numpy as np; print(rate(np.ones(9), np.arange(9)))"
    )
    done = python(bare, "-c", program)
    assert done.returncode == 0, done.stderr
    assert "1.0" in done.stdout


@pytest.mark.parametrize(
    "command",
    [
        ("train", "walk-flat"),
        ("evaluate", "RUN"),
        ("plan", "walk-flat"),
        ("lab",),
        ("track", "RUN"),
        ("tasks",),
        ("engines",),
        ("replay", "RUN", "1"),
    ],
    ids=lambda c: c[0],
)
def test_what_needs_a_simulator_says_so_in_one_sentence(
    bare: dict[str, str], run: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    before = sorted(p for p in tmp_path.rglob("*") if "__pycache__" not in p.parts)
    given = [str(run) if a == "RUN" else a for a in command]
    done = subprocess.run(
        [sys.executable, "-m", "surefoot", *given],
        env=bare, capture_output=True, text=True, cwd=tmp_path, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("surefoot: This command needs ")
    assert done.stderr.endswith("; install all that training needs: pip install surefoot.\n")
    assert done.stderr.count("\n") == 1
    assert sorted(p for p in tmp_path.rglob("*") if "__pycache__" not in p.parts) == before


@pytest.mark.parametrize(
    "command",
    [
        ("--help",),
        ("train", "--help"),
        ("--version",),
        ("completion", "bash"),
        ("panel", "show", "walk-rough-v1"),
    ],
    ids=" ".join,
)
def test_what_needs_no_simulator_works(bare: dict[str, str], command: tuple[str, ...]) -> None:
    done = python(bare, "-m", "surefoot", *command)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_the_doctor_says_what_training_needs(bare: dict[str, str]) -> None:
    done = python(bare, "-m", "surefoot", "doctor", "--json")
    assert (done.returncode, done.stderr) == (1, "")
    said = json.loads(done.stdout)
    missing = {f["name"]: f["fix"] for f in said["findings"] if f["state"] == "missing"}
    assert set(missing) == {"torch", "mujoco", "warp-lang", "gymnasium"}
    assert all("pip install surefoot" in fix for fix in missing.values())
    done = python(bare, "-m", "surefoot", "doctor")
    assert "Training does not work here. torch: not installed; mujoco: not installed; " in done.stdout
    assert "What to do: pip install surefoot." in done.stdout
    assert "Runs can be judged all the same" in done.stdout


def test_the_list_of_requirements_is_part_of_the_whole_one() -> None:
    """With the same lower bounds, and with none of the packages that are absent here."""
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    lines = (ROOT / "requirements-proof.txt").read_text().splitlines()
    needed = [line for line in lines if line and not line.startswith("#")]
    assert set(needed) < set(whole)
    assert not [line for line in needed if line.startswith(ABSENT)]
