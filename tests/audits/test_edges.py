"""Advantages of a block in which much ends, and the rule of success at its limits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from surefoot.audits import advantages, success_rule
from surefoot.audits.case import Case
from surefoot.rollout import gae
from surefoot.runs import RunFolder
from surefoot.statistics import succeeded


@pytest.fixture(scope="module")
def case(tiny_run: Path) -> Case:
    return Case(RunFolder.open(tiny_run), 5)


def test_honest_rules_are_silent(case: Case) -> None:
    assert advantages.look(case) == []
    assert success_rule.look(case) == []


def some(every: int, edit: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """The run's own code, with another mask of terminations for every so manieth environment."""
    own = gae

    def wrong(r: Tensor, v: Tensor, n: Tensor, done: Tensor, over: Tensor, *more: Any) -> Tensor:
        at = torch.arange(done.shape[1]) % every == 0
        return own(r, v, n, torch.where(at, edit(done), done), over, *more)

    return wrong


@pytest.mark.parametrize(
    "edit", [lambda done: done.roll(1, 0), torch.zeros_like], ids=["a step late", "as if life had gone on"]
)
def test_few_environments_are_enough(
    case: Case, monkeypatch: pytest.MonkeyPatch, edit: Callable[[Tensor], Tensor]
) -> None:
    monkeypatch.setattr(advantages, "gae", some(4, edit))
    (found,) = advantages.look(case)
    assert "in a made-up block" in found.statement.lower()


@pytest.mark.parametrize(
    "name", ["velocity_error_mps", "yaw_error_radps", "windows_as_told", "stand_turn_rad"]
)
def test_a_limit_that_is_a_tenth_wider_is_named(
    case: Case, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    own = succeeded
    factor = 1.1 if name == "windows_as_told" else 1 / 1.1

    def loose(rows: dict[str, np.ndarray], contract: Any) -> np.ndarray:
        return own(rows | {name: rows[name] * factor}, contract)

    monkeypatch.setattr(success_rule, "judged", loose)
    (found,) = success_rule.look(case)
    assert name in found.statement
    assert "is a failure" in found.statement


def test_a_fall_that_succeeds_is_found(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    own = succeeded
    all_last = np.array(["timeout"])
    monkeypatch.setattr(
        success_rule,
        "judged",
        lambda rows, c: own(rows | {"reason": all_last.repeat(len(rows["reason"]))}, c),
    )
    (found,) = success_rule.look(case)
    assert "reason" in found.statement
