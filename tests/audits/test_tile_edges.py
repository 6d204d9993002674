"""Robots that leave their tile go on at its other side; those that do not are found."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from surefoot.audits import tile_edges
from surefoot.audits.case import Case
from surefoot.engines.mujoco import MujocoEngine
from surefoot.training import make_plan


@pytest.fixture
def case() -> Case:
    """A plan on terrain that has not been trained."""
    case = Case.__new__(Case)
    case.__dict__ |= {"seed": 1, "robot": make_plan("walk-rough"), "_once": {}}
    return case


@torch.inference_mode()
def found(case: Case) -> str:
    return " ".join(f"[{f.cause}] {f.statement}" for f in tile_edges._on_the_panel(case))


def test_held_out_robots_go_on_at_the_other_side(case: Case) -> None:
    assert found(case) == ""


def test_half_a_period_is_found(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    right = MujocoEngine.translate

    def half(self: MujocoEngine, mask: Tensor, offset: Tensor) -> None:
        right(self, mask, offset / 2)

    monkeypatch.setattr(MujocoEngine, "translate", half)
    assert "[panel-plant] Held-out robots that leave their tile" in found(case)


def test_every_way_of_not_going_on_is_told() -> None:
    count = 4
    middle = np.zeros((count, 2))
    at = np.tile([3.99, 0.0, 0.3], (count, 1))
    feet = np.repeat(at[:, None], 4, 1)
    before = {"position": at, "foot_position": feet, "linear_velocity": np.zeros((count, 3))}
    after = {k: v - [7.98, 0, 0] if "position" in k else v.copy() for k, v in before.items()}
    assert not any(x.any() for x in tile_edges.faults([before, after], middle).values())
    after["position"][0] += [7.98, 0, 0]
    after["foot_position"][0] += [7.98, 0, 0]
    after["foot_position"][1] += [7.98, 0, 0]
    after["linear_velocity"][2] += 2.0
    after["position"][3] += [1.0, 0, 0]
    after["foot_position"][3] += [1.0, 0, 0]
    told = {
        text: np.flatnonzero(x).tolist() for text, x in tile_edges.faults([before, after], middle).items()
    }
    assert told["do not go on at its other side"] == [0]
    assert told["lose their feet"] == [1]
    assert told["lose their velocity"] == [2]
    assert told["go on elsewhere than at its other side"] == [3]
