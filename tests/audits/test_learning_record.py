"""Exploration, minibatches and the learner's own counters: silent where all is well; faults are found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from surefoot.audits import audit_run
from surefoot.env.compiled import CompiledEnv
from surefoot.learners.update import PpoUpdate
from surefoot.rollout import RolloutBlock
from surefoot.runs import AuditFinding, RunFolder, save_checkpoint
from surefoot.training import iteration

Tensors = dict[str, Tensor]


def findings(run: Path, name: str) -> list[AuditFinding]:
    audit = audit_run(RunFolder.open(run), only=[name], seed=4)
    assert not audit.failed, audit.failed
    assert not audit.not_applicable
    return list(audit.findings)


@pytest.mark.parametrize("name", ["exploration-keys", "minibatches", "learner-record"])
def test_a_clean_run_has_nothing(tiny_run: Path, name: str) -> None:
    assert findings(tiny_run, name) == []


# ---- exploration


@pytest.mark.parametrize(
    ("moved", "says", "cause"),
    [
        (lambda z: z[:1].expand_as(z), "steps before", "batch"),
        (lambda z: z[:, :1].expand_as(z), "noise of others", "batch"),
        (lambda z: 1.1 * z, "1.10 times", "learning"),
        (lambda z: torch.randn(z.shape, generator=torch.Generator().manual_seed(1)), "not drawn by", "batch"),
    ],
)
def test_exploration_that_is_shared_or_scaled_is_found(
    tiny_run: Path,
    monkeypatch: pytest.MonkeyPatch,
    moved: Callable[[Tensor], Tensor],
    says: str,
    cause: str,
) -> None:
    right = iteration.collect

    def collect(env: Any, learner: Any, block: RolloutBlock, *rest: float) -> float:
        out = right(env, learner, block, *rest)
        std = learner.log_std.exp()
        block.action.copy_(block.mean + std * moved((block.action - block.mean) / std))
        return out

    monkeypatch.setattr(iteration, "collect", collect)
    (finding,) = findings(tiny_run, "exploration-keys")
    assert says in finding.statement
    assert finding.cause == cause


def test_environments_that_explore_wider_than_the_policy_says_are_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = CompiledEnv._begin
    monkeypatch.setattr(CompiledEnv, "_begin", lambda self, log_std, block: right(self, log_std + 0.1, block))
    assert (
        "times what the policy's standard deviation says"
        in findings(tiny_run, "exploration-keys")[0].statement
    )


# ---- minibatches


def _half(picks: Tensor) -> None:
    picks[:, picks.shape[1] // 2 :] = picks[:, : picks.shape[1] // 2]


def _one_order(picks: Tensor) -> None:
    epochs = picks.view(2, -1)
    epochs[1] = epochs[0]


def _unmirrored(picks: Tensor) -> None:
    picks &= ~1


@pytest.mark.parametrize(
    ("fault", "says"),
    [(_half, "never"), (_one_order, "repeat one order"), (_unmirrored, "mirrors 0%")],
)
def test_minibatches_that_are_not_the_recipes_are_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[[Tensor], None], says: str
) -> None:
    right = PpoUpdate.run

    def run(self: PpoUpdate) -> None:
        right(self)
        fault(self.picks)

    monkeypatch.setattr(PpoUpdate, "run", run)
    (finding,) = findings(tiny_run, "minibatches")
    assert says in finding.statement


# ---- the learner's record


@pytest.fixture
def with_tensors(tiny_run: Path, tmp_path: Path) -> Callable[[Callable[[Tensors], None]], Path]:
    """Makes copies of a run whose latest checkpoint was changed."""

    def make(change: Callable[[Tensors], None]) -> Path:
        shutil.copytree(tiny_run, tmp_path / "run")
        run = RunFolder.open(tmp_path / "run")
        checkpoint = run.load_checkpoint("latest")
        tensors = dict(checkpoint.tensors)
        change(tensors)
        save_checkpoint(run.checkpoint_path("latest"), tensors, checkpoint.meta)
        return tmp_path / "run"

    return make


def test_a_normaliser_that_counted_samples_twice_is_found(with_tensors: Any) -> None:
    def twice(t: Tensors) -> None:
        t["learner.critic_normalizer.count"] = 2 * t["learner.critic_normalizer.count"]

    (finding,) = findings(with_tensors(twice), "learner-record")
    assert "has taken in 3072 samples until update 6, and not 1536" in finding.statement
    assert finding.cause == "normaliser"


def test_a_policy_with_other_moments_is_found(with_tensors: Any) -> None:
    def shifted(t: Tensors) -> None:
        t["policy.mean"] = t["policy.mean"] + 0.01

    (finding,) = findings(with_tensors(shifted), "learner-record")
    assert "normalises otherwise" in finding.statement


def test_moments_of_samples_that_were_not_mirrored_are_found(with_tensors: Any) -> None:
    def sideways(t: Tensors) -> None:
        for name in ("learner.obs_normalizer.mean", "policy.mean"):  # of the roll rate, whose image is less
            t[name] = t[name] + torch.nn.functional.one_hot(torch.tensor(0), len(t[name])) * 0.01

    (finding,) = findings(with_tensors(sideways), "learner-record")
    assert "The obs normalizer of update 6 is not its own mirror image" in finding.statement
    assert finding.cause == "learning"


def test_gradient_steps_that_were_not_taken_are_found(with_tensors: Any) -> None:
    def fewer(t: Tensors) -> None:
        t["learner.adam.step"] = t["learner.adam.step"] - 2

    assert "22 gradient steps" in findings(with_tensors(fewer), "learner-record")[0].statement


def test_moments_that_no_longer_move_are_found(with_tensors: Any) -> None:
    """The best checkpoint becomes one of an update before, with the moments of the last."""
    path = with_tensors(lambda t: None)
    run = RunFolder.open(path)
    latest = run.load_checkpoint("latest")
    earlier = dict(latest.tensors)
    earlier["learner.adam.step"] = earlier["learner.adam.step"] - 4
    earlier["learner.scalars"] = earlier["learner.scalars"] - torch.tensor([0.0, 1.0])
    for name in ("obs", "critic"):
        earlier[f"learner.{name}_normalizer.count"] = latest.tensors[f"learner.{name}_normalizer.count"] - 256
    save_checkpoint(run.checkpoint_path("best"), earlier, dict(latest.meta) | {"update": 5})
    said = " ".join(f.statement for f in findings(path, "learner-record"))
    assert "obs normalizer did not move from update 5 to update 6" in said
    assert "The critic did not move" in said


def test_a_stated_policy_lag_that_is_not_the_recipes_is_found(with_tensors: Any) -> None:
    run = with_tensors(lambda t: None)
    path = run / "ledger.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[3]["freshness.epochs"] = 1
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert (
        "freshness.epochs is not the recipe's 2 in 1 updates" in findings(run, "learner-record")[0].statement
    )
