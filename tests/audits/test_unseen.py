"""A clean run's policy sees what it was declared to see and nothing else; a leak is found, however small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from planted_faults import findings, said, uncompiled
from torch import Tensor

from surefoot.env.vec_env import VecEnv
from surefoot.tasks import View

NAME = "unseen"


def test_a_clean_policy_sees_nothing_else(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings(tiny_run, NAME) == []
    uncompiled(monkeypatch)
    assert findings(tiny_run, NAME) == []


def test_a_leak_of_the_body_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = VecEnv.observation_terms

    def leaky(self: VecEnv, view: View) -> tuple[Tensor, Tensor]:
        clean, extra = right(self, view)
        clean[:, 5] += 1e-5 * view.params.payload_kg
        return clean, extra

    uncompiled(monkeypatch)
    monkeypatch.setattr(VecEnv, "observation_terms", leaky)
    text = said(tiny_run, NAME)
    assert "Another 'parameters.payload_kg' alone changes what the policy sees of gravity" in text
    assert "friction" not in text


def test_a_critic_that_is_not_told_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = VecEnv.observation_terms

    def silent(self: VecEnv, view: View) -> tuple[Tensor, Tensor]:
        clean, extra = right(self, view)
        extra[:, 7] = 0.8
        return clean, extra

    uncompiled(monkeypatch)
    monkeypatch.setattr(VecEnv, "observation_terms", silent)
    assert "What the critic sees of 'friction' does not follow" in said(tiny_run, NAME)


def test_sight_of_a_neighbour_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = VecEnv.observe

    def mixed(self: VecEnv, view: View, script: Any) -> tuple[Tensor, Tensor, Tensor]:
        obs, critic, exploration = right(self, view, script)
        obs[:, 9] = obs[:, 9] + 1e-4 * obs[:, 9].mean()
        return obs, critic, exploration

    uncompiled(monkeypatch)
    monkeypatch.setattr(VecEnv, "observe", mixed)
    assert "follows the state of others" in said(tiny_run, NAME)
