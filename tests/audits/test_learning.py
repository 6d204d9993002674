"""A clean run collects, learns and records by the book; each way of not doing so is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from surefoot.audits import audit_run
from surefoot.audits.updates import Adam
from surefoot.env.compiled import CompiledEnv
from surefoot.learners import Ppo
from surefoot.learners.normalizer import Normalizer
from surefoot.rollout import RolloutBlock
from surefoot.runs import RunFolder
from surefoot.training import batch, iteration
from tiny import RECIPE


def found(run: Path, name: str) -> str:
    audit = audit_run(RunFolder.open(run), only=[name], seed=1)
    assert not audit.failed, audit.failed
    assert not audit.not_applicable
    return " ".join(f.statement for f in audit.findings)


@pytest.mark.parametrize("name", ["rollout", "update", "ledger-rows"])
def test_a_clean_run_learns_by_the_book(tiny_run: Path, name: str) -> None:
    assert found(tiny_run, name) == ""


def _timeouts_are_falls(right: Callable[..., Tensor], *given: Any, **named: Any) -> Tensor:
    reward, value, next_value, terminated, truncated, *rest = given
    return right(reward, value, next_value, terminated | truncated, truncated, *rest, **named)


def _other_lambda(right: Callable[..., Tensor], *given: Any, **named: Any) -> Tensor:
    return right(*given[:-1], given[-1] * 0.99, **named)


@pytest.mark.parametrize("fault", [_timeouts_are_falls, _other_lambda])
def test_other_advantages_are_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[..., Tensor]
) -> None:
    right = iteration.gae
    monkeypatch.setattr(iteration, "gae", lambda *given, **named: fault(right, *given, **named))
    assert "Advantages are not those of the declared discounts" in found(tiny_run, "rollout")


def test_a_moving_normaliser_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Normalizer.__call__

    def moving(self: Normalizer, x: Tensor) -> Tensor:
        self.mean.add_(0.01 * (x.mean(0) - self.mean))
        return right(self, x)

    monkeypatch.setattr(Normalizer, "__call__", moving)
    finding = audit_run(RunFolder.open(tiny_run), only=["rollout"], seed=1).findings[0]
    assert "the gap grows with every step" in finding.statement
    assert finding.cause == "normaliser"


def test_a_block_that_was_shifted_by_a_step_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = iteration.collect

    def late(env: Any, learner: Any, block: RolloutBlock, *rest: float) -> float:
        out = right(env, learner, block, *rest)
        block.reward.copy_(torch.roll(block.reward, 1, 0))
        return out

    monkeypatch.setattr(iteration, "collect", late)
    assert "'reward' of a block is not what its own actions lead to" in found(tiny_run, "rollout")


def test_another_loss_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Ppo.update

    def tilted(self: Ppo, block: RolloutBlock) -> None:
        kept = block.advantage.clone()
        block.advantage.copy_(kept.clamp_min(0))
        right(self, block)
        block.advantage.copy_(kept)

    monkeypatch.setattr(Ppo, "update", tilted)
    assert "moves the actor otherwise than PPO does" in found(tiny_run, "update")


def test_gradients_of_another_length_are_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adam's steps hardly show it: they are as long whatever the gradients' unit is."""
    right = Ppo.update

    def doubled(self: Ppo, block: RolloutBlock) -> None:
        right(self, block)
        self.state.exp_avg.mul_(2)
        self.state.exp_avg_sq.mul_(4)

    monkeypatch.setattr(Ppo, "update", doubled)
    assert "After an update Adam's mean of its gradients is 100% off" in found(tiny_run, "update")


def test_the_first_sight_of_an_earlier_rollout_is_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, held = CompiledEnv._begin, dict[int, Tensor]()

    def stale(self: CompiledEnv, log_std: Tensor, block: RolloutBlock) -> None:
        right(self, log_std, block)
        if len(block.obs) == RECIPE.horizon:
            block.critic[0] = held.setdefault(id(block), block.critic[0].clone())

    monkeypatch.setattr(CompiledEnv, "_begin", stale)
    assert "The first step alone has what an earlier rollout saw." in found(tiny_run, "rollout")


def test_a_normaliser_that_is_not_updated_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Normalizer, "update", lambda self, x, group=None: None)
    assert "normalizer's" in found(tiny_run, "update")


def test_rows_that_count_otherwise_are_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = batch._quantile
    monkeypatch.setattr(batch, "_quantile", lambda ordered, share: right(ordered, min(0.95, share)))
    assert "advantage.p99" in found(tiny_run, "ledger-rows")


def test_the_followers_adam_is_torchs() -> None:
    numbers = torch.Generator().manual_seed(1)
    mine, theirs = (torch.nn.Parameter(torch.ones(50).double()) for _ in range(2))
    own, right = Adam([mine], lr=1e-2, eps=1e-5), torch.optim.Adam([theirs], lr=1e-2, eps=1e-5)
    own.state[mine] = {"step": torch.tensor(0.0)} | {
        k: torch.zeros(50).double() for k in ("exp_avg", "exp_avg_sq")
    }
    for _ in range(20):
        mine.grad = theirs.grad = torch.randn(50, generator=numbers).double()
        own.step()
        right.step()
    assert torch.allclose(mine, theirs, rtol=0, atol=1e-14)
