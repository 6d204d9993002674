"""A kernel's text: numbers read from memory, expressions of them, and where the results go.

One text serves a thread per environment (`solo`) and a SIMD register of environments (`wide`); see
`compiler.targets`. Memory is either [rows, environments] (a state's component is a row) or
[environments, columns] (what networks read and write).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.compiler import Expr, Printer, Symbols, Target, Var, literal, order, prelude, symbol
from surefoot.keyed import draws

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
auto GATHER = [](const float* a, real at) -> real {
    real v = K(0.0f);
    for (int l = 0; l < W; ++l) AT(v, l) = a[(int)AT(at, l)];
    return v;
};
#define FETCH(first, at) GATHER(ground.data + (first), at)
#define PUT_SINGLE(a, kind, v) { const real single = (v); \\
    for (int l = 0; l < W; ++l) if (e0 + l < n) (a)[e0 + l] = (kind)AT(single, l); }
"""


class _Printer(Printer):
    def _text(self, node: Expr) -> str:
        if node.op == "fetch":  # a number of the terrain, which is in memory
            return f"FETCH({node.value}, {self.texts[node.args[0]]})"
        return super()._text(node)


@dataclass(frozen=True)
class _Loop:
    """An array whose numbers are one expression, computed for every row of a table of constants."""

    rows: Sequence[Sequence[float]]
    variables: tuple[Expr, ...]
    """The expression's symbols for a row's numbers."""
    value: Expr


class Source:
    """Text that grows downwards."""

    def __init__(self, target: Target, split: int) -> None:
        floor = {
            ("wide", False): "__builtin_elementwise_floor",
            ("solo", False): "__builtin_floorf",
            ("solo", True): "floorf",
        }[target.shape, target.cuda]
        self.lines = [
            prelude(target, 1),
            "const int npad = S.shape[1];",
            "#define NEXT(counter) "
            + (
                "atomicAdd(counter, 1)" if target.cuda else "__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED)"
            ),
            f"#define FLOOR(x) {floor}(x)",
            draws(target.shape, target.cuda, split),
            _MEMORY,
        ]
        self._texts: dict[str, str] = {}
        self._loops: dict[str, _Loop] = {}
        self._loop_of: dict[str, str] = {}
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

    def loop(
        self, name: str, rows: Sequence[Sequence[float]], of: Callable[[Sequence[Expr]], Expr]
    ) -> Symbols:
        """Numbers [1, len(rows)], `of` each row: a loop, printed where the first of them is needed."""
        variables = tuple(
            self.read(f"{name}_row_{i}", f"K(ROWS_{name}[k][{i}])") for i in range(len(rows[0]))
        )
        self._loops[name] = _Loop(rows, variables, of(variables))
        out = self.tensor(name, (len(rows),), lambda k: f"{name}[{k}]")
        self._loop_of |= {f"{name}_{k}": name for k in range(len(rows))}
        return out

    def compute(self, roots: Sequence[Expr]) -> list[str]:
        """Prints what the expressions need, and returns the text of each."""
        for node in order(roots):
            if node.op == "symbol" and not self._known(node.value.name):
                self._fetch(node.value.name)
        p = _Printer(roots)
        self._results += 1
        own = {f"t{i}": f"x{self._results}_{i}" for i in range(len(p.lines))}
        self.add(*(_renamed(line, own) for line in p.lines))
        return [_renamed(p.of(r), own) for r in roots]

    def _known(self, name: str) -> bool:
        return any(name in names for names in self._open)

    def _fetch(self, name: str) -> None:
        array = self._loop_of.get(name)
        if array is not None and not self._known(array):
            self._print_loop(array)
        self._open[-1].add(name)
        self.add(f"const real {name} = {self._texts[name]};")

    def _print_loop(self, name: str) -> None:
        loop = self._loops[name]
        inner = self._hoist(name, loop)
        width, count = len(loop.variables), len(loop.rows)
        rows = ", ".join("{" + ", ".join(literal(x) for x in row) + "}" for row in loop.rows)
        self._open[-1].add(name)
        self.add(f"static const float ROWS_{name}[{count}][{width}] = {{{rows}}};", f"real {name}[{count}];")
        self.add(f"UNROLL_SOME for (int k = 0; k < {count}; ++k) {{")
        self._open.append(set())
        self.add(f"{name}[k] = {self.compute([inner])[0]};")
        self.join()

    def _hoist(self, name: str, loop: _Loop) -> Expr:
        """The loop's expression, with all that is the same for every row computed before it."""
        changing = set(loop.variables)
        nodes = order([loop.value])
        for node in nodes:
            if changing.intersection(node.args):
                changing.add(node)
        needed = [a for node in nodes if node in changing for a in node.args]
        before = [a for a in dict.fromkeys(needed) if a not in changing and a.op != "const"]
        replaced: dict[Expr, Expr] = {}
        for i, (node, text) in enumerate(zip(before, self.compute(before), strict=True)):
            replaced[node] = self.read(f"{name}_before_{i}", text)
            self._fetch(f"{name}_before_{i}")
        for node in nodes:
            if node in changing and node.args:
                replaced[node] = Expr(node.op, tuple(replaced.get(a, a) for a in node.args), node.value)
        return replaced.get(loop.value, loop.value)

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

    def put_row(self, condition: str, array: str, start: str, texts: Sequence[str]) -> None:
        """Numbers side by side into `array`, for each environment `e0 + l` that fulfils the condition."""
        self.add(
            f"{{ const real row[] = {{{', '.join(texts)}}};",
            f"for (int l = 0; l < W; ++l) if ({condition}) {{ float* to = {array} + (long long)({start});",
            f"UNROLL for (int k = 0; k < {len(texts)}; ++k) to[k] = AT(row[k], l); }} }}",
        )

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    if not names:
        return text
    return re.sub(r"\bt\d+\b", lambda m: names.get(m.group(), m.group()), text)
