"""The compiler: numbers that record what is done with them, and the text that computes it on CPUs and GPUs.

Its parts, in the order in which they work:

expressions  scalars that record what is done with them, equal ones made once
program      blocks of expressions with names, branches and loops: what a kernel does
sums         sums laid out so that products cost no instruction of their own
printer      the C++ text of a program
targets      what that text means on a CPU register of environments, a CUDA thread, or lanes of a warp

Beside them stand `tensors`, which traces torch functions into expressions (`operators` are Python's), and
`rows`, names for the rows of arrays that kernels work on.
"""

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
