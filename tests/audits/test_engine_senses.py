"""What engines tell of feet and contacts is held to plain MuJoCo; other frames and flags are found."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from planted_faults import findings, said, uncompiled

from surefoot.engines import RobotState
from surefoot.engines.stride import StrideEngine

NAME = "engine-senses"


def test_engines_of_a_clean_run_tell_what_is(tiny_run: Path) -> None:
    assert findings(tiny_run, NAME) == []


def _in_the_trunks_frame(s: RobotState) -> RobotState:
    turned = torch.roll(s.foot_velocity, 1, dims=-1)
    return dataclasses.replace(s, foot_velocity=turned)


def _on_the_ground_instead(s: RobotState) -> RobotState:
    return dataclasses.replace(s, foot_force=-s.foot_force)


def _of_the_next_foot(s: RobotState) -> RobotState:
    return dataclasses.replace(s, foot_position=torch.roll(s.foot_position, 1, dims=1))


def _never(s: RobotState) -> RobotState:
    return dataclasses.replace(s, trunk_contact=torch.zeros_like(s.trunk_contact))


@pytest.mark.parametrize(
    ("tells", "text"),
    [
        (_in_the_trunks_frame, "[physics] In training an engine tells other velocities of feet"),
        (_on_the_ground_instead, "other forces on feet"),
        (_of_the_next_foot, "other positions of feet"),
        (_never, "In robots laid down an engine tells other contact of the trunk"),
    ],
)
def test_what_an_engine_tells_wrongly_is_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, tells: Callable[[RobotState], RobotState], text: str
) -> None:
    state = StrideEngine.state

    def told(self: StrideEngine, rows: torch.Tensor | None = None) -> RobotState:
        return tells(state(self, rows))

    step = StrideEngine.step
    uncompiled(monkeypatch)
    monkeypatch.setattr(StrideEngine, "state", told)
    monkeypatch.setattr(StrideEngine, "step", lambda self, targets: tells(step(self, targets)))
    assert text in said(tiny_run, NAME)
