"""Ends, beginnings, rewards and records of a clean run are what its contract says; each way in which they are
not is found, be it in one environment of sixteen or by a tenth of a threshold."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from surefoot.audits import audit_run
from surefoot.engines import MujocoEngine
from surefoot.env import TrainSampler, VecEnv
from surefoot.env.compiled import CompiledEnv
from surefoot.env.log import EpisodeLog
from surefoot.env.rules import Outcome, Rules
from surefoot.env.scenarios import Scenarios
from surefoot.rollout import RolloutBlock
from surefoot.runs import AuditFinding, RunFolder
from tiny import surefoot

QUICK = ("--quiet", "--tracker", "none", "--perturb", "none")
NAMES = ["terminations", "reward-terms", "locality", "restarts", "episode-records", "episode-table"]
ONE = 5
"""The environment that single faults are in."""


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trains on native MuJoCo: its environments are stepped in torch, where faults can be planted."""
    folder = tmp_path_factory.mktemp("runs") / "plain"
    command = ("train", "tiny:walk", "--engine", "mujoco", "--updates", "6", "--out", folder)
    assert surefoot(*command, *QUICK) == 0
    return folder


def found(run: Path, *names: str) -> list[AuditFinding]:
    audit = audit_run(RunFolder.open(run), only=names or NAMES, seed=1)
    assert not audit.failed, audit.failed
    assert not audit.not_applicable
    return list(audit.findings)


def test_clean_runs_begin_and_end_as_declared(tiny_run: Path, plain_run: Path) -> None:
    assert found(tiny_run) == []
    assert found(plain_run) == []


# ---- how episodes end, and what they are paid


def _changed(change: Callable[[Rules, Outcome], dict[str, Any]]) -> Callable[..., Outcome]:
    right = Rules.outcome

    def outcome(self: Rules, *given: Any) -> Outcome:
        out = right(self, *given)
        return dataclasses.replace(out, **change(self, out))

    return outcome


def _only(one: Tensor) -> Tensor:
    return torch.arange(len(one)) == ONE


def _late(self: Rules, o: Outcome) -> dict[str, Any]:
    return {"truncated": o.truncated & (self.state.age >= self.sampler.episode_steps)}


def _swallowed(self: Rules, o: Outcome) -> dict[str, Any]:
    hidden = _only(o.reason) & (o.reason == 3)
    return {"terminated": o.terminated & ~hidden, "reason": torch.where(hidden, 0, o.reason)}


def _timeouts_are_falls(self: Rules, o: Outcome) -> dict[str, Any]:
    return {"terminated": o.terminated | o.truncated, "truncated": o.truncated & False}


def _reasons_swapped(self: Rules, o: Outcome) -> dict[str, Any]:
    return {"reason": torch.where(o.reason == 4, 2, o.reason).to(torch.uint8)}


ENDS = {"late": _late, "swallowed": _swallowed, "falls": _timeouts_are_falls, "reasons": _reasons_swapped}


@pytest.mark.parametrize("fault", ENDS)
def test_other_ends_are_found(plain_run: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    monkeypatch.setattr(Rules, "outcome", _changed(ENDS[fault]))
    assert {f.cause for f in found(plain_run, "terminations")} == {"termination"}


@pytest.mark.parametrize(("name", "by"), [("gravity_z", 1.1), ("gravity_z", 0.9), ("height_m", 0.9)])
def test_a_threshold_moved_by_a_tenth_is_found(
    plain_run: Path, monkeypatch: pytest.MonkeyPatch, name: str, by: float
) -> None:
    right = Rules._rewards_and_ends

    def moved(self: Rules, view: Any) -> tuple[Tensor, Tensor]:
        kept = self.contract
        ends = [
            t.model_copy(update={"params": {k: v * (by if k == name else 1) for k, v in t.params.items()}})
            for t in kept.terminations
        ]
        self.contract = kept.model_copy(update={"terminations": tuple(ends)})
        out = right(self, view)
        self.contract = kept
        return out

    monkeypatch.setattr(Rules, "_rewards_and_ends", moved)
    assert {f.cause for f in found(plain_run, "terminations")} == {"termination"}


def _last_unpaid(self: Rules, o: Outcome) -> dict[str, Any]:
    return {"terms": o.terms * ~o.truncated[:, None], "reward": o.reward * ~o.truncated}


def _one_overpaid(self: Rules, o: Outcome) -> dict[str, Any]:
    more = 1 + 0.1 * _only(o.reward)
    return {"terms": o.terms * more[:, None], "reward": o.reward * more}


def _averaged(self: Rules, o: Outcome) -> dict[str, Any]:
    return {"reward": o.reward.mean().expand_as(o.reward).clone()}


@pytest.mark.parametrize("change", [_last_unpaid, _one_overpaid, _averaged])
def test_other_pay_is_found(
    plain_run: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[..., Any]
) -> None:
    monkeypatch.setattr(Rules, "outcome", _changed(change))
    assert {f.cause for f in found(plain_run, "reward-terms")} == {"reward"}


# ---- what an environment depends on


def test_an_environment_that_is_paid_by_its_number_is_found(
    plain_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rules, "outcome", _changed(_one_overpaid))
    assert "reward" in {f.cause for f in found(plain_run, "locality")}


def test_neighbours_that_influence_each_other_are_found(
    plain_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = MujocoEngine.step

    def leaking(self: MujocoEngine, targets: Tensor) -> Any:
        targets = targets.clone()
        targets[ONE] = targets[ONE - 1]
        return right(self, targets)

    monkeypatch.setattr(MujocoEngine, "step", leaking)
    assert [f.cause for f in found(plain_run, "locality")] == ["physics", "batch"]


def test_compiled_environments_that_are_paid_alike_are_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = CompiledEnv.step_into

    def alike(self: CompiledEnv, block: RolloutBlock, t: int, action: Tensor) -> Tensor:
        out = right(self, block, t, action)
        block.reward[t] = block.reward[t].mean()
        return out

    monkeypatch.setattr(CompiledEnv, "step_into", alike)
    assert {f.cause for f in found(tiny_run, "locality")} == {"batch"}
    assert {f.cause for f in found(tiny_run, "reward-terms")} == {"reward"}


# ---- how episodes begin


def _same_heading(s: Scenarios) -> None:
    s.start.quaternion[:] = s.start.quaternion[:1]


def _too_high(s: Scenarios) -> None:
    s.start.position[:, 2] *= 1.1


def _no_velocity(s: Scenarios) -> None:
    s.start.linear_velocity[:] = 0


def _later_commands(s: Scenarios) -> None:
    s.script.commands[:] = s.script.commands.roll(1, 1)


@pytest.mark.parametrize("fault", [_same_heading, _too_high, _no_velocity, _later_commands])
def test_other_starts_are_found(
    plain_run: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[[Scenarios], None]
) -> None:
    right = TrainSampler._draw

    def drawn(self: TrainSampler, *given: Tensor) -> Scenarios:
        out = right(self, *given)
        fault(out)
        return out

    monkeypatch.setattr(TrainSampler, "_draw", drawn)
    assert {f.cause for f in found(plain_run, "restarts")} <= {"reset", "batch", "randomisation"}
    assert found(plain_run, "restarts")


def test_what_survives_a_reset_is_found(plain_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = VecEnv._reset

    def leaving(self: VecEnv, mask: Tensor) -> None:
        before = self.state.action[ONE].clone()
        right(self, mask)
        if mask[ONE]:
            self.state.action[ONE] = before

    monkeypatch.setattr(VecEnv, "_reset", leaving)
    assert {f.cause for f in found(plain_run, "restarts")} == {"reset"}


def test_a_delay_line_that_survives_a_reset_is_found(
    plain_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = MujocoEngine.reset

    def leaving(self: MujocoEngine, *given: Any) -> None:
        before = self._targets[ONE].copy()
        right(self, *given)
        self._targets[ONE] = before

    monkeypatch.setattr(MujocoEngine, "reset", leaving)
    assert any("leaves something" in f.statement for f in found(plain_run, "restarts"))


def test_first_episodes_that_begin_together_are_found(
    plain_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "surefoot.env.vec_env.staggered_ages",
        lambda sampler, device: torch.zeros(sampler.count, dtype=torch.int64),
    )
    assert any("First episodes" in f.statement for f in found(plain_run, "restarts"))


# ---- what is written of them


@pytest.mark.parametrize("column", ["friction", "reason", "steps", "return.tilt"])
def test_records_of_a_neighbour_are_found(
    plain_run: Path, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    right = EpisodeLog.add_ended

    def shifted(self: EpisodeLog, *given: Any, **named: Any) -> None:
        right(self, *given, **named)
        self.ended[-1][column] = self.ended[-1][column][::-1].copy()

    monkeypatch.setattr(EpisodeLog, "add_ended", shifted)
    assert {f.cause for f in found(plain_run, "episode-records")} == {"bookkeeping"}


FAULTY_TABLES: dict[str, Callable[[dict[str, Any]], None]] = {
    "lengths": lambda e: e["steps"].__setitem__(0, e["steps"][0] + 20),
    "reasons": lambda e: e["reason"].__setitem__(0, 2 if e["reason"][0] != 2 else 3),
    "numbers": lambda e: e["episode"].__setitem__(0, e["episode"][0] + 1),
    "pay": lambda e: e["return.tilt"].__setitem__(0, -e["return.tilt"][0]),
}


@pytest.mark.parametrize("fault", FAULTY_TABLES)
def test_a_table_that_cannot_be_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    from surefoot.audits import case

    right = case.read_table

    def read(path: Path) -> dict[str, Any]:
        e = {k: v.copy() for k, v in right(path).items()}
        FAULTY_TABLES[fault](e)
        return e

    monkeypatch.setattr(case, "read_table", read)
    assert found(tiny_run, "episode-table")
