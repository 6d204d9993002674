"""What has another form than its contract makes it is a finding with its cause; who cannot look says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from planted_faults import copy_of, uncompiled
from test_faces import with_ledger

from surefoot.artifacts import read_table, write_table
from surefoot.audits import audit_run
from surefoot.audits.forms import Form, faults, vector
from surefoot.env import VecEnv
from surefoot.env.compiled import CompiledEnv
from surefoot.env.log import EpisodeLog
from surefoot.evaluation.episodes import RawEpisodes
from surefoot.learners.update import PpoUpdate
from surefoot.runs import Audit, RunFolder, save_checkpoint
from surefoot.training import TrainingIteration

Change = Callable[[Path], None]


def asked(run: Path, *names: str) -> Audit:
    return audit_run(RunFolder.open(run), only=names, seed=1)


def with_episodes(change: Callable[[dict[str, Any]], None]) -> Change:
    def plant(run: Path) -> None:
        for path in (run / "episodes").glob("*.parquet"):
            columns = read_table(path)
            change(columns)
            write_table(path, columns, 1)

    return plant


def with_tensors(change: Callable[[dict[str, Any]], None]) -> Change:
    def plant(run: Path) -> None:
        folder = RunFolder.open(run)
        checkpoint = folder.load_checkpoint("latest")
        tensors = dict(checkpoint.tensors)
        change(tensors)
        save_checkpoint(folder.checkpoint_path("latest"), tensors, checkpoint.meta)

    return plant


def with_rows(change: Callable[[dict[str, Any]], None]) -> Change:
    return lambda run: with_ledger(run, lambda rows: change(rows[3]))


def with_traces(change: Callable[[dict[str, Any]], None]) -> Change:
    def plant(run: Path) -> None:
        for path in run.glob("panels/*/confirmation/traces/*.npz"):
            with np.load(path) as file:
                trace = {k: file[k].copy() for k in file.files}
            change(trace)
            np.savez(path, **trace)

    return plant


def gone(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda given: given.pop(name)


def cut(name: str) -> Callable[[dict[str, Any]], None]:
    """Takes the last of the last dimension away."""
    return lambda given: given.update({name: given[name][..., :-1].copy() if isinstance(
        given[name], np.ndarray) else given[name][..., :-1].contiguous()})  # fmt: skip


def shorter(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda given: given.update({name: given[name][:-1]})


def as_numbers(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda given: given.update({name: given[name] + 0.5})


@pytest.mark.parametrize(
    ("plant", "looker", "cause", "says"),
    [
        (with_episodes(gone("friction")), "draws", "bookkeeping", "no 'friction'"),
        (with_episodes(as_numbers("member")), "episode-table", "bookkeeping", "'member' as numbers where"),
        (with_rows(gone("reward.tilt")), "ledger-sums", "bookkeeping", "no 'reward.tilt' (first: row 4)"),
        (with_rows(shorter("family.resets")), "ledger-whole", "bookkeeping", "that is not of 4"),
        (with_tensors(cut("env.script.push_step")), "draws", "randomisation", "'script.push_step' of 16 x"),
        (with_tensors(gone("env.task.contact")), "episode-history", "observation", "no 'task.contact'"),
        (with_tensors(cut("learner.networks.actor.0.weight")), "learner-record", "learning", "actor.0"),
        (with_traces(cut("joint_position")), "panel-physics", "bookkeeping", "'joint_position' of"),
        (with_traces(gone("push_step")), "kept-episodes", "bookkeeping", "no 'push_step'"),
    ],
)  # fmt: skip
def test_what_is_recorded_in_another_form_is_found_whoever_looks(
    tiny_run: Path, tmp_path: Path, plant: Change, looker: str, cause: str, says: str
) -> None:
    run = copy_of(tiny_run, tmp_path / "run")
    plant(run)
    for name in ("forms", looker):
        audit = asked(run, name)
        assert not audit.failed, audit.failed
        assert {f.cause for f in audit.proof} == {cause}
        assert says in " ".join(f.statement for f in audit.proof)
        assert audit.exit_status == 1


def test_what_is_misshapen_is_told_once(tiny_run: Path, tmp_path: Path) -> None:
    run = copy_of(tiny_run, tmp_path / "run")
    with_rows(gone("episode.count"))(run)
    audit = asked(run, "ledger-sums", "first-ratio", "return-up-success-flat")
    assert [f.detector for f in audit.findings] == ["first-ratio"], "the first that met it"
    assert {n.detector for n in audit.failed} == {"ledger-sums", "return-up-success-flat"}
    assert all("nobody can go on from this" in n.because for n in audit.failed)


def test_a_remark_is_not_made_of_what_is_misshapen(tiny_run: Path, tmp_path: Path) -> None:
    run = copy_of(tiny_run, tmp_path / "run")
    with_rows(gone("episode.count"))(run)
    audit = asked(run, "return-up-success-flat")
    assert not audit.findings
    assert audit.exit_status == 2


# ---- what environments and learners give


@pytest.mark.parametrize("name", ["beginnings", "observations", "factor-draws"])
def test_an_observation_that_is_one_longer_is_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    uncompiled(monkeypatch)
    right = VecEnv.observe

    def longer(self: VecEnv, *given: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        obs, critic, exploration = right(self, *given)
        return torch.cat([obs, obs[:, :1]], 1), critic, exploration

    monkeypatch.setattr(VecEnv, "observe", longer)
    audit = asked(tiny_run, name)
    assert not audit.failed, audit.failed
    assert [f.cause for f in audit.findings] == ["observation"]
    assert "has 'obs' of 16 x" in audit.findings[0].statement


def test_minibatches_of_another_size_are_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = PpoUpdate.run

    def run(self: PpoUpdate) -> None:
        right(self)
        self.picks = self.picks[:, 1:]

    monkeypatch.setattr(PpoUpdate, "run", run)
    audit = asked(tiny_run, "minibatches")
    assert [f.cause for f in audit.findings] == ["learning"], audit.failed


def test_environments_that_break_off_are_no_finding(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: CompiledEnv, *given: Any) -> torch.Tensor:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(CompiledEnv, "step_into", full)
    audit = asked(tiny_run, "beginnings")
    assert not audit.findings
    assert "No space left" in audit.failed[0].because
    assert audit.exit_status == 2


def test_a_clean_runs_files_have_their_form(tiny_run: Path) -> None:
    audit = asked(tiny_run, "forms")
    assert audit.passed == ("forms",), audit.findings


def test_faults_name_what_is_missing_of_another_kind_and_of_another_size() -> None:
    given = {"a": np.zeros((3, 2)), "b": np.zeros(3, bool), "c": torch.zeros(2, dtype=torch.int64)}
    told = {"a": vector(2), "b": Form("i"), "c": Form("i"), "d": vector()}
    assert list(faults("It", given, told)) == [
        "It has 'b' as true or false where it is whole numbers",
        "It has 'c' of 2 where it is 3",
        "It has no 'd'",
    ]
    assert list(faults("It", given, {"a": vector(None), "b": Form("b")})) == []


def test_records_and_metrics_of_another_form_are_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, labelled = EpisodeLog.add_ended, RawEpisodes.labelled

    def without(self: EpisodeLog, *given: Any, **named: Any) -> None:
        record(self, *given, **named)
        del self.ended[-1]["delay_s"]

    def early(self: RawEpisodes) -> RawEpisodes:
        played = labelled(self)
        del played.rows["distance_m"]
        return played

    monkeypatch.setattr(EpisodeLog, "add_ended", without)
    monkeypatch.setattr(RawEpisodes, "labelled", early)
    uncompiled(monkeypatch)
    audit = asked(tiny_run, "episode-records", "measuring")
    assert not audit.failed, audit.failed
    said = {f.detector: (f.cause, f.statement) for f in audit.findings}
    assert said["episode-records"] == ("bookkeeping", "A record of episodes that ended has no 'delay_s'.")
    assert said["measuring"] == ("metric", "What is measured of episodes has no 'distance_m'.")


def test_a_block_whose_values_are_a_step_short_is_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = TrainingIteration.run

    def short(self: TrainingIteration, *given: Any, **named: Any) -> Any:
        out = right(self, *given, **named)
        self.block.value = self.block.value[:-1]
        return out

    monkeypatch.setattr(TrainingIteration, "run", short)
    audit = asked(tiny_run, "rollout", "exploration-keys")
    assert [f.detector for f in audit.findings] == ["exploration-keys"], "the first that met it"
    assert audit.findings[0].statement == "A rollout block has 'value' of 15 x 16 where it is 16 x 16."
    assert [n.detector for n in audit.failed] == ["rollout"]
