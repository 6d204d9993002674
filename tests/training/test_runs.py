"""A run repeats to the bit, survives being stopped and killed, and leaves a record that explains itself."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from processes import Processes, rows_in, wait_for
from surefoot.artifacts import JsonLines, load_npz, read_json, read_table
from surefoot.contract import Channel, SurefootError, load_panel
from surefoot.runs import RunFolder, checkpoint, without_timing
from surefoot.runs.status import record_outcome
from surefoot.statistics import PanelSummary
from surefoot.terrain import HELD_OUT, TRAINED
from surefoot.training.plan_makers import make_plan
from surefoot.training.restore import load_policy, restore_plan
from surefoot.training.trainer import Trainer, new_run
from tiny import RECIPE, surefoot

QUIET = ("--quiet", "--tracker", "none")
NO_COLUMNS = ("--perturb", "none")


def train(folder: Path, *arguments: str, task: str = "tiny:walk") -> int:
    columns = () if "--perturb" in arguments else NO_COLUMNS
    return surefoot("train", task, "--out", folder, *QUIET, *arguments, *columns)


def resume(folder: Path, *arguments: str) -> int:
    columns = () if "--perturb" in arguments else NO_COLUMNS
    return surefoot("train", "--resume", folder, "--tracker", "none", *arguments, *columns)


def begun(folder: Path, task: str = "tiny:walk") -> RunFolder:
    """A run folder as it is before the first update: with a checkpoint, without a ledger."""
    plan = make_plan(task)
    run = new_run(plan, str(folder))
    Trainer(plan, run).close()
    return run


def ledger(folder: Path) -> list[dict[str, Any]]:
    return [without_timing(row) for row in JsonLines(folder / "ledger.jsonl").rows()]


def digests(folder: Path) -> dict[str, str]:
    """Hashes every file in the run."""
    files = (p for p in sorted(folder.rglob("*")) if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def same_table(a: Path, b: Path) -> bool:
    one, two = read_table(a), read_table(b)
    return one.keys() == two.keys() and all(_equal(one[k], two[k]) for k in one)


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def assert_same_run(a: Path, b: Path) -> None:
    assert ledger(a) == ledger(b)
    for name in ("latest", "best"):
        file = f"checkpoints/{name}.safetensors"
        assert (a / file).read_bytes() == (b / file).read_bytes()
    assert same_table(a / "episodes", b / "episodes")


def assert_readable(folder: Path) -> None:
    """Everything that may be looked at after a crash, by the readers that would look."""
    run = RunFolder.open(folder)
    if run.ledger.path.exists():
        rows, _ = run.ledger.read()
        assert [r["update"] for r in rows] == list(range(1, len(rows) + 1))
    for path in folder.rglob("*"):
        if path.name.startswith(".tmp-"):
            continue
        if path.suffix == ".parquet":
            assert read_table(path)
        elif path.suffix == ".safetensors":
            meta = checkpoint.load_checkpoint(
                path
            ).meta  # of a checkpoint, or of a policy kept beside its rows
            digest = meta.get("contract_digest") or meta["policy"]["contract_digest"]
            assert digest == run.record.contract_digest
        elif path.suffix == ".npz":
            assert load_npz(path)
        elif path.name == "summary.json":
            assert read_json(path, PanelSummary)


# ---- the same, to the bit


def test_the_same_seed_gives_the_same_run_to_the_bit(tiny_run: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert train(again, "--updates", "6", "--perturb", "all") == 0
    assert_same_run(tiny_run, again)
    assert (tiny_run / "policy.safetensors").read_bytes() == (again / "policy.safetensors").read_bytes()
    for folder in sorted((tiny_run / "panels" / "tiny-v1").iterdir()):
        twin = again / "panels" / "tiny-v1" / folder.name
        assert same_table(folder / "episodes.parquet", twin / "episodes.parquet")
        for trace in (folder / "traces").iterdir():
            one, two = load_npz(trace), load_npz(twin / "traces" / trace.name)
            assert all(_equal(one[k], two[k]) for k in one)


def test_another_seed_gives_another_run(tiny_run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert train(other, "--updates", "1", "--seed", "2") == 0
    assert ledger(other)[0] != ledger(tiny_run)[0]
    assert RunFolder.open(other).record.seed_set != RunFolder.open(tiny_run).record.seed_set


def test_three_updates_and_three_resumed_are_six(tiny_run: Path, tmp_path: Path) -> None:
    half = tmp_path / "half"
    assert train(half, "--updates", "3") == 0
    assert len(ledger(half)) == 3
    assert resume(half, "--updates", "6") == 0
    assert_same_run(tiny_run, half)
    a, b = (RunFolder.open(p).record for p in (tiny_run, half))
    assert a.figures["best_update"] == b.figures["best_update"]
    assert a.confirmation is not None
    assert b.confirmation is not None
    assert a.confirmation.checkpoint == b.confirmation.checkpoint


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (("--updates", "3"), "is already at update 6, and --updates is 3"),
        (("--updates", "6"), "is already at update 6, and --updates is 6"),
        (("--minutes", "0.0001"), "and --minutes is 0.0001"),
        (("--until", "1e-9"), ""),
    ],
)
def test_a_run_that_has_reached_what_is_asked_is_refused_and_left_alone(
    limits: tuple[str, str], why: str, tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = tmp_path / "done"
    shutil.copytree(tiny_run, done)
    if not why:  # tiny runs never succeed; this one says that it did
        run = RunFolder.open(done)
        latest = run.load_checkpoint("latest")
        save = checkpoint.save_checkpoint
        save(run.checkpoint_path("latest"), latest.tensors, latest.meta | {"successes": [0.5, 0.75]})
        why = "has reached 50.0% and 75.0% in its last two evaluations"
    before = digests(done)
    assert resume(done, *limits) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert why in said
    assert "nothing is left to train" in said
    assert digests(done) == before


# ---- stopped and killed


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    made = Processes(tmp_path_factory.mktemp("processes") / "log")
    yield made
    made.close()


def test_signals_finish_the_update_save_and_say_how_to_resume(processes: Processes, tmp_path: Path) -> None:
    folder = tmp_path / "a run"
    rows = 0
    for kind, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        arguments = ["tiny:walk", "--out", folder, "--quiet"] if rows == 0 else ["--resume", folder]
        child = processes.start("train", *arguments, "--updates", "100000", "--tracker", "none")
        wait_for(folder, rows + 1)
        os.kill(child, kind)
        assert processes.wait() == code
        output = processes.log.read_text()
        assert f"Stopped by {kind.name}; saved. Continue with: surefoot train --resume '{folder}'" in output
        assert "Traceback" not in output
        run = RunFolder.open(folder)
        assert run.record.status == "interrupted"
        assert (
            run.record.figures["updates"]
            == len(ledger(folder))
            == run.load_checkpoint("latest").meta["update"]
        )
        rows = len(ledger(folder))
    assert resume(folder, "--updates", str(rows + 1)) == 0
    assert RunFolder.open(folder).record.status == "finished"
    assert len(ledger(folder)) == rows + 1


def test_kills_leave_every_file_readable_and_the_run_the_same(
    processes: Processes, tiny_run: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "killed"
    dice = random.Random(11)
    arguments: list[str | Path] = ["tiny:walk", "--out", folder, "--quiet"]
    last = 0
    for _ in range(4):
        child = processes.start("train", *arguments, "--updates", "6", "--tracker", "none", *NO_COLUMNS)
        wait_for(folder / "checkpoints" / "latest.safetensors")
        moment = time.monotonic() + dice.uniform(0.1, 0.9)
        while (
            time.monotonic() < moment and rows_in(folder) < 5
        ):  # on a fast machine it must not get to the end
            time.sleep(0.01)
        os.kill(child, signal.SIGKILL)
        assert processes.wait() == -signal.SIGKILL, "the run ended before it could be killed"
        assert_readable(folder)
        update = RunFolder.open(folder).load_checkpoint("latest").meta["update"]
        assert update >= last, "a kill costs what came after the last checkpoint, and no more"
        last = update
        arguments = ["--resume", folder]
    assert resume(folder, "--updates", "6") == 0
    assert not list(folder.rglob(".tmp-*"))
    assert_same_run(tiny_run, folder)


def test_a_run_killed_before_its_first_row_resumes(tiny_run: Path, tmp_path: Path) -> None:
    run = begun(tmp_path / "begun")
    assert not run.ledger.path.exists()
    assert resume(run.path, "--updates", "1") == 0
    assert ledger(run.path) == ledger(tiny_run)[:1]


def test_rewinding_drops_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    for update in (1, 2, 3, 4):
        run.ledger.append({"update": update})
        run.add_episodes([{"steps": np.array([update])}], update)
        run.flush_episodes(update)
    run.rewind(2)
    assert [r["update"] for r in run.ledger.rows()] == [1, 2]
    assert read_table(run.path / "episodes")["update"].tolist() == [1, 2]


class Killed(BaseException):
    """Stands for the end of the process."""


def test_a_kill_between_best_and_latest_leaves_no_other_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = checkpoint.save_checkpoint

    def die_after(path: Path, tensors: Any, meta: Any) -> str:
        digest = save(path, tensors, meta)
        if meta.get("update") == RECIPE.evaluate_every:  # of a checkpoint; a policy bundle has none
            raise Killed
        return digest

    folder = tmp_path / "killed"
    monkeypatch.setattr("surefoot.runs.folder.checkpoint.save_checkpoint", die_after)
    with pytest.raises(Killed):
        train(folder, "--updates", "6")
    monkeypatch.undo()
    assert resume(folder, "--updates", str(RECIPE.evaluate_every + 1)) == 0
    run = RunFolder.open(folder)
    assert (
        run.load_checkpoint("best").meta["update"]
        == run.record.figures["best_update"]
        == RECIPE.evaluate_every
    )


def test_ctrl_c_outside_the_loop_is_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("surefoot.sessions.session.new_run", interrupted)
    assert train(tmp_path / "run") == 130
    assert "Traceback" not in capsys.readouterr().err


# ---- what breaks off says so


def planted(error: BaseException) -> Callable[..., None]:
    def broken(*_: object, **__: object) -> None:
        raise error

    return broken


TOO_MUCH = "There is not enough memory for this run; free some, or train with fewer --envs,"
TOLD = {
    RuntimeError("planted"): None,
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"): TOO_MUCH,
    torch.OutOfMemoryError("CUDA out of memory."): TOO_MUCH,
    MemoryError("too much"): TOO_MUCH,
    SurefootError("Something is not to be; do otherwise."): "Something is not to be; do otherwise.",
}
"""What goes wrong, and the sentence that it is told in; None: it is no user's fault and has a traceback."""


@pytest.mark.parametrize("error", TOLD)
@pytest.mark.parametrize(
    "place", ["surefoot.training.trainer.Ppo", "surefoot.training.trainer.TrainingIteration.run"]
)
def test_a_run_that_breaks_is_failed_and_says_why(
    place: str,
    error: Exception,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In building its learner, or in training; whoever started it learns why."""
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(place, planted(error))
        if message := TOLD[error]:
            assert train(folder, "--updates", "3") == 2
            output = " ".join(capsys.readouterr().err.split())
            assert message in output
            assert output.endswith(f". {folder} is marked failed.")
        else:
            with pytest.raises(type(error), match=str(error)):
                train(folder, "--updates", "3")
    record = RunFolder.open(folder).record
    why = str(error) if isinstance(error, SurefootError) else f"{type(error).__name__}: {error}"
    assert (record.status, record.error, record.confirmation) == ("failed", why, None)
    if place.endswith("TrainingIteration.run"):  # it has a first checkpoint, and can go on from there
        assert resume(folder, "--updates", "3") == 0
        record = RunFolder.open(folder).record
        assert (record.status, record.error) == ("finished", None)


@pytest.mark.parametrize(
    "place", ["surefoot.training.trainer.Ppo", "surefoot.training.trainer.TrainingIteration.run"]
)
def test_a_run_aborted_by_ctrl_c_is_interrupted(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, planted(KeyboardInterrupt()))
    assert train(tmp_path / "run", "--updates", "3") == 130
    assert RunFolder.open(tmp_path / "run").record.status == "interrupted"


def test_a_run_that_cannot_be_resumed_stays_as_it_was(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(tiny_run, folder)
    before = digests(folder)
    monkeypatch.setattr("surefoot.training.trainer.Ppo", planted(MemoryError()))
    assert resume(folder, "--updates", "9") == 2
    output = " ".join(capsys.readouterr().err.split())
    assert TOO_MUCH in output
    assert "is marked" not in output
    assert digests(folder) == before


def test_where_the_disk_is_full_the_reason_is_told_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begun(tmp_path / "run")
    monkeypatch.setattr("surefoot.runs.folder.write_json", planted(SurefootError("no space left")))
    with pytest.raises(RuntimeError, match="planted") as raised, record_outcome(run):
        raise RuntimeError("planted")
    assert raised.value.__notes__ == ["no space left"]


# ---- nothing is overwritten, nothing foreign is taken


def test_an_existing_folder_is_refused_and_left_alone(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = digests(tiny_run)
    assert train(tiny_run, "--updates", "1") == 2
    assert f"already exists; choose another --out, or continue it with --resume {tiny_run}" in " ".join(
        capsys.readouterr().err.split()
    )
    assert digests(tiny_run) == before
    (tmp_path / "empty").mkdir()
    assert train(tmp_path / "empty", "--updates", "1") == 2
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_checkpoint_of_another_contract_is_refused(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    walk, trot = begun(tmp_path / "walk"), begun(tmp_path / "trot", task="tiny:trot")
    theirs = trot.checkpoint_path("latest")
    before = digests(tiny_run)
    assert surefoot("evaluate", tiny_run, "--checkpoint", theirs) == 2
    assert "another contract" in capsys.readouterr().err
    assert digests(tiny_run) == before
    shutil.copy(theirs, walk.checkpoint_path("latest"))
    assert resume(walk.path, "--updates", "1") == 2
    assert "another contract" in capsys.readouterr().err


def test_a_pickle_is_refused_unopened(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    torch.save({"weights": Trap()}, tmp_path / "model.pt")
    assert surefoot("evaluate", tiny_run, "--checkpoint", tmp_path / "model.pt") == 2
    assert "pickle" in capsys.readouterr().err
    assert not (tmp_path / "sprung").exists()


def test_a_run_whose_task_has_changed_is_refused(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import tiny

    monkeypatch.setattr(tiny, "walk", tiny.trot)
    assert resume(tiny_run, "--updates", "9") == 2
    assert "has changed since" in capsys.readouterr().err
    assert surefoot("evaluate", tiny_run) == 2


# ---- the record


def test_a_ledger_row_says_everything_about_its_update(tiny_run: Path) -> None:
    record = RunFolder.open(tiny_run).record
    rows = JsonLines(tiny_run / "ledger.jsonl").rows()
    assert [r["update"] for r in rows] == [1, 2, 3, 4, 5, 6]
    contract = record.contract
    reasons = ("timeout", *(t.name for t in contract.terminations), "nonfinite")
    expected = {
        "schema_version", "update", "samples", "robot_seconds", "train_seconds", "wall_seconds",
        "elapsed_seconds",
        *(f"seconds.{k}" for k in ("environment", "inference", "learning", "evaluation")),
        *(f"reward.{t.name}" for t in contract.rewards),
        *(f"reset.{k}" for k in reasons),
        "steps_per_second", "reward_per_step", "episode.count", "episode.return", "episode.steps",
        "stratum.resets", "stratum.samples", "family.resets", "family.samples",
        *(f"advantage.{k}" for k in ("mean", "std", "p01", "p99", "largest", "by_stratum")),
        "kl", "kl_last_epoch", "clip_fraction", "entropy", "first_ratio_error", "learning_rate", "std",
        "grad_norm", "value_loss", "policy_loss", "explained_variance", "skipped_steps", "action_clip_share",
        *(f"freshness.{k}" for k in ("horizon_steps", "mean_age_steps", "epochs", "gradient_steps")),
        "memory.buffer_bytes", "memory.peak_rss_bytes", "memory.peak_device_bytes", "chain",
    }  # fmt: skip
    for row in rows:
        assert expected <= row.keys()
        extra = {k for k in row.keys() - expected if not k.startswith("evaluation.")}
        first = {"seconds.startup", "startup.compiled"} if row["update"] == 1 else set()
        assert extra == first, "describe it here and in the documentation"
        assert ("evaluation.success" in row) == (row["update"] % RECIPE.evaluate_every == 0)
        assert (row["seconds.evaluation"] > 0) == ("evaluation.success" in row)
        assert row["first_ratio_error"] <= 1e-5
        assert row["skipped_steps"] == 0
        assert row["memory.buffer_bytes"] == record.accounting.buffer_bytes
        assert row["freshness.gradient_steps"] == RECIPE.epochs * RECIPE.minibatches


def test_the_ledgers_counts_agree_with_each_other(tiny_run: Path) -> None:
    record = RunFolder.open(tiny_run).record
    samples = record.accounting.samples_per_update
    rows = JsonLines(tiny_run / "ledger.jsonl").rows()
    for row in rows:
        ended = sum(v for k, v in row.items() if k.startswith("reset."))
        assert ended == row["episode.count"] == sum(row["family.resets"])
        started = record.recipe.envs if row["update"] == 1 else 0
        assert sum(row["stratum.resets"]) == ended + started
        assert sum(row["stratum.samples"]) == sum(row["family.samples"]) == samples
        assert len(row["stratum.samples"]) == len(row["advantage.by_stratum"]) == len(record.strata)
        weighted = np.dot(row["stratum.samples"], row["advantage.by_stratum"]) / samples
        assert weighted == pytest.approx(row["advantage.mean"], abs=1e-6)
        assert (
            row["advantage.p01"] <= row["advantage.mean"] <= row["advantage.p99"] <= row["advantage.largest"]
        )
        assert row["samples"] == row["update"] * samples
        parts = sum(row[f"seconds.{k}"] for k in ("environment", "inference", "learning"))
        assert row["steps_per_second"] == pytest.approx(samples / parts)
    assert rows[-1]["wall_seconds"] == pytest.approx(
        rows[-1]["train_seconds"] + sum(r["seconds.evaluation"] for r in rows)
    )


def test_run_json_names_every_seed_of_the_run(tiny_run: Path) -> None:
    record = RunFolder.open(tiny_run).record
    assert (record.seeds.root, record.seeds.split, record.seeds.families) == (1, "train", RECIPE.families)
    assert record.seed_set.keys() == {str(f) for f in range(RECIPE.families)}
    per_family = RECIPE.envs // RECIPE.families
    for family, key in record.seed_set.items():
        assert int(key, 16) == int(record.seeds.episode_key(int(family) * per_family, 0))
    assert len(set(record.seed_set.values())) == RECIPE.families
    assert record.disjointness.disjoint
    assert record.panel_seeds.split == "eval"
    assert record.contract.digest == record.contract_digest
    assert record.status == "finished"
    assert {"surefoot", "torch", "mujoco", "numpy", "python"} <= record.versions.keys()
    assert make_plan("tiny:walk").training_id == record.training_id
    assert restore_plan(RunFolder.open(tiny_run)).construct_id == record.construct_id


def test_the_episode_table_adds_up(tiny_run: Path) -> None:
    record = RunFolder.open(tiny_run).record
    table = read_table(tiny_run / "episodes", newest=1)
    rows = JsonLines(tiny_run / "ledger.jsonl").rows()
    assert len(table["return"]) == sum(r["episode.count"] for r in rows) > 0
    terms = np.sum([table[f"return.{t.name}"] for t in record.contract.rewards], 0)
    np.testing.assert_allclose(table["return"], terms, rtol=1e-5, atol=1e-5)
    assert (table["steps"] <= table["update"] * RECIPE.horizon).all(), "only steps that were taken count"
    assert (table["steps"] >= 1).all()
    reasons = ("alive", "timeout", *(t.name for t in record.contract.terminations), "nonfinite")
    for k, reason in enumerate(reasons[1:], 1):
        assert (table["reason"] == k).sum() == sum(r[f"reset.{reason}"] for r in rows)
    per_family = RECIPE.envs // RECIPE.families
    assert (table["member"] < per_family).all()
    env = table["family"] * per_family + table["member"]
    low, high = record.contract.factor("friction").train
    assert ((table["friction"] >= low) & (table["friction"] <= high)).all()
    # a robot keeps its body for life, and its family its floor: both can be drawn again from the record
    factor = record.contract.factor("payload")
    drawn = record.seeds.env_uniforms(env, Channel.PAYLOAD, 1)[:, 0]
    strata = record.contract.strata
    cell = strata.deal("payload", table["family"], table["member"], env, table["episode"])
    payload = factor.train[0] + (factor.train[1] - factor.train[0]) * (cell + drawn) / factor.bins
    np.testing.assert_allclose(table["payload_kg"], payload, atol=1e-5)


def test_every_artifact_carries_its_schema_version(tiny_run: Path) -> None:
    seen = set()
    for path in tiny_run.rglob("*"):
        if path.suffix == ".json":
            assert json.loads(path.read_text())["schema_version"] >= 1
        elif path.suffix == ".jsonl":
            assert all(json.loads(line)["schema_version"] >= 1 for line in path.read_text().splitlines())
        elif path.suffix == ".parquet":
            with pytest.raises(SurefootError, match="schema_version"):
                read_table(path, newest=0)
        elif path.suffix == ".safetensors":
            data = path.read_bytes()
            header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
            assert int(header["__metadata__"]["schema_version"]) >= 1
        elif path.suffix == ".npz":
            assert int(load_npz(path)["schema_version"]) >= 1
        elif path.suffix == ".html":
            assert '<meta name="surefoot.schema_version" content="1">' in path.read_text("utf-8")
        else:
            assert path.is_dir(), f"{path} has a format without a version"
        seen.add(path.suffix)
    assert {".json", ".jsonl", ".parquet", ".safetensors", ".npz"} <= seen


def test_the_saved_policy_is_the_learners_mean_action(tiny_run: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_run, tmp_path / "run")
    run = RunFolder.open(tmp_path / "run")
    trainer = Trainer(restore_plan(run), run, resume=True)
    try:
        obs = trainer.env.obs
        with torch.inference_mode():
            mean = trainer.learner.mean(obs)
    finally:
        trainer.close()
    _, bundle = load_policy(run, "latest")
    action, _ = bundle(obs, torch.zeros(len(obs), 0))
    assert torch.allclose(action, mean, atol=1e-6)
    assert action.abs().max() > 0.01
    exported = checkpoint.load_checkpoint(run.path / "policy.safetensors")
    confirmed, _ = load_policy(RunFolder.open(tiny_run), "confirmed")
    assert all(
        torch.equal(exported.tensors[k.removeprefix("policy.")], v)
        for k, v in confirmed.tensors.items()
        if "policy." in k
    )
    assert exported.meta["policy"] == bundle.meta()


# ---- the real tasks


def test_walk_flat_trains_and_fills_tensorboard(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    sizes = ("--envs", "16", "--families", "4", "--eval-families", "4", "--updates", "2")
    assert surefoot("train", "walk-flat", "--out", folder, "--quiet", *sizes, "--perturb", "none") == 0
    assert RunFolder.open(folder).record.confirmation is not None

    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    rows = JsonLines(folder / "ledger.jsonl").rows()
    for tag, field in (
        ("learner/kl", "kl"),
        ("reward/track_linear", "reward.track_linear"),
        ("reset/tilted", "reset.tilted"),
    ):
        seen = events.Scalars(tag)
        assert [e.step for e in seen] == [r["samples"] for r in rows]
        assert [e.value for e in seen] == pytest.approx([r[field] for r in rows], rel=1e-5)


@pytest.mark.parametrize("name", ["walk-rough", "walk-anymal-rough"])
def test_a_task_on_terrain_trains_and_is_judged_on_ground_it_never_saw(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    sizes = ("--envs", "16", "--families", "2", "--scenarios", "16", "--updates", "2")
    assert train(folder, *sizes, task=name) == 0
    run = RunFolder.open(folder)
    summary = run.record.confirmation
    assert summary is not None
    played = load_panel(f"{name}-v2+16scenarios").select("confirmation")
    assert Counter(s.terrain.cls for s in played) == {c: f.n for c, f in summary.terrain.items()}
    assert set(summary.terrain) & set(HELD_OUT)
    assert set(summary.terrain) & set(TRAINED)
    assert summary.episodes == 16
    assert [r["first_ratio_error"] <= 1e-5 for r in ledger(folder)] == [True, True]
    assert len(run.record.strata) == len(ledger(folder)[0]["stratum.samples"])


@pytest.mark.parametrize("name", ["walk-anymal-flat", "walk-biped-flat"])
def test_another_robot_trains_and_is_judged_beside_its_baselines(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    sizes = ("--envs", "32", "--families", "4", "--eval-families", "16", "--updates", "3")
    assert train(folder, *sizes, "--perturb", "push", task=name) == 0
    run, rows = RunFolder.open(folder), ledger(folder)
    summary = run.record.confirmation
    assert summary is not None
    assert summary.episodes == 8
    assert [r["first_ratio_error"] <= 1e-5 for r in rows] == [True] * 3
    assert sum(r["reset.nonfinite"] for r in rows) == 0
    trots = {"baseline:open-loop-trot"} if "anymal" in name else set()
    shown = {c.column for c in summary.columns if c.column.startswith("baseline:")}
    assert shown == {"baseline:hold-pose", "baseline:random"} | trots
