"""A run that goes on as if it had never stopped is passed; what a resume loses is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from planted_faults import findings, said

from surefoot.engines.stride import StrideEngine
from surefoot.env.compiled import CompiledEnv
from surefoot.learners import Ppo
from surefoot.training import Progress

NAME = "resuming"


def test_a_clean_run_can_be_resumed(tiny_run: Path) -> None:
    assert findings(tiny_run, NAME) == []


def _without_moments(self: Ppo) -> None:
    self.state.exp_avg.zero_()


def _from_the_first_update(self: Ppo) -> None:
    self.state.clock[0] = 0


def _at_the_first_rate(self: Ppo) -> None:
    self.state.scalars[0] = self.recipe.learning_rate


@pytest.mark.parametrize(
    ("loses", "text"),
    [
        (_without_moments, "does not have the adam.exp_avg"),
        (_from_the_first_update, "learning rate or count of updates"),
        (_at_the_first_rate, "learning rate or count of updates"),
    ],
)
def test_what_a_learner_loses_is_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, loses: Callable[[Ppo], None], text: str
) -> None:
    load = Ppo.load

    def lossy(self: Ppo, tensors: Any) -> None:
        load(self, tensors)
        loses(self)

    monkeypatch.setattr(Ppo, "load", lossy)
    assert text in said(tiny_run, NAME)


def test_a_forgotten_best_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = Progress.load

    def forgetful(self: Progress, meta: Any) -> None:
        load(self, meta)
        self.best = -1.0

    monkeypatch.setattr(Progress, "load", forgetful)
    assert "has forgotten its best" in said(tiny_run, NAME)


def test_actions_under_way_that_are_lost_are_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    restore = StrideEngine.restore

    def forgetful(self: StrideEngine, snapshot: Any) -> None:
        held = self.arrays.history.clone()
        restore(self, snapshot)
        self.arrays.history.copy_(held)

    monkeypatch.setattr(StrideEngine, "restore", forgetful)
    assert "[reset]" in said(tiny_run, NAME)


def test_episodes_that_lose_their_beginning_are_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore = CompiledEnv.restore

    def forgetful(self: CompiledEnv, snapshot: Any) -> None:
        restore(self, snapshot)
        self.memory.integers("born").zero_()

    monkeypatch.setattr(CompiledEnv, "restore", forgetful)
    assert "[reset]" in said(tiny_run, NAME)
