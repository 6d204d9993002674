"""What trackers were shown, read back from their own files, is the ledger: all of it, and nothing else."""

from __future__ import annotations

import importlib.util
import json
import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray

from places import GOLDEN
from surefoot.artifacts import JsonLines
from surefoot.runs import RunFolder, load_audit, read_ledger
from surefoot.trackers import TRACKERS, FailSafeTracker, NullTracker, make_tracker
from tiny import surefoot

NAMES = [name for name in TRACKERS if name != "none"]
CONFIG = {"id": "run", "created": "2026-01-01T00:00:00+00:00", "task": "walk", "recipe": {"envs": 16}}
Shown = dict[tuple[int, str], list[float | str]]
"""What was shown at which step (samples) under which name: one value, unless something is wrong."""


@pytest.fixture(autouse=True)
def local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture(params=NAMES)
def tracker(request: pytest.FixtureRequest) -> str:
    """Each of them; skipped where it is not installed. `make test` installs them all."""
    name: str = request.param
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    return name


def expected(rows: list[dict[str, Any]]) -> Shown:
    """Every number and word of a ledger, by the names that docs/guides/training.md promises; its chain is of
    the file, not of the run."""
    shown: Shown = {}
    for row in rows:
        for key, value in ((k, v) for k, v in row.items() if k != "chain"):
            group, _, rest = key.partition(".")
            name = f"{group}/{rest}" if rest else f"learner/{key}"
            parts = {"": value}
            if isinstance(value, list):
                parts = {f"/{k}": v for k, v in enumerate(value)}
            elif isinstance(value, dict):
                parts = {f"/{k}": v for k, v in value.items()}
            for end, v in parts.items():
                assert isinstance(v, int | float | str | None), f"{key} is nested deeper than this test looks"
                if v is not None:
                    shown[row["samples"], name + end] = [v]
    return shown


def audited(folder: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is shown of an audit, where there is one of what was confirmed."""
    audit = load_audit(folder)
    if audit is None:
        return []
    assert not audit.findings, "these runs are honest"
    counts = {"audit.proof": 0, "audit.behaviour": 0, "audit.passed": len(audit.passed)}
    return [{"samples": rows[-1]["samples"], "audit.says": audit.says, **counts, "audit.failed": 0}]


def shown_by(tracker: str, folder: Path) -> Shown:
    read = {"tensorboard": from_tensorboard, "wandb": from_wandb, "mlflow": from_mlflow}[tracker]
    found: Shown = {}
    for step, name, value in read(folder / tracker):
        found.setdefault((step, name), []).append(value)
    return found


def from_tensorboard(folder: Path) -> Iterator[tuple[int, str, float | str]]:
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0}).Reload()
    for name in events.Tags()["scalars"]:
        yield from ((e.step, name, e.value) for e in events.Scalars(name))
    for name in events.Tags()["tensors"]:
        for e in events.Tensors(name):
            yield e.step, name.removesuffix("/text_summary"), make_ndarray(e.tensor_proto).item().decode()


def from_wandb(folder: Path) -> Iterator[tuple[int, str, float | str]]:
    from wandb.proto.wandb_internal_pb2 import Record

    (file,) = folder.glob("offline-run-*/*.wandb")
    records: list[Any] = []
    deadline = time.monotonic() + 30
    while not any(r.HasField("exit") for r in records):  # wandb's own process may still be writing
        assert time.monotonic() < deadline, "wandb has not finished its file"
        records = [Record.FromString(data) for data in leveldb_log(file.read_bytes())]
    for record in records:
        assert not record.HasField("stats")  # of the machine: not in the ledger
        assert not record.HasField("output_raw")  # of the console
        items = {(i.key or "/".join(i.nested_key)): json.loads(i.value_json) for i in record.history.item}
        for name, value in items.items():
            if not name.startswith("_"):  # wandb's own: its clock and its step
                yield items["_step"], name, value


def leveldb_log(data: bytes) -> Iterator[bytes]:
    """The records of a .wandb file: LevelDB's log format after seven bytes of wandb's. Blocks of 32 kB, whose
    pieces are a checksum, a length and a kind: whole, first, middle, last."""
    block, at, record = 32768, 7, b""
    while at + 7 <= len(data):
        if block - at % block < 7:
            at += block - at % block
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        if kind == 0:
            return
        if at + 7 + length > len(data):
            return  # not all there yet
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield record
            record = b""


def from_mlflow(folder: Path) -> Iterator[tuple[int, str, float | str]]:
    from mlflow import MlflowClient

    client = MlflowClient(folder.absolute().as_uri())
    experiment = client.get_experiment_by_name("surefoot")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    for name in run.data.metrics:
        yield from ((m.step, name, m.value) for m in client.get_metric_history(run.info.run_id, name))
    for name, value in run.data.tags.items():
        if "/" in name:  # ours: a tag has no step, so it is that of the last row
            yield -1, name, value


def check(tracker: str, folder: Path, rows: list[dict[str, Any]]) -> None:
    """Every value of the ledger, once, and what the audit says, and no other."""
    found, wanted = shown_by(tracker, folder), expected([*rows, *audited(folder, rows)])
    if tracker == "mlflow":
        words = {(-1, name): v for (_, name), v in wanted.items() if isinstance(v[0], str)}
        wanted = {k: v for k, v in wanted.items() if not isinstance(v[0], str)} | words
    assert found.keys() == wanted.keys()
    again = (rows[-1]["samples"], "learner/samples")  # where the audit's own row stands
    for key, values in found.items():
        (value,), (truth,) = set(values) if key == again else values, wanted[key]
        if tracker == "tensorboard" and not isinstance(truth, str):
            truth = float(np.float32(truth))
        assert value == truth, key


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return read_ledger(folder / "ledger.jsonl")[0]


def test_all_that_a_run_writes_into_its_ledger_is_shown_while_it_trains(tracker: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for arguments in (
        ("tiny:walk", "--updates", "3", "--out", folder),
        ("--resume", folder, "--updates", "5"),
    ):
        assert surefoot("train", *arguments, "--quiet", "--perturb", "none", "--tracker", tracker) == 0
        check(tracker, folder, rows_of(folder))
    rows = rows_of(folder)
    assert [r["update"] for r in rows] == [1, 2, 3, 4, 5]
    assert {"evaluation.success", "evaluation.end_reasons", "evaluation.engine"} <= rows[2].keys()
    assert {"reward.slip", "advantage.by_stratum", "family.resets", "kl"} <= rows[0].keys()


def test_so_is_all_that_a_librarys_run_writes(tmp_path: Path) -> None:
    """One tracker stands for all: they are given the same rows, which come from another process."""
    folder = tmp_path / "run"
    arguments = ("--updates", "3", "--quiet", "--perturb", "none", "--out", folder)
    assert surefoot("train", "tiny:walk", "--learner", "cleanrl", *arguments) == 0
    rows = rows_of(folder)
    assert rows[0]["advantage.mean"] is None
    assert "evaluation.success" in rows[-1]
    check("tensorboard", folder, rows)


def test_a_ledger_with_terrain_and_audits_is_shown_afterwards(tracker: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(GOLDEN / "v2", folder)
    ledger = JsonLines(folder / "ledger.jsonl")
    last = ledger.rows()[-1]
    more = {
        "update": last["update"] + 1,
        "samples": 2**53 - 1,
        "terrain.level": 1.25,
        "terrain.level.stairs_up": None,
        "terrain.envs.stairs_up": [3, 0, 5],
        "terrain.walked.stairs_up": [0.5, None, 0.1 + 0.2],
        "honesty.n_eff_return": 11.7,
        "stratum_return.7": -1.5,
    }
    ledger.append(last | more)
    ledger.close()
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    for _ in range(2):  # a second time replaces the first
        assert surefoot("track", folder, "--tracker", tracker) == 0
        check(tracker, folder, rows_of(folder))
    assert {p: p.read_bytes() for p in before} == before


def test_a_ledger_of_the_first_schema_is_shown_under_the_newest_names(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(GOLDEN / "v1", folder)
    assert surefoot("track", folder) == 0
    names = {name for _, name in shown_by("tensorboard", folder)}
    assert "seconds/environment" in names
    assert "seconds/physics" not in names


def test_what_a_resumed_run_dropped_is_not_shown_any_more(tracker: str, tmp_path: Path) -> None:
    rows = rows_of(GOLDEN / "v2")
    killed = make_tracker(tracker, tmp_path, CONFIG)
    for row in rows[:4]:
        killed.log(row | {"train_seconds": 1e6})
    killed.close()
    resumed = make_tracker(tracker, tmp_path, CONFIG, rows[:2])  # to its checkpoint
    for row in rows[2:]:
        resumed.log(row)
    resumed.close()
    check(tracker, tmp_path, rows)


# ---- one that cannot work


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_one_whose_server_refuses_is_refused_before_there_is_a_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = pytest.importorskip(name)
    if name == "wandb":
        monkeypatch.setattr(package.setup().settings, "mode", "online")
        monkeypatch.setattr(package, "login", broken)
    else:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
        monkeypatch.setattr(package.MlflowClient, "get_experiment_by_name", broken)
    folder = tmp_path / "run"
    assert surefoot("train", "tiny:walk", "--updates", "1", "--out", folder, "--tracker", name) == 2
    said = capsys.readouterr().err
    assert "could not begin (ConnectionError: nobody there)" in said
    assert {"wandb": "WANDB_MODE=offline", "mlflow": "MLFLOW_TRACKING_URI"}[name] in said
    assert not folder.exists()


def test_one_that_breaks_as_it_begins_leaves_no_run_that_says_it_is_running(
    tracker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {
        "tensorboard": "surefoot.trackers.tensorboard.FileWriter",
        "wandb": "wandb.init",
        "mlflow": "mlflow.MlflowClient.create_run",
    }
    importlib.import_module(f"surefoot.trackers.{tracker}")
    folder, options = tmp_path / "run", ("--quiet", "--perturb", "none", "--tracker")
    with monkeypatch.context() as patch:
        patch.setattr(names[tracker], broken)
        new = surefoot("train", "tiny:walk", "--updates", "2", "--out", folder, *options, tracker)
    said = capsys.readouterr().err
    assert new == 2
    assert f"The tracker {tracker} could not begin (ConnectionError: nobody there)" in said
    record = RunFolder.open(folder).record
    assert record.status == "failed"
    assert record.error is not None
    assert record.error in said
    # It has its first checkpoint, so it can go on from there.
    assert surefoot("train", "--resume", folder, "--updates", "2", *options, "none") == 0
    record = RunFolder.open(folder).record
    assert (record.status, record.error) == ("finished", None)
    with monkeypatch.context() as patch:
        patch.setattr(names[tracker], broken)
        assert surefoot("train", "--resume", folder, "--updates", "3", *options, tracker) == 2
    assert RunFolder.open(folder).record.status == "interrupted"


BREAKS = {
    ("tensorboard", "log"): "surefoot.trackers.tensorboard.FileWriter.add_summary",
    ("tensorboard", "close"): "surefoot.trackers.tensorboard.FileWriter.close",
    ("wandb", "log"): "wandb.sdk.wandb_run.Run.log",
    ("wandb", "close"): "wandb.sdk.wandb_run.Run.finish",
    ("mlflow", "log"): "mlflow.MlflowClient.log_batch",
    ("mlflow", "close"): "mlflow.MlflowClient.set_terminated",
}


@pytest.mark.parametrize("when", ["log", "close"])
def test_one_that_breaks_while_the_run_trains_costs_no_run(
    tracker: str,
    when: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    importlib.import_module(f"surefoot.trackers.{tracker}")
    monkeypatch.setenv("COLUMNS", "500")
    folder, options = tmp_path / "run", ("--quiet", "--perturb", "none", "--tracker", tracker)

    module, name, method = BREAKS[tracker, when].rsplit(".", 2)
    close = getattr(getattr(importlib.import_module(module), name), method)

    def breaks_once_begun(*arguments: Any) -> Any:
        made = make_tracker(*arguments)
        patch.setattr(BREAKS[tracker, when], broken if when == "log" else closes_and_breaks)
        return made

    def closes_and_breaks(*arguments: Any) -> None:  # left open, it would go on writing
        close(*arguments)
        broken()

    with monkeypatch.context() as patch:
        patch.setattr("surefoot.training.tracking.make_tracker", breaks_once_begun)
        assert surefoot("train", "tiny:walk", "--updates", "3", "--out", folder, *options) == 0
    said = capsys.readouterr().out
    assert said.count(f"The tracker {tracker} failed (ConnectionError: nobody there); the run goes on") == 1
    assert f"surefoot track {folder} --tracker {tracker}\n" in said
    record = RunFolder.open(folder).record
    assert (record.status, record.error) == ("finished", None)
    assert record.tracker_error == "ConnectionError: nobody there"
    assert record.confirmation is not None
    assert [r["update"] for r in rows_of(folder)] == [1, 2, 3]
    # Resumed, it is shown all there is, from the first row on.
    assert surefoot("train", "--resume", folder, "--updates", "5", *options) == 0
    check(tracker, folder, rows_of(folder))
    assert RunFolder.open(folder).record.tracker_error is None


def test_so_it_is_with_a_librarys_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    importlib.import_module("surefoot.trackers.tensorboard")
    monkeypatch.setenv("COLUMNS", "500")
    monkeypatch.setattr(BREAKS["tensorboard", "log"], broken)
    folder = tmp_path / "run"
    arguments = ("--updates", "3", "--quiet", "--perturb", "none", "--out", folder)
    assert surefoot("train", "tiny:walk", "--learner", "cleanrl", *arguments) == 0
    assert capsys.readouterr().out.count("The tracker tensorboard failed") == 1
    record = RunFolder.open(folder).record
    assert (record.status, record.tracker_error) == ("finished", "ConnectionError: nobody there")
    assert record.library is not None
    assert record.library.settings, "what the worker wrote is still there"


def test_ctrl_c_is_no_failure_of_a_tracker() -> None:
    class Interrupted(NullTracker):
        def log(self, row: Any) -> None:
            raise KeyboardInterrupt

    spared = FailSafeTracker(Interrupted(Path(), {}), pytest.fail)
    with pytest.raises(KeyboardInterrupt):
        spared.log({})
    assert spared.error is None


def broken(*_: Any, **__: Any) -> None:
    raise ConnectionError("nobody there")
