"""Values of a world that is known: silent on the run's own collection, and every wrong end is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from planted_faults import findings, said
from torch import Tensor

from surefoot.audits.timeouts import known, learned
from surefoot.training import iteration

NAMES = ("reward", "value", "next_value", "terminated", "truncated")


@pytest.mark.parametrize(("gamma", "lam"), [(0.99, 0.95), (0.97, 0.0), (0.995, 1.0)])
def test_the_runs_own_collection_comes_to_what_is_known(gamma: float, lam: float) -> None:
    assert np.allclose(learned(gamma, lam), known(gamma), rtol=1e-4)


def test_a_clean_run_has_nothing(tiny_run: Path) -> None:
    assert findings(tiny_run, "timeouts") == []


def _as_terminal(x: dict[str, Tensor]) -> None:
    x["terminated"] = x["terminated"] | x["truncated"]


def _as_if_it_went_on(x: dict[str, Tensor]) -> None:
    x["terminated"] = torch.zeros_like(x["terminated"])


def _of_the_next_start(x: dict[str, Tensor]) -> None:
    x["next_value"] = x["next_value"].clone()
    x["next_value"][:-1] = torch.where(x["truncated"][:-1], x["value"][1:], x["next_value"][:-1])


def _a_tenth_less(x: dict[str, Tensor]) -> None:
    x["next_value"] = torch.where(x["truncated"], 0.9 * x["next_value"], x["next_value"])


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (_as_terminal, "run out of time"),
        (_as_if_it_went_on, "are terminated"),
        (_of_the_next_start, "run out of time"),
        (_a_tenth_less, "run out of time"),
    ],
)
def test_ends_that_are_valued_otherwise_are_found(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[[dict[str, Tensor]], None], says: str
) -> None:
    right = iteration.gae

    def wrong(*given: Any, **named: Any) -> Tensor:
        x = dict(zip(NAMES, given, strict=False))
        fault(x)
        return right(*x.values(), *given[len(x) :], **named)

    monkeypatch.setattr(iteration, "gae", wrong)
    text = said(tiny_run, "timeouts")
    assert says in text
    assert text.startswith("[learning]")
