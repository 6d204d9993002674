"""Sums in another order: the same values, fewer instructions, and not later."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from surefoot.compiler.expressions import Expr, evaluate, sqrt, symbol, where
from surefoot.compiler.sums import arranged

NAMES = "abcdef"
LEAVES = st.sampled_from([symbol(name) for name in NAMES])


def grown(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    pairs = st.tuples(inner, inner)
    return st.one_of(
        pairs.map(lambda p: p[0] + p[1]),
        pairs.map(lambda p: p[0] - p[1]),
        pairs.map(lambda p: p[0] * p[1]),
        pairs.map(lambda p: where(p[0] < p[1], p[0], -p[1])),
        inner.map(lambda x: sqrt(x * x + 1.0)),
    )


@given(
    roots=st.lists(st.recursive(LEAVES, grown, max_leaves=40), min_size=1, max_size=4),
    ready=st.dictionaries(st.sampled_from(NAMES), st.floats(0.0, 20.0)),
    seed=st.integers(0, 2**32 - 1),
)
def test_values_stay(roots: list[Expr], ready: dict[str, float], seed: int) -> None:
    values = dict(zip(NAMES, np.random.default_rng(seed).integers(-3, 4, len(NAMES)), strict=True))
    found, _ = arranged(roots, ready)
    for one, other in zip(evaluate(roots, values), evaluate(found, values), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * (1.0 + np.abs(one)))


def test_products_are_added_to_what_was_there() -> None:
    a, b, c, d, e = map(symbol, "abcde")
    found, at = arranged([a + (b * c + d * e)], {})
    assert found == [(a + b * c) + d * e]
    assert at == [2.0]


def test_what_comes_late_is_added_late() -> None:
    a, b, c, d, e = map(symbol, "abcde")
    found, at = arranged([(a + b * c) + d * e], {"a": 9.0})
    assert found == [(b * c + d * e) + a]
    assert at == [10.0]


def test_a_sum_that_others_need_stays_one() -> None:
    a, b, c = map(symbol, "abc")
    shared = a + b * c
    found, _ = arranged([shared + a * b, shared * c], {})
    assert found == [shared + a * b, shared * c]


def test_what_is_added_twice_counts_twice() -> None:
    a, b = map(symbol, "ab")
    (found,), _ = arranged([(a + a) + (b + a)], {})
    assert evaluate([found], {"a": 2.0, "b": 5.0}) == [11.0]
