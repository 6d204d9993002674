"""Symbolic scalars that fold and share, and the vectors of mechanics on top of them.

An expression is a node of a directed acyclic graph. Equal expressions are the same node (hash-consing), so
common subexpressions are shared without being looked for; zeros, ones and constants are folded as nodes are
made. Physics written in this algebra is evaluated in two ways: by numpy in float64 (`evaluate`), and by a
compiler to which `surefoot.compiler.printer` prints it.

Masks (comparisons) are expressions too; `where(mask, a, b)` selects. Both sides of a `where` are always
computed, so neither may trap: divide by `maximum(x, tiny)`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np


class Expr:
    """A scalar or a mask: an operation on other expressions. Made by the functions below, never directly."""

    __slots__ = ("__weakref__", "args", "op", "value")
    op: str
    args: tuple[Expr, ...]
    value: Any
    _made: ClassVar[WeakValueDictionary[tuple[Any, ...], Expr]] = WeakValueDictionary()

    def __new__(cls, op: str, args: tuple[Expr, ...] = (), value: Any = None) -> Expr:
        key = (op, args, value, math.copysign(1.0, value) if op == "const" else None)
        node = cls._made.get(key)
        if node is None:
            node = super().__new__(cls)
            node.op, node.args, node.value = op, args, value
            cls._made[key] = node
        return node

    def __add__(self, other: Any) -> Expr:
        return add(self, lift(other))

    def __radd__(self, other: Any) -> Expr:
        return add(lift(other), self)

    def __sub__(self, other: Any) -> Expr:
        return subtract(self, lift(other))

    def __rsub__(self, other: Any) -> Expr:
        return subtract(lift(other), self)

    def __mul__(self, other: Any) -> Expr:
        return multiply(self, lift(other))

    def __rmul__(self, other: Any) -> Expr:
        return multiply(lift(other), self)

    def __truediv__(self, other: Any) -> Expr:
        return divide(self, lift(other))

    def __rtruediv__(self, other: Any) -> Expr:
        return divide(lift(other), self)

    def __neg__(self) -> Expr:
        return negate(self)

    def __lt__(self, other: Any) -> Expr:
        return Expr("lt", (self, lift(other)))

    def __le__(self, other: Any) -> Expr:
        return Expr("le", (self, lift(other)))

    def __gt__(self, other: Any) -> Expr:
        return Expr("lt", (lift(other), self))

    def __ge__(self, other: Any) -> Expr:
        return Expr("le", (lift(other), self))

    def __and__(self, other: Expr) -> Expr:
        return Expr("and", (self, other))

    def __or__(self, other: Expr) -> Expr:
        return Expr("or", (self, other))

    def __invert__(self) -> Expr:
        return Expr("not", (self,))

    def __repr__(self) -> str:
        return f"{self.op}({self.value if not self.args else ', '.join(map(repr, self.args))})"


def lift(x: Any) -> Expr:
    return x if isinstance(x, Expr) else Expr("const", (), float(x))


def symbol(variable: Any) -> Expr:
    """A leaf that stands for the value of a variable (any hashable) when the expression is evaluated."""
    return Expr("symbol", (), variable)


def _constants(*args: Expr) -> bool:
    return all(a.op == "const" for a in args)


def is_zero(x: Expr) -> bool:
    return x.op == "const" and x.value == 0.0


def add(a: Expr, b: Expr) -> Expr:
    if _constants(a, b):
        return lift(a.value + b.value)
    if is_zero(a):
        return b
    if is_zero(b):
        return a
    if b.op == "neg":
        return subtract(a, b.args[0])
    if a.op == "neg":
        return subtract(b, a.args[0])
    return Expr("add", (a, b))


def subtract(a: Expr, b: Expr) -> Expr:
    if _constants(a, b):
        return lift(a.value - b.value)
    if is_zero(b):
        return a
    if is_zero(a):
        return negate(b)
    if a is b:
        return lift(0.0)
    if b.op == "neg":
        return add(a, b.args[0])
    return Expr("sub", (a, b))


def multiply(a: Expr, b: Expr) -> Expr:
    if _constants(a, b):
        return lift(a.value * b.value)
    if b.op == "const":
        a, b = b, a
    if a.op == "const":
        if a.value == 0.0:
            return a
        if a.value == 1.0:
            return b
        if a.value == -1.0:
            return negate(b)
    if a.op == "neg" and b.op == "neg":
        return multiply(a.args[0], b.args[0])
    if a.op == "neg":
        return negate(multiply(a.args[0], b))
    if b.op == "neg":
        return negate(multiply(a, b.args[0]))
    return Expr("mul", (a, b))


def divide(a: Expr, b: Expr) -> Expr:
    if b.op == "const":
        return multiply(a, lift(1.0 / b.value))
    return a if is_zero(a) else Expr("div", (a, b))


def negate(a: Expr) -> Expr:
    if a.op == "const":
        return lift(-a.value)
    if a.op == "neg":
        return a.args[0]
    if a.op == "sub":
        return Expr("sub", (a.args[1], a.args[0]))
    return Expr("neg", (a,))


def _function(op: str, of: Callable[..., float]) -> Callable[..., Expr]:
    def make(*args: Any) -> Expr:
        lifted = tuple(lift(a) for a in args)
        if _constants(*lifted):
            return lift(of(*(a.value for a in lifted)))
        return Expr(op, lifted)

    return make


sqrt = _function("sqrt", math.sqrt)
sin = _function("sin", math.sin)
cos = _function("cos", math.cos)
exp = _function("exp", math.exp)
log = _function("log", math.log)
arctan2 = _function("atan2", math.atan2)
floor = _function("floor", math.floor)
absolute = _function("abs", abs)
minimum = _function("min", min)
maximum = _function("max", max)
power = _function("pow", operator.pow)


def where(mask: Expr, a: Any, b: Any) -> Expr:
    a, b = lift(a), lift(b)
    return a if a is b else Expr("where", (mask, a, b))


def clamp(x: Any, low: Any, high: Any) -> Expr:
    return minimum(maximum(x, low), high)


def total(terms: Iterable[Any]) -> Expr:
    out = lift(0.0)
    for term in terms:
        out = out + term
    return out


def order(roots: Iterable[Expr]) -> list[Expr]:
    """Every node that the roots need, operands before their operations."""
    done: dict[Expr, None] = {}
    stack: list[tuple[Expr, bool]] = [(r, False) for r in reversed(list(roots))]
    while stack:
        node, ready = stack.pop()
        if node in done:
            continue
        if ready or not node.args:
            done[node] = None
        else:
            stack.append((node, True))
            stack.extend((a, False) for a in reversed(node.args))
    return list(done)


_NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "exp": np.exp,
    "log": np.log,
    "atan2": np.arctan2,
    "floor": np.floor,
    "abs": np.abs,
    "min": np.minimum,
    "max": np.maximum,
    "pow": np.power,
    "lt": np.less,
    "le": np.less_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "where": np.where,
}


def evaluate(
    roots: Sequence[Expr],
    values: Mapping[Any, Any] | Callable[[Any], Any],
    nodes: Sequence[Expr] | None = None,
) -> list[Any]:
    """The values of expressions in float64; `values` maps each symbol's variable to a number or an array.
    `nodes` is order(roots), where it is known already."""
    look = values if callable(values) else values.__getitem__
    results: dict[Expr, Any] = {}
    with np.errstate(all="ignore"):  # the side of a `where` that is not taken may be anything
        for node in order(roots) if nodes is None else nodes:
            if node.op == "const":
                results[node] = node.value
            elif node.op == "symbol":
                results[node] = look(node.value)
            elif len(node.args) == 2:
                a, b = node.args
                results[node] = _NUMPY[node.op](results[a], results[b])
            else:
                results[node] = _NUMPY[node.op](*[results[a] for a in node.args])
    return [results[r] for r in roots]
