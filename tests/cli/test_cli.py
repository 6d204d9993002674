"""Bad input gets one sentence that says what to do, exit code 2, no traceback, and leaves nothing behind."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from places import SOURCE
from refusals import Refused, everything
from surefoot.contract import SurefootError, load_panel
from surefoot.runs import RunFolder
from tiny import surefoot

SMALL = ("--updates", "1", "--quiet", "--tracker", "none", "--perturb", "none")


@pytest.fixture(autouse=True)
def _elsewhere(elsewhere: Path) -> None:
    """All of these are called in a folder of their own."""


# ---- names


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("train", "walk-flt"), "did you mean 'walk-flat'?"),
        (("plan", "wlak-rough"), "did you mean 'walk-rough'?"),
        (
            ("train", "xyzzy"),
            "choose one of: trot-flat, walk-anymal-flat, walk-anymal-rough, walk-biped-flat, walk-flat, "
            "walk-rough.",
        ),
        (("train", "walk-flat", "--engine", "mujco"), "did you mean 'mujoco'?"),
        (("plan", "walk-flat", "--engine", "brax"), "no engine 'brax'"),
        (("panel", "show", "walk-flat-v3"), "did you mean 'walk-flat-v2'?"),
        (("panel", "make", "walk-rouh-v1"), "did you mean 'walk-rough-v1'?"),
        (("panel", "show", "none.json"), "There is no panel file none.json"),
        (("train", "no.such.module:task"), "is not installed"),
        (("train", "tiny:wlak"), "has no 'wlak'"),
        (("train", "tiny:PANEL"), "must be a surefoot Task"),
        (("train",), "Say what to train"),
    ],
)
def test_unknown_names_get_a_suggestion(refused: Refused, arguments: tuple[str, ...], hint: str) -> None:
    assert hint in refused(*arguments)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("--half", "confirm"), "did you mean 'confirmation'?"),
        (("--half", "xyz"), "choose one of: all, confirmation, selection."),
        (("--panel", "walk-flt-v1"), "did you mean 'walk-flat-v1'?"),
        (("--engine", "mujco"), "did you mean 'mujoco'?"),
        (
            ("--checkpoint", "missing.safetensors"),
            "does not exist; use confirmed, best, latest, a checkpoint",
        ),
        (("--checkpoint", "lates"), "does not exist; use confirmed, best, latest, a checkpoint"),
    ],
)
def test_evaluate_suggests_too(
    refused: Refused, tiny_run: Path, arguments: tuple[str, ...], hint: str
) -> None:
    before = everything(tiny_run)
    assert hint in refused("evaluate", tiny_run, *arguments)
    assert everything(tiny_run) == before


# ---- numbers

OPTIONS = (
    "envs",
    "horizon",
    "minibatches",
    "epochs",
    "control-hz",
    "families",
    "eval-families",
    "evaluate-every",
)


@pytest.mark.parametrize("value", ["0", "-1"])
@pytest.mark.parametrize("option", OPTIONS)
def test_zero_and_negative_sizes_are_refused_by_name(refused: Refused, option: str, value: str) -> None:
    assert f"--{option}" in refused("train", "walk-flat", f"--{option}", value, *SMALL)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("--envs", "100", "--families", "33"), "use --families 25 or 50"),
        (("--envs", "16", "--families", "4", "--minibatches", "7"), "use --minibatches 4 or 8"),
        (("--control-hz", "37"), "use 200, 100, 50, 40 or 25"),
        (("--control-hz", "nan"), "use a positive rate"),
        (("--control-hz", "inf"), "use 200, 100, 50, 40 or 25"),
        (("--eval-families", "1"), "with 2 or more"),
        (("--scenarios", "0"), "1 to 65536 scenarios"),
        (("--seed", "-1"), "use a whole number from 0 to 4294967295"),
        (("--seed", "4294967296"), "use a whole number from 0 to 4294967295"),
        (("--device", "gpu"), "use --device cpu or --device cuda"),
        (("--device", "meta"), "use --device cpu or --device cuda"),
    ],
)
def test_numbers_that_do_not_fit_name_some_that_do(
    refused: Refused, arguments: tuple[str, ...], hint: str
) -> None:
    assert hint in refused("train", "walk-flat", *arguments, *SMALL)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("--updates", "0"), "--updates is 0; use 1 or more"),
        (("--updates", "-3"), "--updates is -3; use 1 or more"),
        (("--minutes", "0"), "--minutes is 0; use a positive number"),
        (("--minutes", "nan"), "use a positive number"),
        (("--until", "2"), "--until is 2; use a success rate above 0 and up to 1"),
        (("--until", "0"), "--until is 0"),
        (("--until", "nan"), "use a success rate"),
    ],
)
def test_limits_that_make_no_sense_are_refused(
    refused: Refused, tiny_run: Path, arguments: tuple[str, ...], hint: str
) -> None:
    assert hint in refused("train", "walk-flat", *arguments)
    assert hint in refused("train", "--resume", tiny_run, *arguments)


def test_correcting_our_own_timeouts_is_refused(refused: Refused) -> None:
    for task in ("tiny:walk", "gym:InvertedPendulum-v5"):
        assert "leave out --timeouts" in refused("train", task, "--timeouts", "corrected", *SMALL)


def test_a_strength_out_of_range_names_the_range_in_its_unit(refused: Refused) -> None:
    for column, hint in (
        ("friction_-1", "goes from 0.01 to 5, not to -1"),
        ("payload_+90kg", "to 50 kg"),
    ):
        arguments = ("--updates", "1", "--quiet", "--tracker", "none", "--perturb", column)
        assert hint in refused("train", "tiny:walk", *arguments)


def test_a_file_that_is_no_panel_is_refused_by_its_field(refused: Refused, tiny_run: Path) -> None:
    assert "is not a panel: field panel: " in refused("evaluate", tiny_run, "--panel", tiny_run / "run.json")


# ---- machine


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_named(refused: Refused) -> None:
    assert "use --device cpu" in refused("train", "walk-flat", "--device", "cuda", *SMALL)


def test_a_cpu_engine_on_a_gpu_is_refused_before_anything_is_written(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("surefoot.compute.warm_up_gpu", lambda device: None)  # there is none
    assert "use --device cpu" in refused(
        "train", "tiny:walk", "--device", "cuda", "--engine", "mujoco", *SMALL
    )


@pytest.mark.parametrize(
    ("tracker", "package"),
    [("tensorboard", "tensorboard"), ("wandb", "surefoot[wandb]"), ("mlflow", "surefoot[mlflow]")],
)
def test_a_tracker_that_cannot_be_imported_is_refused_before_anything_is_written(
    tracker: str, package: str, refused: Refused, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = f"surefoot.trackers.{tracker}"
    for module in [m for m in sys.modules if m.split(".")[0] == tracker or m == ours]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, tracker, None)
    library = ("tiny:walk", "--updates", "1", "--learner", "cleanrl")
    for arguments in (("tiny:walk", "--updates", "1"), library, ("--resume", tiny_run)):
        assert f"pip install '{package}'" in refused("train", *arguments, "--tracker", tracker)
    assert f"pip install '{package}'" in refused("track", tiny_run, "--tracker", tracker)


def test_an_out_below_a_file_is_refused(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert "is a file" in refused("train", "tiny:walk", "--out", tmp_path / "file" / "run", *SMALL)
    refused("train", "tiny:walk", "--out", tmp_path / "file" / "deep" / "run", *SMALL)
    said = refused("train", "tiny:walk", "--out", tmp_path / "file", *SMALL)
    assert "already exists; choose another --out.\n" in said, "there is no run to be resumed"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_out_that_may_not_be_written_is_refused(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    assert "may write to" in refused("train", "tiny:walk", "--out", tmp_path / "locked" / "run", *SMALL)


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "tiny:walk", *SMALL, "--out"),
        ("train", "--resume"),
        ("evaluate",),
        ("report",),
        ("postmortem",),
        ("track",),
        ("serve", "--runs"),
        ("panel", "show"),
        ("replay", "--family", "1"),
        ("compare", "{run}"),
        ("promote", "{run}"),
        ("evaluate", "{run}", "--panel"),
        ("evaluate", "{run}", "--checkpoint"),
        ("report", "{run}", "--out"),
        ("replay", "{run}", "--trace"),
    ],
    ids=" ".join,
)
def test_a_name_that_no_disk_takes_is_refused(
    refused: Refused, tiny_run: Path, arguments: tuple[str, ...]
) -> None:
    said = refused(*(a.format(run=tiny_run) for a in arguments), 300 * "a" + ".json")
    assert "File name too long" in said
    assert "choose a shorter name" in said or "check the path" in said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
@pytest.mark.parametrize("command", [("evaluate",), ("report",), ("train", "--resume"), ("compare", "{run}")])
def test_a_run_that_may_not_be_read_is_refused(
    refused: Refused, tiny_run: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "locked").mkdir(mode=0o000)
    said = refused(*(a.format(run=tiny_run) for a in command), tmp_path / "locked")
    assert "Permission denied): check its permissions" in said


def test_what_the_system_refuses_in_mid_command_is_one_sentence_and_what_is_our_fault_is_not(
    refused: Refused, tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "their/folder")

    monkeypatch.setattr("surefoot.reporting.write_report", denied)
    assert "Cannot use 'their/folder' (Permission denied): check its permissions" in refused(
        "report", tiny_run
    )

    def missing(*_: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "our/own.css")

    monkeypatch.setattr("surefoot.reporting.write_report", missing)
    with pytest.raises(FileNotFoundError):
        surefoot("report", tiny_run)


def test_a_full_disk_is_refused_before_anything_is_written(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "shutil.disk_usage", lambda _: SimpleNamespace(total=10**9, used=10**9 - 5000, free=5000)
    )
    assert "has 5.0 kB free" in refused("train", "tiny:walk", "--out", "run", *SMALL)


# ---- runs and checkpoints


def test_a_run_that_is_not_there_is_refused(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("mine")
    for path, hint in (
        ("nowhere", "There is no run folder"),
        ("empty", "has no run.json"),
        ("file", "no run folder"),
    ):
        assert hint in refused("train", "--resume", tmp_path / path)
        assert hint in refused("evaluate", tmp_path / path)


BROKEN_RECORDS = {
    "cut short": lambda text: text[: len(text) // 2],
    "empty": lambda text: "",
    "a list": lambda text: "[]",
    "not text": lambda text: "\x00\x01",
    "a field too many": lambda text: text.replace("{", '{"mood": "good",', 1),
    "of the future": lambda text: text.replace('"schema_version": 2', '"schema_version": 99'),
    "impossible": lambda text: text.replace('"envs": 16', '"envs": 0'),
}


@pytest.mark.parametrize("how", BROKEN_RECORDS)
def test_a_broken_run_json_is_refused_by_name(
    refused: Refused, tiny_run: Path, tmp_path: Path, how: str
) -> None:
    text = (tiny_run / "run.json").read_text()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text(BROKEN_RECORDS[how](text))
    assert "run.json" in refused("train", "--resume", tmp_path / "run")
    assert "run.json" in refused("evaluate", tmp_path / "run")


def test_a_broken_checkpoint_is_refused_by_name(refused: Refused, tiny_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    latest = run / "checkpoints" / "latest.safetensors"
    whole = latest.read_bytes()
    for broken in (whole[:-100], whole[:4], b"", whole[:-1] + bytes([whole[-1] ^ 1]), b"#!/bin/sh\n"):
        latest.write_bytes(broken)
        assert "latest.safetensors" in refused("train", "--resume", run, "--updates", "9")
        assert "latest.safetensors" in refused("evaluate", run, "--checkpoint", "latest")
    latest.unlink()
    assert "latest.safetensors" in refused("train", "--resume", run, "--updates", "9")


def test_a_file_that_is_not_a_checkpoint_is_refused(refused: Refused, tiny_run: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("my notes")
    assert "not a Surefoot checkpoint" in refused(
        "evaluate", tiny_run, "--checkpoint", tmp_path / "notes.txt"
    )
    assert "Cannot read" in refused("evaluate", tiny_run, "--checkpoint", tmp_path)


def test_a_run_that_did_not_finish_says_which_checkpoints_it_has(
    refused: Refused, tiny_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    (run / "checkpoints" / "confirmed.safetensors").unlink()
    assert "use --checkpoint best or latest" in refused("evaluate", run)
    (run / "checkpoints" / "latest.safetensors").unlink()
    assert "latest.safetensors' does not exist; restore it, or evaluate with --checkpoint best." in refused(
        "evaluate", run, "--checkpoint", "latest"
    )
    (run / "checkpoints" / "best.safetensors").unlink()
    for arguments in (("train", "--resume"), ("evaluate",), ("evaluate", "--checkpoint", "latest")):
        assert "broke off before its first one; train anew" in refused(*arguments, run)


def test_a_corrupt_ledger_is_refused_and_not_cut(refused: Refused, tiny_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    lines = (run / "ledger.jsonl").read_text().splitlines()
    (run / "ledger.jsonl").write_text("\n".join([lines[0], "my notes", *lines[1:]]) + "\n")
    assert "line 2 is not a row" in refused("train", "--resume", run, "--updates", "9")


def test_resume_takes_nothing_but_limits(refused: Refused, tiny_run: Path) -> None:
    for extra in (
        ("--envs", "32"),
        ("--seed", "2"),
        ("--out", "other"),
        ("--device", "cuda"),
        ("--timeouts", "corrected"),
    ):
        assert "give only limits" in refused("train", "--resume", tiny_run, *extra)
    assert "give only limits" in refused("train", "walk-flat", "--resume", tiny_run)


def test_a_panel_that_training_drew_from_is_refused(refused: Refused, tiny_run: Path, tmp_path: Path) -> None:
    from surefoot.contract import dump_panel

    panel = load_panel("walk-flat-v1").with_families(2)
    seeds = panel.seeds.model_copy(
        update={"split": "train", "root": RunFolder.open(tiny_run).record.seeds.root}
    )
    (tmp_path / "leaky.json").write_text(dump_panel(panel.model_copy(update={"seeds": seeds})))
    assert "shares keys with training" in refused("evaluate", tiny_run, "--panel", tmp_path / "leaky.json")


def test_brackets_in_a_path_are_printed_as_they_are(
    refused: Refused, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "[bold]run[/bold]" in refused("evaluate", "[bold]run[/bold]")
    assert "[/red]" in refused("evaluate", "[/red]")
    assert surefoot("train", "tiny:walk", "--out", "[b]run[/x]", "--eval-families", "2", *SMALL) == 0
    said = capsys.readouterr().out
    assert "Run folder: [b]run[/x]" in said
    assert "surefoot evaluate '[b]run[/x]'" in said


# ---- what is said when all is well


@pytest.mark.parametrize(
    ("command", "units"), [("plan", ("Hz", "steps")), ("train", ("Hz", "minutes", "0.95"))]
)
def test_help_names_units(command: str, units: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    surefoot(command, "--help")
    said = capsys.readouterr().out
    assert all(u in said for u in units)


def test_evaluate_json_has_what_comparing_needs(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run, run)
    assert surefoot("evaluate", run, "--half", "all", "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    needed = {
        "panel", "construct_id", "episodes", "effective_episodes", "success", "success_low", "success_high",
        "fall_rate", "velocity_error_mps", "yaw_error_radps", "cost_of_transport", "end_reasons",
        "training_id", "checkpoint", "half", "engine", "schema_version",
    }  # fmt: skip
    assert needed <= summary.keys()
    assert summary["episodes"] == sum(summary["end_reasons"].values()) == 16
    assert 0 <= summary["success_low"] <= summary["success"] <= summary["success_high"] <= 1
    assert summary["construct_id"] == RunFolder.open(run).record.construct_id
    assert summary["half"] == "all"
    kept = json.loads(next((run / "panels" / "tiny-v1").glob("all-confirmed-*/summary.json")).read_text())
    assert kept == summary


def test_train_prints_its_summary_as_json_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    arguments = ("--updates", "1", "--tracker", "none", "--perturb", "none", "--json")
    assert surefoot("train", "tiny:walk", "--out", tmp_path / "run", *arguments) == 0
    out = capsys.readouterr()
    found = json.loads(out.out)
    assert found["run_folder"] == str(tmp_path / "run")
    assert found["episodes"] > 0
    assert "Run folder:" in out.err


def test_lists_are_json_where_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert surefoot("tasks", "--json") == 0
    tasks = json.loads(capsys.readouterr().out)
    assert {"walk-flat", "trot-flat", "walk-rough"} <= tasks.keys()
    assert tasks["trot-flat"]["prior"]
    assert not tasks["walk-flat"]["prior"]
    assert surefoot("panel", "show", "--json") == 0
    panels = {p["name"]: p for p in json.loads(capsys.readouterr().out)}
    assert panels["walk-flat-v1"]["scenarios"] == 512


@pytest.mark.parametrize(
    "arguments", [("tasks",), ("panel", "show"), ("plan", "trot-flat"), ("plan", "walk-rough")]
)
def test_tables_print(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert surefoot(*arguments) == 0
    assert len(capsys.readouterr().out.splitlines()) > 3


# ---- as a program


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    return subprocess.run(
        [sys.executable, "-m", "surefoot", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )


def test_the_program_exits_with_two_and_a_sentence(tmp_path: Path) -> None:
    done = program("train", "walk-flt")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "surefoot: There is no task 'walk-flt'; did you mean 'walk-flat'? There are: "
    )
    assert done.stderr.count("\n") == 1
    assert list((tmp_path / "here").iterdir()) == []


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m surefoot plan walk-flat --json | head -1; exit ${{PIPESTATUS[0]}}"
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_every_error_a_user_can_cause_is_one_kind() -> None:
    assert issubclass(SurefootError, Exception)
    assert not issubclass(SurefootError, ValueError), "pydantic would swallow it"


@pytest.mark.parametrize("mirror", ["True", "False"])
def test_mirroring_is_an_option_of_the_recipe(mirror: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert surefoot("plan", "tiny:walk", "--mirror", mirror, "--json") == 0
    assert str(json.loads(capsys.readouterr().out)["recipe"]["mirror"]) == mirror
