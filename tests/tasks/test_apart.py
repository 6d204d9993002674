"""A term that mixes environments is refused, whatever it does it with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import tiny
from surefoot.contract import SurefootError
from surefoot.tasks import BUILT_IN, SPARSE, Task, View, check_apart, task
from surefoot.training import make_plan

Paid = Callable[[Tensor], Tensor]
MIXING: dict[str, Paid] = {
    "the first one's row": lambda x: x[:1].expand_as(x),
    "the first one's row, broadcast": lambda x: x[0] + 0.0 * x,
    "a number of the first one": lambda x: x - x[0],
    "the last one's row": lambda x: x * (x[-1:] > 0),
    "a mean": lambda x: x - x.mean(),
    "a mean over axis 0": lambda x: x - x.mean(0),
    "a sum, kept": lambda x: x / x.sum(0, keepdim=True),
    "a maximum": lambda x: x / x.amax(),
    "a norm": lambda x: x / torch.linalg.vector_norm(x),
    "a median": lambda x: (x > x.median()).float(),
    "their number": lambda x: x / len(x),
    "their number by shape": lambda x: x * (1.0 / x.shape[0]),
    "their number, in a mask": lambda x: x * float(x.numel() > 1),
    "roll": lambda x: x.roll(1, 0),
    "flip": lambda x: x.flip(0),
    "sort": lambda x: x.sort(0).values,
    "rank": lambda x: x.argsort().float(),
    "cumsum": lambda x: x.cumsum(0),
    "an order of rows": lambda x: x[torch.arange(len(x)).flip(0)],
    "rows of others, joined": lambda x: torch.cat([x[1:], x[:1]]),
    "rows of others, stacked": lambda x: torch.stack([x, x.flip(0)], 1).sum(1),
    "a matrix": lambda x: x @ x[:, None].expand(len(x), len(x)),
    "all pairs": lambda x: (x[:, None] - x[None, :]).abs().sum(1),
    "a transposed sum": lambda x: x[:, None].transpose(0, 1).sum(1).expand_as(x),
    "softmax": lambda x: x.softmax(0),
    "one row for all": lambda x: x[:1],
    "no rows": lambda x: x.sum(),
}
APART: dict[str, Paid] = {
    "a square": torch.square,
    "a column": lambda x: torch.stack([x, 2 * x], 1)[:, 0],
    "a cell of a stack": lambda x: torch.stack([x, 2 * x])[0],
    "a sum over a stack": lambda x: torch.stack([x, 2 * x]).sum(0),
    "its number in a shape": lambda x: x.view(len(x), -1).sum(1),
    "what cannot be traced": lambda x: torch.erf(x),
}


def paying(paid: Paid) -> Task:
    """A tiny task whose term `torque` is paid otherwise."""

    def torque(v: View) -> Tensor:
        return paid(v.robot.torque.square().sum(1))

    walk = tiny.walk()
    return replace(walk, terms={**walk.terms, "torque": torque})


@pytest.mark.parametrize("how", MIXING)
def test_a_term_that_mixes_environments_is_refused(how: str) -> None:
    with pytest.raises(SurefootError, match="'torque' mixes environments"):
        check_apart(paying(MIXING[how]))


@pytest.mark.parametrize("how", APART)
def test_a_term_of_its_own_row_is_not(how: str) -> None:
    check_apart(paying(APART[how]))


@pytest.mark.parametrize("name", [*BUILT_IN, f"walk-flat{SPARSE}"])
def test_built_in_terms_keep_environments_apart(name: str) -> None:
    check_apart(task(name))


def mixed() -> Task:
    return paying(MIXING["the first one's row"])


def test_such_a_task_is_not_planned() -> None:
    with pytest.raises(SurefootError, match="mixes environments"):
        make_plan(f"{__name__}:mixed")


@pytest.mark.parametrize("where", ["observation", "privileged", "terminations"])
def test_every_kind_of_term_is_looked_at(where: str) -> None:
    walk = tiny.walk()
    name = getattr(walk.contract, where)[0].name
    kept = walk.terms[name]

    def mixing(v: View, **params: float) -> Tensor:
        return kept(v, **params).flip(0)

    with pytest.raises(SurefootError, match=f"'{name}' mixes environments"):
        check_apart(replace(walk, terms={**walk.terms, name: mixing}))
