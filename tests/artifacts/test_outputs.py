"""Nothing is written over but what the same command wrote before."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from surefoot.artifacts import check_output
from surefoot.contract import SurefootError
from surefoot.experiments.learners import check_comparison
from surefoot.reporting import write_report
from tiny import surefoot


def digest(folder: Path) -> dict[str, tuple[bytes | str, int]]:
    """Every name in a folder, with what it holds or where it leads."""
    return {
        str(p.relative_to(folder)): (os.readlink(p) if p.is_symlink() else p.read_bytes(), p.lstat().st_mode)
        for p in sorted(folder.rglob("*"))
        if p.is_symlink() or p.is_file()
    }


@pytest.fixture
def here(tiny_run: Path, tmp_path: Path) -> Path:
    """Two runs, and a user's own files beside them."""
    shutil.copytree(tiny_run, tmp_path / "run")
    shutil.copytree(tiny_run, tmp_path / "other")
    (tmp_path / "mine.html").write_text("<!doctype html>\n<html><p>Surefoot 1 report</p></html>")
    (tmp_path / "lab.html").write_text(
        (tmp_path / "run/report.html").read_text().replace(" report</p>", " lab</p>")
    )
    (tmp_path / "empty.html").touch()
    (tmp_path / "thesis.tex").write_text("years of work")
    (tmp_path / "link.html").symlink_to(tmp_path / "run" / "run.json")
    (tmp_path / "page.html").symlink_to(tmp_path / "run" / "report.html")
    (tmp_path / "loop.html").symlink_to(tmp_path / "loop.html")
    (tmp_path / "nowhere.html").symlink_to(tmp_path / "gone" / "x.html")
    os.link(tmp_path / "run" / "run.json", tmp_path / "hard.html")
    (tmp_path / "runs").symlink_to(tmp_path / "run")
    return tmp_path


@pytest.mark.parametrize(
    "out",
    [
        "run/run.json",
        "run/ledger.jsonl",
        "run/policy.safetensors",
        "run/checkpoints/latest.safetensors",
        "run/checkpoints/report.html",
        "run/postmortem.md",
        "run/notes.txt",
        "run/RUN.JSON",
        "run/new.json",
        "run/x/y/z.html",
        "other/run.json",
        "other/report.html",
        "other/new.html",
        "other/../run/run.json",
        "runs/run.json",
        "runs/../run/run.json",
        "mine.html",
        "lab.html",
        "empty.html",
        "thesis.tex",
        "link.html",
        "page.html",
        "loop.html",
        "nowhere.html",
        "hard.html",
        "run",
        "",
        ".",
        "run/run.json/page.html",
        "/dev/null",
        "/dev/stdout",
        "/dev/fd/1",
        "/proc/self/mem",
        "x" * 300 + ".html",
    ],
)
def test_a_report_replaces_nothing_but_a_report(
    here: Path, out: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(here)
    before = digest(here)
    assert surefoot("report", "run", "--out", out) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "Traceback" not in said
    assert any(
        w in said
        for w in (
            "choose another",
            "Choose another",
            "give --out a file name",
            "shorter name",
            "check the path",
        )
    )
    assert digest(here) == before
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize(
    "out", [None, "run/report.html", "run/second.html", "new/page.html", "runs/report.html"]
)
def test_a_report_is_written_where_it_may_and_replaced_by_the_next(
    here: Path, out: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here)
    for _ in range(2):
        path = write_report(["run"], out)
        assert path.read_bytes().startswith(b"<!doctype html>")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.html")
    with pytest.raises(SurefootError, match="link or a device"):
        check_output(tmp_path / "pipe.html", lambda p: bool(p.read_bytes()))


def test_a_name_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SurefootError, match="no file name"):
        check_output(f"{tmp_path}/a\0b")


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    def denied(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "theirs.html").write_text("<p>")
    with pytest.raises(SurefootError, match="Cannot read"):
        check_output(tmp_path / "theirs.html", denied)


@pytest.mark.parametrize(
    "write",
    [
        lambda out: surefoot("panel", "make", "walk-flat-v1", "--out", out),
        lambda out: surefoot("panel", "make", "walk-flat-v1", "--out", out.parent / "link.html"),
        lambda out: surefoot("panel", "make", "walk-flat-v1", "--out", out.parent / "run" / "new.json"),
        lambda out: surefoot("panel", "make", "walk-flat-v1", "--out", out.parent),
        lambda out: surefoot("lab", "tiny:walk", "--quick", "--out", out.parent / "run"),
        lambda out: surefoot("study", "seeds", "tiny:walk", "--out", out.parent / "run"),
        lambda out: surefoot("train", "tiny:walk", "--out", out.parent / "run"),
        lambda out: surefoot("compare-learners", "tiny:walk", "--out", out.parent / "run"),
        lambda out: surefoot("compare-learners", "tiny:walk", "--out", out.parent / "results"),
    ],
)
def test_no_other_output_replaces_anything(here: Path, write: Callable[[Path], int]) -> None:
    (here / "results").mkdir()
    (here / "results" / "comparison.csv").write_text("my,own,figures")
    before = digest(here)
    assert write(here / "thesis.tex") == 2
    assert digest(here) == before


@pytest.mark.parametrize("film", ["holiday.gif", "link.gif", "run/policy.safetensors"])
def test_a_video_replaces_nothing(here: Path, film: str, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "holiday.gif").write_bytes(b"GIF89a")
    (here / "link.gif").symlink_to(here / "holiday.gif")
    before = digest(here)
    assert surefoot("replay", here / "run", "4", "--video", here / film) == 2
    assert "hoose another --video" in " ".join(capsys.readouterr().err.split())
    assert digest(here) == before


def test_a_panel_is_made_again_over_itself(tmp_path: Path) -> None:
    for _ in range(2):
        assert surefoot("panel", "make", "walk-flat-v1", "--out", tmp_path / "panel.json") == 0


def test_a_comparison_s_own_files_are_replaced(tmp_path: Path) -> None:
    check_comparison(tmp_path / "new")
    (tmp_path / "comparison.json").write_text("{}")
    with pytest.raises(SurefootError):
        check_comparison(tmp_path)
