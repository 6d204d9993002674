"""V-trace is what its definition says, GAE where nothing was stale, and wrong in either of two planted ways
otherwise."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.fleet import vtrace as module
from surefoot.fleet.vtrace import Corrected, Steps, slow_vtrace, vtrace
from surefoot.rollout import gae

Vtrace = Callable[..., Corrected]


def drawn(seed: int, horizon: int, envs: int, ends: float) -> tuple[Steps, torch.Tensor]:
    """Random steps with ends of both kinds, and ratios around 1."""
    dice = np.random.default_rng(seed)
    reward, value, following = dice.normal(0, 1, (3, horizon, envs))
    ended = dice.random((horizon, envs)) < ends
    kind = dice.random((horizon, envs)) < 0.5
    rho = np.exp(dice.normal(0, 0.7, (horizon, envs)))
    # within an episode the next value is the next step's
    goes_on = ~ended[:-1]
    following[:-1][goes_on] = value[1:][goes_on]
    tensors = (torch.from_numpy(x) for x in (reward, value, following, ended & kind, ended & ~kind))
    return Steps(*tensors), torch.from_numpy(rho)


def agrees(make: Vtrace, seed: int, horizon: int, envs: int, ends: float, lam: float, bars: Any) -> bool:
    steps, rho = drawn(seed, horizon, envs, ends)
    fast = make(steps, rho, 0.97, lam, *bars)
    slow = slow_vtrace(tuple(x.numpy() for x in steps), rho.numpy(), 0.97, lam, bars)
    return all(np.allclose(a.numpy(), b, rtol=1e-10, atol=1e-10) for a, b in zip(fast, slow, strict=True))


sizes = (st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 4), st.sampled_from([0.0, 0.2, 0.6, 1.0]))


@settings(max_examples=150, deadline=None)
@given(*sizes, st.sampled_from([0.0, 0.5, 0.9, 1.0]), st.sampled_from([(1.0, 1.0), (1.5, 1.0), (0.5, 2.0)]))
def test_it_is_what_its_definition_says(
    seed: int, horizon: int, envs: int, ends: float, lam: float, bars: Any
) -> None:
    assert agrees(vtrace, seed, horizon, envs, ends, lam, bars)


@settings(max_examples=80, deadline=None)
@given(*sizes)
def test_where_nothing_is_stale_it_is_gae(seed: int, horizon: int, envs: int, ends: float) -> None:
    steps, rho = drawn(seed, horizon, envs, ends)
    made = vtrace(steps, torch.ones_like(rho), 0.97, 0.9)
    r, v, after, terminated, truncated = steps
    expected = gae(r, v, after, terminated, truncated, 0.97, 0.9)
    assert torch.allclose(made.advantage, expected, atol=1e-9)
    assert torch.allclose(made.target, expected + v, atol=1e-9)


def test_what_never_would_have_been_done_teaches_nothing() -> None:
    steps, rho = drawn(1, 6, 3, 0.3)
    made = vtrace(steps, torch.zeros_like(rho), 0.97, 0.9)
    assert torch.equal(made.target, steps.value)
    assert torch.equal(made.advantage, torch.zeros_like(rho))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("flows = goes_on * (~truncated).to(value.dtype)", "flows = goes_on"),
        ("lam * rho.clamp(max=c_bar)", "lam * rho"),
        ("bootstrapped = gamma * goes_on * following", "bootstrapped = gamma * following"),
        ("gain + weight * gamma * lam * beyond", "gain + gamma * lam * beyond"),
    ],
    ids=["truncation does not cut", "traces are not cut", "termination bootstraps", "corrected by half"],
)
def test_planted_errors_are_caught(right: str, wrong: str) -> None:
    source = inspect.getsource(vtrace)
    assert source.count(right) == 1
    scope = dict(vars(module))
    exec(source.replace(right, wrong), scope)
    cases = [(seed, 6, 3, 0.3, 0.9, (1.0, 1.0)) for seed in range(5)]
    assert all(agrees(vtrace, *c) for c in cases)
    assert not all(agrees(scope["vtrace"], *c) for c in cases)
