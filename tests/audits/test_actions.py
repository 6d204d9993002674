"""Each action moves its own joint as declared; other targets, a dead joint and a delay that is not there are
found."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from planted_faults import findings, said, uncompiled
from torch import Tensor

from surefoot.engines import Parameters, Start
from surefoot.engines.stride import StrideEngine
from surefoot.env.rules import Rules

NAME = "actions"


def test_actions_of_a_clean_run_do_what_is_declared(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings(tiny_run, NAME) == []
    uncompiled(monkeypatch)
    assert findings(tiny_run, NAME) == []


@pytest.mark.parametrize("factor", [0.9, -1.0, 0.0])
def test_one_joint_with_another_scale_is_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, factor: float
) -> None:
    right = Rules.joint_targets

    def other(self: Rules, action: Tensor) -> Tensor:
        changed = action.clone()
        changed[:, 4] *= factor
        return right(self, changed)

    uncompiled(monkeypatch)
    monkeypatch.setattr(Rules, "joint_targets", other)
    text = said(tiny_run, NAME)
    assert "[action] Targets of 1 joints (FL_thigh)" in text
    assert ("moves nothing" in text) == (factor == 0.0)
    assert ("makes its angle smaller" in text) == (factor == -1.0)


def test_legs_that_are_swapped_behind_the_targets_are_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = StrideEngine.step

    def swapped(self: StrideEngine, targets: Tensor) -> object:
        return right(self, targets[:, [3, 4, 5, 0, 1, 2, *range(6, 12)]])

    uncompiled(monkeypatch)
    monkeypatch.setattr(StrideEngine, "step", swapped)
    assert "hardly ever moves it more than all others" in said(tiny_run, NAME)


def test_a_delay_that_is_not_applied_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = StrideEngine.reset

    def prompt(self: StrideEngine, mask: Tensor, start: Start, parameters: Parameters) -> None:
        now = parameters.clone()
        now.delay_s = torch.zeros_like(now.delay_s)
        right(self, mask, start, now)

    uncompiled(monkeypatch)
    monkeypatch.setattr(StrideEngine, "reset", prompt)
    assert "take effect before it is over" in said(tiny_run, NAME)


def test_an_action_of_the_step_before_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Rules.joint_targets
    monkeypatch.setattr(Rules, "joint_targets", lambda self, action: right(self, self.state.action))
    uncompiled(monkeypatch)
    assert "Targets of 12 joints" in said(tiny_run, NAME)
