"""A kernel's text: numbers read from memory, expressions of them, and where the results go.

One text serves a thread per environment (`solo`) and a SIMD register of environments (`wide`); see
`engines.stride.emit`. Memory is either [rows, environments] (a state's component is a row) or
[environments, columns] (what networks read and write).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from surefoot.engines.stride.algebra import Expr, order, symbol
from surefoot.engines.stride.emit import Printer, prelude
from surefoot.engines.stride.program import Var
from surefoot.fused.philox import draws
from surefoot.fused.symbols import Symbols

_MEMORY = """
auto BYTES = [&](const unsigned char* a, int row) -> real {
    real v = K(0.0f);
    for (int l = 0; l < W; ++l) AT(v, l) = (float)a[(long long)row * npad + e0 + l];
    return v;
};
auto INTS = [&](const int* a, int row) -> intt {
    intt v = KI(0);
    for (int l = 0; l < W; ++l) AT(v, l) = a[(long long)row * npad + e0 + l];
    return v;
};
auto PUT_INTS = [&](int* a, int row, intt v) {
    for (int l = 0; l < W; ++l) a[(long long)row * npad + e0 + l] = AT(v, l);
};
auto COLUMN = [&](const float* a, int width, int j) -> real {
    real v = K(0.0f);
    for (int l = 0; l < W; ++l) AT(v, l) = e0 + l < n ? a[(long long)(e0 + l) * width + j] : 0.0f;
    return v;
};
auto PUT_COLUMN = [&](float* a, int width, int j, real v) {
    for (int l = 0; l < W; ++l) if (e0 + l < n) a[(long long)(e0 + l) * width + j] = AT(v, l);
};
#define PUT_SINGLE(a, kind, v) { const real single = (v); \\
    for (int l = 0; l < W; ++l) if (e0 + l < n) (a)[e0 + l] = (kind)AT(single, l); }
"""


class Source:
    """Text that grows downwards."""

    def __init__(self, shape: str, width: int, cuda: bool, split: int) -> None:
        floor = {
            ("wide", False): "__builtin_elementwise_floor",
            ("solo", False): "__builtin_floorf",
            ("solo", True): "floorf",
        }[shape, cuda]
        self.lines = [
            prelude(shape, 1, width, cuda),
            "const int npad = S.shape[1];",
            "#define NEXT(counter) "
            + ("atomicAdd(counter, 1)" if cuda else "__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED)"),
            f"#define FLOOR(x) {floor}(x)",
            draws(shape, cuda, split),
            _MEMORY,
        ]
        self._texts: dict[str, str] = {}
        self._open: list[set[str]] = [set()]
        self._results = 0

    def add(self, *lines: str) -> None:
        self.lines += lines

    def read(self, name: str, text: str) -> Expr:
        """A number that `text` fetches, the first time something needs it."""
        self._texts[name] = text
        return symbol(Var(name, "env"))

    def tensor(self, name: str, shape: Sequence[int], text: Callable[[int], str]) -> Symbols:
        """Numbers `name0`, `name1`, ... as a symbolic tensor [1, *shape]; `text` of a component's place."""
        out = np.empty((1, *shape), object)
        for k in range(out.size):
            out.reshape(-1)[k] = self.read(f"{name}_{k}", text(k))
        return Symbols(out)

    def compute(self, roots: Sequence[Expr]) -> list[str]:
        """Prints what the expressions need, and returns the text of each."""
        for node in order(roots):
            if node.op == "symbol" and not any(node.value.name in names for names in self._open):
                self._open[-1].add(node.value.name)
                self.add(f"const real {node.value.name} = {self._texts[node.value.name]};")
        p = Printer(roots)
        self._results += 1
        own = {f"t{i}": f"x{self._results}_{i}" for i in range(len(p.lines))}
        self.add(*(_renamed(line, own) for line in p.lines))
        return [_renamed(p.of(r), own) for r in roots]

    def branch(self, condition: str) -> None:
        self.add(f"if ({condition}) {{")
        self._open.append(set())

    def join(self) -> None:
        self.add("}")
        self._open.pop()

    def put(self, values: Mapping[str, Expr]) -> None:
        """Results under names of their own, for hand-written lines that follow."""
        for name, text in zip(values, self.compute(list(values.values())), strict=True):
            self.add(f"const auto {name} = {text};")

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    if not names:
        return text
    return re.sub(r"\bt\d+\b", lambda m: names.get(m.group(), m.group()), text)
