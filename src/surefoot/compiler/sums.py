"""Sums in an order that takes fewer instructions and no longer.

A product that goes nowhere but into a sum is one instruction with it (a fused multiply-add) if it is added to
what came before: `(a + b c) + d e` are two, `a + (b c + d e)` three. But where `a` comes late, all that is
added to it comes later still. Compilers may not choose: another order is another rounding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from surefoot.compiler.expressions import Expr, order, total

LATENCY = {"symbol": 0.0, "const": 0.0, "neg": 0.0, "abs": 0.0} | {
    "div": 5.0,
    "sqrt": 5.0,
    "sin": 10.0,
    "cos": 10.0,
}
"""How long operations take, roughly, in additions; others take as long as one. Only the order of sums depends
on it."""

SUMS = ("add", "sub")
Term = tuple[int, Expr]
"""1 or -1, and what is added or subtracted."""


def arranged(roots: Iterable[Expr], ready: Mapping[Any, float]) -> tuple[list[Expr], list[float]]:
    """Returns expressions of the same values, and when each has its value; `ready` says so of variables."""
    roots = list(roots)
    nodes = order(roots)
    work = _Arrangement(nodes, roots, ready)
    for x in nodes:
        work.add(x)
    return [work.made[x] for x in roots], [work.at[x] for x in roots]


class _Arrangement:
    def __init__(self, nodes: list[Expr], roots: list[Expr], ready: Mapping[Any, float]) -> None:
        self.uses = Counter([*(a for x in nodes for a in x.args), *roots])
        # sums that are used in another alone
        self.inner = {a for x in nodes if x.op in SUMS for a in x.args if a.op in SUMS and self.uses[a] == 1}
        self.ready = ready
        self.made: dict[Expr, Expr] = {}
        self.at: dict[Expr, float] = {}

    def add(self, x: Expr) -> None:
        """Arranges `x`, whose operands were added before it."""
        if x in self.inner:
            return
        if x.op in SUMS:
            terms = sorted(self._terms(x, 1), key=lambda term: self._wanted(term[1]))
            first = next((i for i, (_, a) in enumerate(terms) if not self._is_product(a)), 0)
            begun = [terms[first], *terms[:first], *terms[first + 1 :]]
            terms = min(begun, terms, key=self._end)  # the first of equals
            self.made[x] = total(self.made[a] if sign > 0 else -self.made[a] for sign, a in terms)
            self.at[x] = self._end(terms)
        else:
            self.made[x] = Expr(x.op, tuple(self.made[a] for a in x.args), x.value)
            begins = max((self.at[a] for a in x.args), default=self.ready.get(x.value, 0.0))
            self.at[x] = begins + LATENCY.get(x.op, 1.0)

    def _terms(self, x: Expr, sign: int) -> list[Term]:
        out: list[Term] = []
        for a, s in zip(x.args, (sign, -sign if x.op == "sub" else sign), strict=True):
            out += self._terms(a, s) if a in self.inner else [(s, a)]
        return out

    def _is_product(self, x: Expr) -> bool:
        return x.op == "mul" and self.uses[x] == 1

    def _wanted(self, x: Expr) -> float:
        """Returns when `x` can be added: the factors of a product are enough."""
        return max(self.at[a] for a in x.args) if self._is_product(x) else self.at[x]

    def _end(self, terms: list[Term]) -> float:
        now = self.at[terms[0][1]]
        for _, x in terms[1:]:
            now = max(now, self._wanted(x)) + 1.0
        return now
