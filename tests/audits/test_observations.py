"""Policy and critic see what is declared; another frame, noise or delay is found, in few environments too."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import torch
from planted_faults import findings, said, uncompiled
from torch import Tensor

from surefoot.env import rules
from surefoot.env.rules import Rules
from surefoot.env.vec_env import VecEnv
from surefoot.tasks import View, terms

NAME = "observations"


def test_a_clean_run_sees_what_is_declared(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings(tiny_run, NAME) == []
    uncompiled(monkeypatch)
    assert findings(tiny_run, NAME) == []


def test_weaker_noise_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Rules.add_noise

    def weak(self: Rules, clean: Tensor, uniforms: Tensor, scale: Tensor) -> Tensor:
        return right(self, clean, uniforms, 0.9 * scale)

    uncompiled(monkeypatch)
    monkeypatch.setattr(Rules, "add_noise", weak)
    text = said(tiny_run, NAME)
    assert "[observation] What the policy sees of 'gravity'" in text
    assert "its noise is 0.90 of the declared size" in text
    assert "critic sees of" not in text


def test_another_clip_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uncompiled(monkeypatch)
    monkeypatch.setattr(rules, "OBSERVATION_LIMIT", 9.0)
    assert "'command'" in said(tiny_run, NAME)


def test_noise_that_all_share_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Rules.add_noise
    monkeypatch.setattr(Rules, "add_noise", lambda self, c, u, s: right(self, c, u[:1].expand_as(u), s))
    uncompiled(monkeypatch)
    assert "'joint_velocity'" in said(tiny_run, NAME)


def test_a_term_in_the_world_s_frame_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = VecEnv.observation_terms

    def world(self: VecEnv, view: View) -> tuple[Tensor, Tensor]:
        clean, extra = right(self, view)
        clean = clean.clone()
        clean[:, 3:6] = torch.tensor([0.0, 0.0, -1.0])
        return clean, extra

    uncompiled(monkeypatch)
    monkeypatch.setattr(VecEnv, "observation_terms", world)
    assert "What the critic sees of 'gravity'" in said(tiny_run, NAME)


def test_one_environment_in_sixteen_is_enough(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = VecEnv.observe

    def dulled(self: VecEnv, view: View, script: Any) -> tuple[Tensor, Tensor, Tensor]:
        obs, critic, exploration = right(self, view, script)
        one = (script.member == 1) & (script.family == 2)
        obs[:, 9:12] = torch.where(one[:, None], 0.9 * obs[:, 9:12], obs[:, 9:12])
        return obs, critic, exploration

    uncompiled(monkeypatch)
    monkeypatch.setattr(VecEnv, "observe", dulled)
    assert "'joint_position'" in said(tiny_run, NAME)


def test_a_command_that_is_seen_late_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Rules.observation_terms

    def late(self: Any, view: View) -> tuple[Tensor, Tensor]:
        clean, extra = right(self, view)
        if len(clean) == self.num_envs:
            now = clean[:, 6:9].clone()
            clean[:, 6:9] = getattr(self, "command_before", now)
            self.command_before = now
        return clean, extra

    uncompiled(monkeypatch)
    monkeypatch.setattr(VecEnv, "observation_terms", late)
    assert "'command'" in said(tiny_run, NAME)


def test_a_last_sight_after_the_reset_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = VecEnv.step

    def reset_first(self: VecEnv, action: Tensor) -> Any:
        step = right(self, action)
        step.final_critic = self.critic
        return step

    uncompiled(monkeypatch)
    monkeypatch.setattr(VecEnv, "step", reset_first)
    assert "sees last of an episode" in said(tiny_run, NAME)


def test_parameters_that_the_critic_is_told_wrongly_is_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = terms.actuation

    @wraps(right)
    def weak(v: View) -> Tensor:
        return right(v) * 0.9

    uncompiled(monkeypatch)
    monkeypatch.setattr(terms, "actuation", weak)
    assert "'actuation'" in said(tiny_run, NAME)
