"""The compiler: scalars that record what is done with them, programs, and their text for CPUs and GPUs."""

from __future__ import annotations

from surefoot.compiler.expressions import (
    Expr,
    absolute,
    clamp,
    cos,
    exp,
    lift,
    maximum,
    minimum,
    order,
    sin,
    sqrt,
    symbol,
    total,
    where,
)
from surefoot.compiler.printer import Printer, declarations, literal, statements
from surefoot.compiler.program import (
    COUNT,
    Call,
    Domain,
    Function,
    Group,
    Program,
    Var,
    Watch,
    nobody,
    run,
    vectors,
)
from surefoot.compiler.rows import RowLayout
from surefoot.compiler.targets import BLOCK, SHAPES, Target, prelude
from surefoot.compiler.tensors import Symbols, Untraceable, number, symbols

__all__ = [
    "BLOCK",
    "COUNT",
    "SHAPES",
    "Call",
    "Domain",
    "Expr",
    "Function",
    "Group",
    "Printer",
    "Program",
    "RowLayout",
    "Symbols",
    "Target",
    "Untraceable",
    "Var",
    "Watch",
    "absolute",
    "clamp",
    "cos",
    "declarations",
    "exp",
    "lift",
    "literal",
    "maximum",
    "minimum",
    "nobody",
    "number",
    "order",
    "prelude",
    "run",
    "sin",
    "sqrt",
    "statements",
    "symbol",
    "symbols",
    "total",
    "vectors",
    "where",
]
