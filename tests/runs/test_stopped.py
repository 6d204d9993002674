"""What a run was confirmed with stays until there is another confirmation, whatever ends a process; and what
it leaves behind says so."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from processes import Processes, rows_in, wait_for
from surefoot.runs import RunFolder, caveat, is_alive, load_result, save_checkpoint, time_parts
from surefoot.runs.confirming import READY, STAGED
from surefoot.runs.folder import RESERVE
from surefoot.runs.lock import LOCK
from tiny import surefoot

KEPT = ("checkpoints/confirmed.safetensors", "policy.safetensors", "panels/tiny-v1/confirmation/summary.json",
        "panels/tiny-v1/confirmation/episodes.parquet")  # fmt: skip
CLOSE = ("--tracker", "none", "--perturb", "none")


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    made = Processes(tmp_path_factory.mktemp("processes") / "log")
    yield made
    made.close()


@pytest.fixture
def run(tiny_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(tiny_run, tmp_path / "run")
    return tmp_path / "run"


def kept(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in KEPT}


def until(true: Any, what: str) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.002)


def test_an_interrupted_resume_keeps_what_was_confirmed_and_says_so(
    processes: Processes, run: Path, tiny_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, confirmed = kept(run), RunFolder.open(run).record
    child = processes.start("train", "--resume", run, "--updates", "100000", *CLOSE)
    wait_for(run, 8)
    assert is_alive(run)
    assert "is under way at update" in caveat(RunFolder.open(run))
    os.kill(child, signal.SIGHUP)  # the terminal is gone
    assert processes.wait() == 129
    assert not is_alive(run)
    stopped = RunFolder.open(run)
    assert (stopped.record.status, stopped.record.confirmation) == ("interrupted", confirmed.confirmation)
    assert kept(run) == before
    stopped.load_checkpoint("confirmed")
    at = rows_in(run)
    said = (
        f"The evidence is of update {confirmed.figures['chosen_update']}; training was resumed and stands at "
    )
    assert caveat(stopped) == caveat(stopped.record) == f"{said}update {at}, unconfirmed."
    # nobody states a verdict without it
    assert load_result(stopped).caveat == caveat(stopped)
    capsys.readouterr()
    assert surefoot("compare", tiny_run, run, "--json") == 0
    [compared] = json.loads(capsys.readouterr().out)
    assert (compared["a_caveat"], compared["b_caveat"]) == ("", caveat(stopped))
    assert surefoot("compare", tiny_run, run) == 0
    assert "training was resumed" in capsys.readouterr().out
    assert surefoot("promote", run, tiny_run, "--json") == 3
    promoted = json.loads(capsys.readouterr().out)
    assert (promoted["candidate_caveat"], promoted["baseline_caveat"]) == (caveat(stopped), "")
    assert surefoot("promote", run, tiny_run, "--no-fresh") == 3
    shown = " ".join(capsys.readouterr().out.split())
    assert f"INVALID: {caveat(stopped)}" in shown
    assert surefoot("promote", tiny_run, run, "--json") == 3
    assert json.loads(capsys.readouterr().out)["baseline_caveat"] == caveat(stopped)
    # and when it has run to its end, there is another confirmation and nothing to say
    begun = time.monotonic()
    processes.start("train", "--resume", run, "--updates", str(at + 1), *CLOSE)
    assert processes.wait() == 0
    spent = time.monotonic() - begun
    after = time.time() - (run / "run.json").stat().st_mtime  # the audit, the page, leaving
    done = RunFolder.open(run)
    assert (done.record.status, caveat(done)) == ("finished", "")
    assert done.record.confirmed_after == at + 1
    assert done.load_checkpoint("confirmed").meta["update"] == done.record.confirmed_update
    assert kept(run) != before
    now, then = time_parts(done.record), time_parts(stopped.record)
    assert now.total is not None
    assert then.total is not None
    assert spent - after - 3 < now.total - then.total <= spent, (
        "the wall-clock is what a clock on the wall says"
    )


def test_a_second_process_is_refused_and_a_killed_one_leaves_no_lock(
    processes: Processes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    child = processes.start("train", "tiny:walk", "--out", folder, "--quiet", "--updates", "100000", *CLOSE)
    wait_for(folder, 1)
    assert surefoot("train", "--resume", folder, "--updates", "3", *CLOSE) == 2
    assert f"{folder} is in use by process {child} on " in " ".join(capsys.readouterr().err.split())
    assert is_alive(folder)
    os.kill(child, signal.SIGKILL)
    assert processes.wait() == -signal.SIGKILL
    assert (folder / LOCK).exists()
    broken = RunFolder.open(folder)
    assert (broken.record.status, is_alive(folder)) == ("running", False)
    assert caveat(broken).startswith("Training broke off at update ")
    rows = rows_in(folder)
    assert surefoot("train", "--resume", folder, "--updates", str(rows + 1), *CLOSE) == 0
    assert not (folder / LOCK).exists()
    assert not (folder / RESERVE).exists()


@pytest.mark.parametrize(
    ("kind", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_in_the_closing_evaluation_leaves_it_to_be_confirmed(
    kind: signal.Signals, code: int, processes: Processes, tmp_path: Path
) -> None:
    folder = tmp_path / "a run"
    arguments = ("--out", folder, "--quiet", "--updates", "1", "--tracker", "none")
    child = processes.start("train", "tiny:walk", *arguments)
    until((folder / STAGED / "policy.safetensors").exists, "nothing was confirmed")
    os.kill(child, kind)
    assert processes.wait() == code
    run, said = RunFolder.open(folder), processes.log.read_text()
    assert f"Stopped by {kind.name} in the closing evaluation; training is saved" in said
    assert f"Confirm it with: surefoot train --resume '{folder}'" in said
    assert "Traceback" not in said
    assert (run.record.status, run.record.confirmation) == ("unconfirmed", None)
    assert caveat(run) == "Training ended at update 1; its result is not confirmed yet."
    assert not (folder / STAGED).exists()
    ledger = run.ledger.path.read_bytes()
    assert surefoot("train", "--resume", folder, *CLOSE) == 0
    record = RunFolder.open(folder).record
    assert record.status == "finished"
    assert record.confirmation is not None
    assert run.ledger.path.read_bytes() == ledger, "nothing was trained"


def test_who_ignores_hangups_goes_on(processes: Processes, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    arguments = ("--out", folder, "--quiet", "--updates", "100000", *CLOSE)
    child = processes.start("nohup", "train", "tiny:walk", *arguments)
    wait_for(folder, 1)
    os.kill(child, signal.SIGHUP)
    wait_for(folder, rows_in(folder) + 2)
    os.kill(child, signal.SIGTERM)
    assert processes.wait() == 143


# ---- one set or the other


class Killed(BaseException):
    """Stands for the end of the process."""


def test_a_kill_at_any_point_of_a_confirmation_leaves_one_set_or_the_other(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every rename and removal on the way is made the last thing that the process does."""
    seen = set()
    for k in range(100):
        folder = tmp_path / f"run{k}"
        shutil.copytree(tiny_run, folder)
        run = RunFolder.open(folder)
        old = kept(folder)
        latest = run.load_checkpoint("latest")
        save_checkpoint(run.checkpoint_path("latest"), latest.tensors, latest.meta | {"update": 7})
        staged = run.stage("latest")
        shutil.copytree(folder / "panels", staged / "panels", ignore=shutil.ignore_patterns("selection*"))
        panel = staged / "panels" / "tiny-v1" / "confirmation"
        digest = run.load_checkpoint("latest").digest
        assert run.record.confirmation is not None
        summary = run.record.confirmation.model_copy(update={"checkpoint": digest, "success": 0.5})
        (panel / "summary.json").write_text(summary.model_dump_json())
        (staged / "policy.safetensors").write_bytes(b"new")
        left = [k]

        def dies(name: str, module: Any, left: list[int] = left) -> None:
            real = getattr(module, name)

            def dying(*arguments: Any, **options: Any) -> Any:
                left[0] -= 1
                if left[0] == 0:
                    raise Killed
                return real(*arguments, **options)

            patch.setattr(module, name, dying)

        with monkeypatch.context() as patch:
            for name, module in (("replace", os), ("rename", os), ("unlink", os), ("rmdir", os)):
                dies(name, module)
            try:
                run.commit(confirmation=summary, confirmed_update=7, confirmed_after=7)
                killed = False
            except Killed:
                killed = True
        for _ in range(2):  # whoever opens it first, and whoever comes next
            opened = RunFolder.open(folder)
            assert opened.record.confirmation is not None
            new = opened.record.confirmation.checkpoint == digest
            now = kept(folder)
            assert load_result_digest(opened) == opened.record.confirmation.checkpoint
            assert (now["policy.safetensors"] == b"new") == new
            assert new or now == old
            opened.load_checkpoint("confirmed")  # which is the one that run.json states its result on
            assert not (folder / READY).exists()
        seen.add(new)
        if not killed and k:
            break
    assert seen == {True, False}
    assert k > 5


def load_result_digest(run: RunFolder) -> str:
    path = run.path / "panels" / "tiny-v1" / "confirmation" / "summary.json"
    return str(json.loads(path.read_text())["checkpoint"])


# ---- a full disk


def test_a_full_disk_leaves_failed_or_unconfirmed_and_the_run_goes_on(tmp_path: Path) -> None:
    """On a real file system of its own, which is filled as the run trains, and again as it is confirmed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounting = f"mount -t tmpfs -o size=230m tmpfs '{disk}' && exec \"$@\""
    prefix = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mounting, "sh"]
    if subprocess.run([*prefix, "true"], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    processes = Processes(tmp_path / "log", prefix)
    try:
        seen = Path(f"/proc/{processes.parent.pid}/root{disk}")
        folder, inside = seen / "run", disk / "run"

        def fill() -> None:
            with open(seen / "filler", "ab", buffering=0) as file, suppress(OSError):
                while file.write(bytes(1 << 16)):
                    pass

        arguments = ("--out", inside, "--quiet", "--updates", "100000", *CLOSE)
        processes.start("train", "tiny:walk", *arguments)
        wait_for(folder, 2)
        fill()
        assert processes.wait() == 2
        record = RunFolder.open(folder).record
        assert record.status == "failed"
        assert record.error is not None
        assert "No space left on device" in record.error
        assert f"{inside} is marked failed" in processes.log.read_text()
        (seen / "filler").unlink()
        rows = rows_in(folder) + 1
        processes.start("train", "--resume", inside, "--updates", str(rows), "--tracker", "none")
        until((folder / STAGED / "policy.safetensors").exists, "nothing was confirmed")
        fill()
        assert processes.wait() == 2
        record = RunFolder.open(folder).record
        assert (record.status, record.confirmation, record.figures["updates"]) == ("unconfirmed", None, rows)
        assert f"Confirm it with: surefoot train --resume {inside}" in processes.log.read_text()
        (seen / "filler").unlink()
        processes.start("train", "--resume", inside, *CLOSE)
        assert processes.wait() == 0
        record = RunFolder.open(folder).record
        assert (record.status, record.error) == ("finished", None)
        assert len(RunFolder.open(folder).ledger.rows()) == rows
    finally:
        processes.close()
