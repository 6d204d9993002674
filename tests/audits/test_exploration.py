"""Exploration is the noise of its steps' keys; weaker noise and noise that environments share are found."""

from __future__ import annotations

from pathlib import Path

import pytest
from faulty import findings, said, uncompiled
from torch import Tensor

from surefoot.env import vec_env
from surefoot.keyed import box_muller

NAME = "exploration"


def test_a_clean_run_explores_by_its_keys(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings(tiny_run, NAME) == []
    uncompiled(monkeypatch)
    assert findings(tiny_run, NAME) == []


def test_weaker_exploration_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uncompiled(monkeypatch)
    monkeypatch.setattr(vec_env, "box_muller", lambda u: 0.9 * box_muller(u))
    assert "its size is 0.90 of" in said(tiny_run, NAME)


def test_exploration_that_all_share_is_found(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def shared(u: Tensor) -> Tensor:
        return box_muller(u)[:1].expand(len(u), -1).clone()

    uncompiled(monkeypatch)
    monkeypatch.setattr(vec_env, "box_muller", shared)
    assert "[learning] Exploration is not that of its steps' keys" in said(tiny_run, NAME)
