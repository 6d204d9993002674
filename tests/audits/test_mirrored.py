"""The reflection of a clean run is one of its robot's world; a wrong sign or place is found."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from planted_faults import findings, said

from surefoot.learners import Symmetry, symmetry
from surefoot.training import RobotPlan

NAME = "mirror"


def test_the_mirror_of_a_clean_run_is_one(tiny_run: Path) -> None:
    assert findings(tiny_run, NAME) == []


def _turning(s: Symmetry) -> Symmetry:
    """Yaw commands keep their sign."""
    s.observation.sign[8] = s.critic.sign[8] = 1.0
    return s


def _hip(s: Symmetry) -> Symmetry:
    """One pair of hips keeps the sign of its actions."""
    s.action.sign[:6:3] = 1.0
    return s


def _feet(s: Symmetry) -> Symmetry:
    """Heights of feet are not swapped."""
    s.critic.index[-4:] = torch.arange(len(s.critic.index) - 4, len(s.critic.index))
    return s


def _once(s: Symmetry) -> Symmetry:
    """Joints go round instead of being swapped."""
    return dataclasses.replace(s, action=dataclasses.replace(s.action, index=s.action.index.roll(1)))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (_turning, "'command'"),
        (_hip, "'last_action'"),
        (_feet, "'foot_height'"),
        (_once, "mirror image of action vectors is not what it was"),
    ],
)
def test_another_reflection_is_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[[Symmetry], Symmetry], words: str
) -> None:
    right = symmetry

    def other(self: RobotPlan, device: torch.device) -> Symmetry | None:
        own = right(self.task.contract, self.task.robot, self.task.scan, device)
        return own and fault(own)

    monkeypatch.setattr(RobotPlan, "mirror", other)
    text = said(tiny_run, NAME)
    assert words in text
    assert "[learning]" in text
