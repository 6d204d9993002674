"""Programs printed as C++, for Warp to compile for the CPU or for CUDA.

Expressions are printed as straight-line code in which every shared subexpression is computed once. The text
is the same for every shape, whose macros say what it means (`shapes.py`). It goes through Warp as a native
function: Warp compiles, caches and launches it, and shares memory with torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from surefoot.compiler.expressions import Expr, order
from surefoot.compiler.program import COUNT, Block, Collect, External, If, Param, Program, Sum, Var, While

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "and": "&", "or": "|"}
_CALL = {"sqrt": "SQRT", "sin": "SIN", "cos": "COS", "abs": "ABS", "min": "MIN", "max": "MAX"}
_CALL |= {"exp": "EXP", "log": "LOG", "atan2": "ATAN2", "floor": "FLOOR"}


def literal(x: float) -> str:
    if np.isinf(x):  # has no literal
        return "(1e38f * 1e38f)" if x > 0 else "(-1e38f * 1e38f)"
    text = f"{np.float32(x):.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


WEIGHT = "iw"
"""The slots' inverse weights: read from memory where they are needed, which is rarely."""


RECORDS = {"slot": "slot[c][s]", "item": "item[c][k]"}
"""Slots and items are records, so that one load brings several of their variables."""


def leaf(variable: Var | Param) -> str:
    if variable == Var(WEIGHT, "slot"):
        return "SLOT_WEIGHT(s)"
    if isinstance(variable, Param):
        index = {"chain": "[C]", "slot": "[s][C]"}[variable.domain]
        return f"K(T_{variable.name}{index})"
    if variable.domain in RECORDS:
        return f"{RECORDS[variable.domain]}.{variable.name}"
    return variable.name + {"env": "", "chain": "[c]"}[variable.domain]


class Printer:
    """Straight-line code for one set of expressions: shared nodes get a name, others stand where they are
    used."""

    LONGEST = 160

    def __init__(self, roots: Iterable[Expr]) -> None:
        self.roots = list(roots)
        self.lines: list[str] = []
        self.texts: dict[Expr, str] = {}
        nodes = order(self.roots)
        uses: dict[Expr, int] = {}
        for node in nodes:
            for a in node.args:
                uses[a] = uses.get(a, 0) + 1
        for node in nodes:
            text = self._text(node)
            shared = uses.get(node, 0) > 1 or len(text) > self.LONGEST
            if node.args and shared:
                name = f"t{len(self.lines)}"
                kind = "maskt" if node.op in ("lt", "le", "and", "or", "not") else "real"
                self.lines.append(f"const {kind} {name} = {text};")
                text = name
            self.texts[node] = text

    def _text(self, node: Expr) -> str:
        if node.op == "const":
            return f"K({literal(node.value)})"
        if node.op == "symbol":
            return leaf(node.value)
        args = [self.texts[a] for a in node.args]
        if node.op in _INFIX:
            return f"({args[0]} {_INFIX[node.op]} {args[1]})"
        if node.op == "neg":
            return f"(-{args[0]})"
        if node.op == "not":
            return f"({args[0]} == 0)"
        if node.op == "where":
            return f"({args[0]} ? {args[1]} : {args[2]})"
        return f"{_CALL[node.op]}({', '.join(args)})"

    def of(self, root: Expr) -> str:
        return self.texts[root]


def statements(body: list[Any]) -> list[str]:
    out: list[str] = []
    for s in body:
        if isinstance(s, Block):
            out += _block(s)
        elif isinstance(s, Collect):
            out += _collect(s)
        elif isinstance(s, Sum):
            out += [f"GIVE({i}, {source.name});" for i, source in enumerate(s.outputs.values())]
            out += [f"MEET({len(s.outputs)})"]
            out += [f"{t.name} = TAKE({i}, {x.name});" for i, (t, x) in enumerate(s.outputs.items())]
        elif isinstance(s, External):
            out += _external(s)
        elif isinstance(s, If):
            p = Printer([s.condition])
            out += ["{", *p.lines, f"if (ANY({p.of(s.condition)})) {{", *statements(s.body), "}", "}"]
        elif isinstance(s, While):
            p = Printer([s.condition])
            out += [
                f"ROLLED for (int turn = 0; turn < {s.limit}; ++turn) {{",
                *p.lines,
                f"const bool wanted = ANY({p.of(s.condition)});",
                f"if (!{'TOGETHER(wanted)' if s.together else 'wanted'}) break;",
                *(["if (wanted) {", *statements(s.body), "}"] if s.together else statements(s.body)),
                "}",
            ]
    return out


def _block(b: Block) -> list[str]:
    p = Printer(b.outputs.values())
    lines = list(p.lines)
    values = [(target, p.of(value)) for target, value in b.outputs.items()]
    # What is assigned may be read by another right-hand side: fetch all before the first assignment.
    assigned = set() if b.add else {leaf(t) for t, _ in values if t.domain == b.domain}
    for i, (target, text) in enumerate(values):
        if any(name in text for name in assigned - {leaf(target)}):
            lines.append(f"const real o{i} = {text};")
            values[i] = (target, f"o{i}")
    for target, text in values:
        if target.domain != b.domain:
            lines.append(f"{leaf(target)} += ITEM({text});")
        else:
            lines.append(f"{leaf(target)} {'+=' if b.add else '='} {text};")
    return [{"env": "{", "chain": "FOR_CHAIN {", "item": "FOR_CHAIN FOR_ITEM {"}[b.domain], *lines, "}"]


def _collect(s: Collect) -> list[str]:
    test, p = Printer([s.when]), Printer(s.outputs.values())
    return [
        f"FOR_CHAIN FOR_SLOT({s.group.start}, {s.group.stop}) {{",
        *test.lines,
        f"const maskt here = {test.of(s.when)};",
        "if (ANY_HERE(here)) {",
        *p.lines,
        *(f"const real o{i} = {p.of(value)};" for i, value in enumerate(s.outputs.values())),
        f"for (int l = 0; l < W; ++l) if (AT(here, l)) {{ const int k = (int)AT({COUNT}[c], l);",
        *(f"AT({leaf(var)}, l) = AT(o{i}, l);" for i, var in enumerate(s.outputs)),
        f"AT({COUNT}[c], l) += 1.0f; }}",
        "}",
        "}",
    ]


def _external(x: External) -> list[str]:
    """First which points are worth asking about. Then the lanes of a team put theirs on a desk, each answers
    one, whoever's it is, and takes the answers to its own from there: the function stands in the code once,
    and runs not as often as the busiest lane needs it but as often as the team has points for all."""
    size, count = len(x.calls[0].inputs), sum(call.points for call in x.calls)
    ask, give, slots = [], [], [[], []]  # type: ignore[var-annotated]
    for call in x.calls:
        p, first = Printer(call.inputs), len(slots[0])
        place = f"{first}" if call.group is None else f"s + {first - call.first}"
        ask += [("" if call.group is None else f"FOR_SLOT({call.group.start}, {call.group.stop}) ") + "{"]
        ask += [*p.lines, *(f"asked[{place}][{i}] = {p.of(e)};" for i, e in enumerate(call.inputs)), "}"]
        for j in range(call.points):
            at = [call.first + shift + j for shift in call.shifts] + [-1]
            slots[0].append(at[0] if call.group else -1)
            slots[1].append(at[1])
        if call.group is None:
            give += [f"{v.name}[c] = answered[{place}][{i}];" for i, v in enumerate(call.outputs[0])]
    arrays = (t for call in x.calls for t in call.outputs if t[0].domain == "slot")
    names, answers = [v.name for v in next(arrays, [])], len(x.calls[0].outputs[0])
    inputs = [f"AT(asked[q][{i}], l)" for i in range(size)]

    def write(k: int) -> str:
        at = answers * k
        own = f"slot[c][SLOT{k}[q]]"
        return " ".join(f"AT({own}.{name}, l) = found[{at + i}];" for i, name in enumerate(names))

    deliver = [
        f"if (SLOT0[q] >= 0) {{ {write(0)} }} else {{",
        *(f"AT(answered[q][{i}], l) = found[{i}];" for i in range(answers)),
        "}",
        f"if (SLOT1[q] >= 0) {{ {write(1)} }}",
    ]
    return [
        f"FOR_CHAIN {{ real asked[{count}][{size}], answered[{count}][{answers}] = {{}};",
        f'static_assert({count} <= 64, "too many points on a chain");',
        *ask,
        *(
            f"static const int SLOT{k}[] = {{{', '.join(map(str, values))}}};"
            for k, values in enumerate(slots)
        ),
        f"for (int q = 0; q < {count}; ++q) answered[q][{answers - 1}] = K(1.0f);",
        *(
            f"for (int s = 0; s <= {max(map(max, slots))}; ++s) slot[c][s].{name} = K(1.0f);"
            for name in names[-1:]
        ),
        "for (int l = 0; l < W; ++l) {",
        "unsigned long long todo = 0;",
        f"UNROLL_SOME for (int q = 0; q < {count}; ++q)",
        f"if (OWN_CHAIN & {x.name}_near({', '.join(inputs)}, e0 + l)) todo |= 1ull << q;",
        "if (TEAM == 1) { while (todo) { const int q = LOWEST(todo); todo &= todo - 1;",
        f"float both[2][{answers}]; {x.name}({', '.join(inputs[:-1])}, e0 + l, both);",
        "const float* found = both[0];",
        *deliver,
        "} } else {",
        f"TEAM_ARRAY(float, desk, {max(size - 1, 2 * answers) | 1}) TEAM_ARRAY(int, whose, 1)",
        "for (unsigned waiting; (waiting = BALLOT(todo != 0)) != 0;) {",
        "unsigned long long sent = 0; unsigned own = 0; int taken = 0;",
        "ROLLED for (; waiting && taken < TEAM; waiting = BALLOT(todo != 0)) {",
        "const int at = taken + POPULATION(waiting & ((1u << ME) - 1u));",
        "if (todo && at < TEAM) { const int q = LOWEST(todo); todo &= todo - 1;",
        "sent |= 1ull << q; own |= 1u << at; whose[at][0] = e0 + l;",
        *(f"desk[at][{i}] = {text};" for i, text in enumerate(inputs[:-1])),
        "} taken += POPULATION(waiting); }",
        "SYNC_LANES",
        f"if (ME < taken) {{ float both[2][{answers}];",
        f"{x.name}({', '.join(f'desk[ME][{i}]' for i in range(size - 1))}, whose[ME][0], both);",
        f"for (int i = 0; i < {2 * answers}; ++i) desk[ME][i] = both[i / {answers}][i % {answers}]; }}",
        "SYNC_LANES",
        "ROLLED for (; own; own &= own - 1, sent &= sent - 1) {",
        "const int q = LOWEST(sent); const float* found = desk[LOWEST(own)];",
        *deliver,
        "}",
        "SYNC_LANES",
        "} } }",
        *give,
        "}",
    ]


def declarations(program: Program) -> list[str]:
    out = []
    for param, table in program.tables.items():
        values = table if param.domain == "slot" else table[None]
        rows = ", ".join("{" + ", ".join(literal(x) for x in row) + "}" for row in values)
        if param.domain == "slot":
            out.append(
                f"static const float T_{param.name}[{values.shape[0]}][{values.shape[1]}] = {{{rows}}};"
            )
        else:
            out.append(f"static const float T_{param.name}[{values.shape[1]}] = {rows};")
    for v in program.variables.values():
        if v.domain not in RECORDS:
            out.append(f"real {v.name}{'[NC]' if v.domain == 'chain' else ''} = {{}};")
    for domain in RECORDS:
        own = [v.name for v in program.variables.values() if v.domain == domain and v != Var(WEIGHT, "slot")]
        if own:
            size = f"[NC][{max(program.slots, 1)}]"
            out.append(f"struct RECORD {{ real {', '.join(own)}; }} {domain}{size} AT_FIRST;")
    return out
