"""Tables as symbols see them: dealt cells, printed into the kernel, and the terrain, which is in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.compiler import Expr, Symbols, Untraceable, literal, number
from surefoot.env.compiled.source import Source
from surefoot.env.episodes import Schedule

EXACT = 1 << 24
"""Places are computed in float32, which counts no further than this."""


class Dealt:
    """A row of a table of dealt cells, found by environment and episode."""

    def __init__(self, source: Source, name: str, deal: Schedule) -> None:
        self.source, self.name, self.deal, self.uses = source, name, deal, 0

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func is torch.index_select, "the one thing that is done with a dealt row"
        table, _, dealt = args
        return dealt.row_of(table)

    def row_of(self, table: Tensor) -> Symbols:
        """Prints `table` into the kernel; returns the row that was dealt, as symbols."""
        length, *shape = table.shape
        width = table[0].numel()
        numbers = table.reshape(length, width).tolist()
        rows = ", ".join("{" + ", ".join(literal(float(x)) for x in row) + "}" for row in numbers)
        name = f"{self.name}{self.uses}"
        self.uses += 1
        self.source.add(
            f"static const float TABLE_{name}[{length}][{width}] = {{{rows}}};",
            f"const intt at_{name} = (env + episode * {self.deal.multiplier}) % {length};",
            f"real dealt_{name}[{width}];",
            f"for (int k = 0; k < {width}; ++k) for (int l = 0; l < W; ++l)"
            f" AT(dealt_{name}[k], l) = TABLE_{name}[AT(at_{name}, l)][k];",
        )
        return self.source.tensor(f"dealt_{name}", shape, lambda k: f"dealt_{name}[{k}]")


class Table:
    """A tensor [length, ...] in the kernel's array `ground` from place `first` on, whose rows are asked for
    by symbols."""

    def __init__(self, first: int, shape: tuple[int, ...]) -> None:
        if first + int(np.prod(shape)) >= EXACT:
            raise Untraceable(
                f"The terrain has more than {EXACT:,} numbers, too many for a compiled environment; "
                "train on fewer tiles."
            )
        self.first, self.shape = first, shape

    def reshape(self, size: int) -> Table:
        assert size == -1
        return Table(self.first, (int(np.prod(self.shape)),))

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func is torch.index_select, "rows are all that is asked of a table"
        table, _, at = args
        return table[at]

    def __getitem__(self, rows: Symbols) -> Symbols:
        where, row = number(rows), self.shape[1:]
        width = int(np.prod(row))
        out = np.empty((*where.shape, width), object)
        for place in np.ndindex(*where.shape):
            for k in range(width):
                at: Expr = where.a.item(place) * width
                out[(*place, k)] = Expr("fetch", (at,), self.first + k)
        return Symbols(out.reshape(*where.shape, *row))
