"""Symbolic tensors: torch functions on them build expressions instead of computing.

A `Symbols` looks like a tensor [1, ...] whose first axis stands for the environments. A task's functions are
called with it once, and what they return is printed as the code of a kernel. So a term is written once, in
torch. What cannot be traced (an operation that is not in the tables below, branching on data, mixing rows of
different environments) is refused with the operation's name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from surefoot.compiler.expressions import (
    Expr,
    absolute,
    arctan2,
    cos,
    exp,
    floor,
    lift,
    log,
    maximum,
    minimum,
    sin,
    sqrt,
    total,
    where,
)
from surefoot.compiler.operators import Operators
from surefoot.contract import SurefootError

TRUE, FALSE = lift(0.0) < 1.0, lift(1.0) < 0.0
Shape = tuple[int, ...]


class Untraceable(SurefootError):
    """Something a task does cannot be compiled."""


class Symbols(Operators):
    """An array of expressions that answers to torch's functions. `mask` marks booleans."""

    __slots__ = ("a", "mask")
    __array_priority__ = 1000

    def __init__(self, a: Any, mask: bool = False) -> None:
        self.a, self.mask = np.asarray(a, object), mask

    # ---- what it looks like

    @property
    def shape(self) -> Shape:
        return self.a.shape

    @property
    def ndim(self) -> int:
        return self.a.ndim

    @property
    def dtype(self) -> torch.dtype:
        return torch.bool if self.mask else torch.float32

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def __len__(self) -> int:
        return len(self.a)

    def __bool__(self) -> bool:
        raise Untraceable("A term branches on data; use torch.where or a product with a mask.")

    def flat(self) -> list[Expr]:
        return list(self.a.reshape(-1))

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", str(func))
        return _call(name.strip("_"), *args, **(kwargs or {}))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in _FUNCTIONS:
            raise _unknown(name)
        return lambda *args, **kwargs: _call(name, self, *args, **kwargs)

    def __float__(self) -> float:
        raise Untraceable("A term takes a number out of a tensor; keep to tensors.")

    __int__ = __float__

    def __setitem__(self, at: Any, value: Any) -> None:
        raise Untraceable("A term assigns to a part of a tensor; use torch.where or torch.cat.")

    def _apply(self, name: str, *args: Any) -> Self:
        out: Self = _call(name, *args)
        return out

    def __floordiv__(self, o: Any) -> Symbols:
        return _elementwise(lambda a, b: floor(_quotient(a, b)))(self, o)

    def __getitem__(self, at: Any) -> Symbols:
        parts = at if isinstance(at, tuple) else (at,)
        fixed = tuple(p.numpy() if isinstance(p, Tensor) else p for p in parts)
        if any(isinstance(p, Symbols) for p in fixed):
            raise Untraceable("A term indexes by data; use torch.where over the possible places.")
        return Symbols(self.a[fixed], self.mask)


def _call(name: str, *args: Any, **kwargs: Any) -> Any:
    """The traced operation; what it does not take (alpha, rounding_mode, ...) is refused, never ignored."""
    if name not in _FUNCTIONS:
        raise _unknown(name)
    try:
        return _FUNCTIONS[name](*args, **kwargs)
    except TypeError as error:
        raise _unknown(f"{name} with these arguments") from error


def _apply(name: str, *args: Any) -> Symbols:
    out: Symbols = _FUNCTIONS[name](*args)
    return out


def _unknown(name: str) -> Untraceable:
    return Untraceable(
        f"The task uses '{name}', which cannot be compiled into a kernel; "
        "write it with the torch functions that docs/guides/extending.md lists."
    )


def symbols(x: Any) -> Symbols:
    """Returns `x` as symbols: tensors and numbers become constants."""
    if isinstance(x, Symbols):
        return x
    if isinstance(x, Tensor):
        x = x.detach().cpu().numpy()
    a = np.asarray(x)
    if a.dtype == bool:
        return Symbols(np.frompyfunc(lambda v: TRUE if v else FALSE, 1, 1)(a), True)
    return Symbols(np.frompyfunc(lift, 1, 1)(a.astype(np.float64)))


def number(x: Any) -> Symbols:
    """Booleans become 0 and 1."""
    s = symbols(x)
    return Symbols(np.frompyfunc(lambda m: where(m, 1.0, 0.0), 1, 1)(s.a)) if s.mask else s


def truth(x: Any) -> Symbols:
    s = symbols(x)
    return s if s.mask else Symbols(np.frompyfunc(lambda v: ~((v <= 0.0) & (v >= 0.0)), 1, 1)(s.a), True)


def _elementwise(of: Callable[..., Expr], mask: bool = False) -> Callable[..., Symbols]:
    def make(*args: Any) -> Symbols:
        arrays = [number(a).a for a in args]
        return Symbols(np.frompyfunc(of, len(arrays), 1)(*arrays), mask)

    return make


def _logical(of: Callable[..., Expr]) -> Callable[..., Symbols]:
    def make(*args: Any) -> Symbols:
        arrays = [truth(a).a for a in args]
        return Symbols(np.frompyfunc(of, len(arrays), 1)(*arrays), True)

    return make


def _multiply(a: Any, b: Any) -> Symbols:
    """A product with a boolean is a selection."""
    x, y = symbols(a), symbols(b)
    if x.mask and not y.mask:
        x, y = y, x
    if y.mask and not x.mask:
        return Symbols(np.frompyfunc(lambda v, m: where(m, v, 0.0), 2, 1)(x.a, y.a))
    return _elementwise(lambda p, q: p * q)(x, y)


def _equal(a: Any, b: Any) -> Symbols:
    x, y = symbols(a), symbols(b)
    if x.mask and y.mask:
        return _logical(lambda p, q: (p & q) | (~p & ~q))(x, y)
    return _elementwise(lambda p, q: (p <= q) & (p >= q), True)(x, y)


def _where(mask: Any, a: Any, b: Any) -> Symbols:
    x, y = symbols(a), symbols(b)
    m = truth(mask).a
    if x.mask and y.mask:
        return Symbols(np.frompyfunc(lambda k, p, q: (k & p) | (~k & q), 3, 1)(m, x.a, y.a), True)
    return Symbols(np.frompyfunc(where, 3, 1)(m, number(x).a, number(y).a))


def _clamp(x: Any, min: Any = None, max: Any = None) -> Symbols:
    out = number(x)
    out = out if min is None else _FUNCTIONS["maximum"](out, min)
    return out if max is None else _FUNCTIONS["minimum"](out, max)


def _quotient(a: Expr, b: Expr) -> Expr:
    """Divides and does not multiply by a rounded reciprocal: whole numbers must come out whole."""
    return a if b is lift(1.0) else Expr("div", (a, b))


def _remainder(x: Any, y: Any) -> Symbols:
    return _elementwise(lambda a, b: a - b * floor(_quotient(a, b)))(x, y)


def _pow(x: Any, n: Any) -> Symbols:
    if n not in (2, 3, 0.5):
        raise _unknown(f"pow with exponent {n}")
    s = number(x)
    return _FUNCTIONS["sqrt"](s) if n == 0.5 else s * s if n == 2 else s * s * s


def _axes(x: Symbols, dim: Any) -> tuple[int, ...]:
    dims = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    axes = tuple(d % x.ndim for d in dims)
    if 0 in axes:
        raise Untraceable("A term mixes environments (a reduction over axis 0); reduce over later axes.")
    return axes


def _reduction(of: Callable[[list[Expr]], Expr], mask: bool | None = False) -> Callable[..., Symbols]:
    """`mask`: the result's; booleans are counted as 0 and 1 unless the result is one."""

    def make(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Symbols:
        s = truth(x) if mask else number(x)
        axes = _axes(s, dim)
        kept = [k for k in range(s.ndim) if k not in axes]
        moved = s.a.transpose(*kept, *axes)
        shape = [s.a.shape[k] for k in kept]
        rows = moved.reshape(*shape, -1)
        out = np.empty(shape, object)
        for at in np.ndindex(*shape):
            out[at] = of(list(rows[at]))
        if keepdim:
            for k in sorted(axes):
                out = np.expand_dims(out, k)
        return Symbols(out, bool(mask))

    return make


def _any(terms: list[Expr]) -> Expr:
    out = terms[0]
    for t in terms[1:]:
        out = out | t
    return out


def _all(terms: list[Expr]) -> Expr:
    out = terms[0]
    for t in terms[1:]:
        out = out & t
    return out


def _fold(of: Callable[[Expr, Expr], Expr]) -> Callable[[list[Expr]], Expr]:
    def fold(terms: list[Expr]) -> Expr:
        out = terms[0]
        for t in terms[1:]:
            out = of(out, t)
        return out

    return fold


def _join(stack: bool) -> Callable[..., Symbols]:
    def make(parts: Sequence[Any], dim: int = 0) -> Symbols:
        tensors = [symbols(p) for p in parts]
        mask = all(p.mask for p in tensors)
        arrays = [p.a if mask else number(p).a for p in tensors]
        return Symbols(np.stack(arrays, dim) if stack else np.concatenate(arrays, dim), mask)

    return make


def _shape(x: Any, *shape: Any) -> Symbols:
    sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    return Symbols(x.a.reshape(tuple(sizes)), x.mask)


def _cast(x: Any, *args: Any, **kwargs: Any) -> Symbols:
    kind = next((a for a in (*args, *kwargs.values()) if isinstance(a, torch.dtype)), None)
    if kind is None:
        return symbols(x)
    if kind == torch.bool:
        return truth(x)
    return number(x) if kind.is_floating_point else _FUNCTIONS["trunc"](x)


def _filled(value: float) -> Callable[..., Symbols]:
    def make(x: Any, *_: Any, **kwargs: Any) -> Symbols:
        kind = kwargs.get("dtype")
        return symbols(np.full(x.shape, bool(value) if kind == torch.bool or x.mask else value))

    return make


def _norm(x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False) -> Symbols:
    if p not in (2, "fro", None):
        raise _unknown(f"norm of order {p}")
    return _apply("sqrt", _apply("sum", number(x) * number(x), dim, keepdim))


def _gather(x: Any, dim: int, index: Any) -> Symbols:
    """A choice among the places along an axis, by a number."""
    s, at = symbols(x), number(index)
    axis = dim % s.ndim
    if axis == 0:
        raise Untraceable("A term mixes environments (a gather over axis 0); gather over later axes.")
    out = np.empty(at.shape, object)
    for place in np.ndindex(*at.shape):
        options = [s.a[(*place[:axis], k, *place[axis + 1 :])] for k in range(s.a.shape[axis])]
        chosen = options[-1]
        for k in reversed(range(len(options) - 1)):
            chosen = where(at.a.item(place) < k + 0.5, options[k], chosen)
        out[place] = chosen
    return Symbols(out, s.mask)


def _argmax(x: Any, dim: int, keepdim: bool = False) -> Symbols:
    def first(terms: list[Expr]) -> Expr:
        best, at = terms[0], lift(0.0)
        for k, t in enumerate(terms[1:], 1):
            at, best = where(t > best, float(k), at), maximum(best, t)
        return at

    return _reduction(first)(x, dim, keepdim)


def _unbind(x: Any, dim: int = 0) -> tuple[Symbols, ...]:
    return tuple(Symbols(part, x.mask) for part in np.moveaxis(x.a, dim, 0))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": _elementwise(lambda a, b: a + b),
    "sub": _elementwise(lambda a, b: a - b),
    "rsub": _elementwise(lambda a, b: b - a),
    "mul": _multiply,
    "div": _elementwise(lambda a, b: a / b),
    "neg": _elementwise(lambda a: -a),
    "square": _elementwise(lambda a: a * a),
    "sqrt": _elementwise(sqrt),
    "rsqrt": _elementwise(lambda a: 1.0 / sqrt(a)),
    "reciprocal": _elementwise(lambda a: 1.0 / a),
    "exp": _elementwise(exp),
    "log": _elementwise(log),
    "sin": _elementwise(sin),
    "cos": _elementwise(cos),
    "atan2": _elementwise(arctan2),
    "arctan2": _elementwise(arctan2),
    "sigmoid": _elementwise(lambda a: 1.0 / (1.0 + exp(-a))),
    "tanh": _elementwise(lambda a: 1.0 - 2.0 / (exp(2.0 * a) + 1.0)),
    "abs": _elementwise(absolute),
    "sign": _elementwise(lambda a: where(a > 0.0, 1.0, where(a < 0.0, -1.0, 0.0))),
    "floor": _elementwise(floor),
    "trunc": _elementwise(lambda a: a if a.op == "floor" else where(a < 0.0, -floor(-a), floor(a))),
    "minimum": _elementwise(minimum),
    "maximum": _elementwise(maximum),
    "remainder": _remainder,
    "pow": _pow,
    "clamp": _clamp,
    "clip": _clamp,
    "clamp_min": lambda x, low: _clamp(x, min=low),
    "clamp_max": lambda x, high: _clamp(x, max=high),
    "relu": lambda x: _clamp(x, min=0.0),
    "lt": _elementwise(lambda a, b: a < b, True),
    "le": _elementwise(lambda a, b: a <= b, True),
    "gt": _elementwise(lambda a, b: a > b, True),
    "ge": _elementwise(lambda a, b: a >= b, True),
    "eq": _equal,
    "ne": lambda a, b: _logical(lambda p: ~p)(_equal(a, b)),
    "logical_and": _logical(lambda a, b: a & b),
    "logical_or": _logical(lambda a, b: a | b),
    "logical_not": _logical(lambda a: ~a),
    "and": _logical(lambda a, b: a & b),
    "or": _logical(lambda a, b: a | b),
    "bitwise_and": _logical(lambda a, b: a & b),
    "bitwise_or": _logical(lambda a, b: a | b),
    "bitwise_not": _logical(lambda a: ~a),
    "where": _where,
    "sum": _reduction(total),
    "mean": _reduction(lambda terms: total(terms) / float(len(terms))),
    "amax": _reduction(_fold(maximum)),
    "amin": _reduction(_fold(minimum)),
    "prod": _reduction(_fold(lambda a, b: a * b)),
    "any": _reduction(_any, True),
    "all": _reduction(_all, True),
    "norm": _norm,
    "stack": _join(True),
    "cat": _join(False),
    "concat": _join(False),
    "view": _shape,
    "reshape": _shape,
    "view_as": lambda x, other: _shape(x, other.shape),
    "flatten": lambda x, start=0: _shape(x, (*x.shape[:start], -1)),
    "unsqueeze": lambda x, dim: Symbols(np.expand_dims(x.a, dim), x.mask),
    "squeeze": lambda x, dim: Symbols(np.squeeze(x.a, dim), x.mask),
    "expand": lambda x, *s: Symbols(
        np.broadcast_to(x.a, tuple(x.a.shape[k] if n == -1 else n for k, n in enumerate(s))), x.mask
    ),
    "expand_as": lambda x, other: Symbols(np.broadcast_to(x.a, other.shape), x.mask),
    "transpose": lambda x, a, b: Symbols(x.a.swapaxes(a, b), x.mask),
    "permute": lambda x, *s: Symbols(x.a.transpose(*s), x.mask),
    "unbind": _unbind,
    "gather": _gather,
    "argmax": _argmax,
    "clone": lambda x: x,
    "contiguous": lambda x: x,
    "detach": lambda x: x,
    "to": _cast,
    "type_as": lambda x, other: _cast(x, other.dtype),
    "float": number,
    "bool": truth,
    "long": lambda x: _FUNCTIONS["trunc"](x),
    "zeros_like": _filled(0.0),
    "new_empty": lambda x, *s: symbols(np.zeros(s)),
    "new_zeros": lambda x, *s: symbols(np.zeros(s)),
    "ones_like": _filled(1.0),
    "getitem": lambda x, at: symbols(x)[at],
    "deg2rad": lambda x: number(x) * (math.pi / 180.0),
}
"""The traced operations by torch's names; a name with underscores around it is the same operation."""
