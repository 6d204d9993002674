"""Programs printed as C++, for Warp to compile for the CPU or for CUDA.

One text, three shapes, told apart by a dozen macros:

solo   a thread has one environment and loops over its chains (CPU, CUDA)
wide   the same with a SIMD register of environments in place of each number (CPU)
lanes  a thread has one chain; sums over chains are warp shuffles (CUDA)

Expressions are printed as straight-line code in which every shared subexpression is computed once. The text
goes through Warp as a native function: Warp compiles, caches and launches it, and shares memory with torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from surefoot.engines.stride.algebra import Expr, order
from surefoot.engines.stride.program import (
    COUNT,
    Block,
    Collect,
    External,
    If,
    Param,
    Program,
    Sum,
    Var,
    While,
)

SHAPES = ("solo", "wide", "lanes")
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "and": "&", "or": "|"}
_CALL = {"sqrt": "SQRT", "sin": "SIN", "cos": "COS", "abs": "ABS", "min": "MIN", "max": "MAX"}
_CALL |= {"exp": "EXP", "log": "LOG", "atan2": "ATAN2", "floor": "FLOOR"}


def number(x: float) -> str:
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
            return f"K({number(node.value)})"
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
        rows = ", ".join("{" + ", ".join(number(x) for x in row) + "}" for row in values)
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


_TRIGONOMETRY = """
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define REDUCED \\
    const real k = RINT(x * 0.63661977f); \\
    const real r = (x - k * 1.5703125f) - k * 4.83826794e-4f; \\
    const real z = r * r; \\
    const real s = r + r * z * (z * (8.3321608736e-3f - z * 1.9515295891e-4f) - 1.6666654611e-1f); \\
    const real f = 4.166664568e-2f + z * (z * 2.443315712e-5f - 1.388731625e-3f); \\
    const real c = z * z * f - z * 0.5f + 1.0f; \\
    const intt n = TO_INT(k);
auto SIN = [&](real x) -> real {
    REDUCED
    const real a = (n & 1) != 0 ? c : s;
    return (n & 2) != 0 ? -a : a;
};
auto COS = [&](real x) -> real {
    REDUCED
    const real a = (n & 1) != 0 ? s : c;
    return ((n + 1) & 2) != 0 ? -a : a;
};
"""
"""Cephes' polynomials after one reduction by quarter turns: float32 to hundreds of radians, no slow path."""


_LOCK_STEP = """
static int phases[GROUP]; static int arrived; static float passed[2][GROUP][64];
int phase = phases[lane];
auto GIVE = [&](int i, float v) { passed[phase & 1][lane][i] = v; };
auto MEET = [&]() {
    __atomic_fetch_add(&arrived, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) - (phase + 1) * GROUP < 0) {
        YIELD;
    }
    phases[lane] = ++phase;
};
auto TAKE = [&](int i) -> float {
    float sum = 0.0f;
    for (int k = 0; k < GROUP; ++k) sum += passed[(phase - 1) & 1][k][i];
    return sum;
};
auto LOCK_STEP = [&](float v) -> float { GIVE(0, v); MEET(); return TAKE(0); };
#define GIVE(i, x) GIVE(i, lane < NK ? (x)[0] : 0.0f)
#define MEET(n) static_assert(n <= 64, "too many sums at once"); MEET();
#define TAKE(i, x) TAKE(i)
"""
"""A barrier at which lanes, each on a thread of the operating system, add up numbers."""

_TOGETHER = """
#define GIVE(i, x)
#define MEET(n)
#define TAKE(i, x) SUM(x)
"""
"""Sums need no meeting."""

BLOCK = 128
"""Threads in a CUDA block: four warps, which a multiprocessor's four schedulers run side by side.

The code of a physics step does not fit where a multiprocessor keeps instructions (32 KB). Warps that go
through it each in their own time fetch it each for themselves, and wait for that; so those of a block begin
every Newton step `TOGETHER`. Larger blocks wait longer for their slowest robot."""

_SHUFFLES = {
    False: [
        "#define ANY(m) __any_sync(0xffffffffu, (m))",
        # Warps that left the kernel are not waited for.
        "#define TOGETHER(m) __syncthreads_or(m)",
        "#define BALLOT(m) __ballot_sync(0xffffffffu, (m))",
        "enum { TEAM = 32 }; const int ME = threadIdx.x % TEAM;",
        f"#define TEAM_ARRAY(type, name, size) __shared__ type name##_[{BLOCK} / TEAM][TEAM][size];"
        " auto& name = name##_[threadIdx.x / TEAM];",
        "auto GROUP_SUM = [&](real v) -> real {"
        " for (int k = 1; k < GROUP; k *= 2) v += __shfl_xor_sync(0xffffffffu, v, k); return v; };",
    ],
    True: [
        _LOCK_STEP,
        "#define ANY(m) (LOCK_STEP((m) ? 1.0f : 0.0f) > 0.0f)",
        "#define TOGETHER(m) (m)",
        "#define BALLOT(m) (unsigned)LOCK_STEP((m) ? (float)(1u << lane) : 0.0f)",
        "enum { TEAM = GROUP }; const int ME = lane;",
        "#define TEAM_ARRAY(type, name, size) static type name[TEAM][size];",
        "auto GROUP_SUM = [&](real v) -> real { return LOCK_STEP(v); };",
    ],
}
"""How lanes speak with each other: by CUDA's shuffles, or (emulated, on the CPU) through a barrier."""


def prelude(shape: str, chains: int, width: int, cuda: bool, emulated: str = "") -> str:
    """Types and macros of a shape. `emulated`: what a lane does on the CPU while it waits for others."""
    group = 1
    while group < chains:
        group *= 2
    lines = []
    if not cuda:
        lines.append("#pragma clang fp contract(fast)")
    if shape == "wide":
        lines += [
            f"typedef float real __attribute__((vector_size({4 * width})));",
            f"typedef int maskt __attribute__((vector_size({4 * width})));",
            f"typedef float load_t __attribute__((vector_size({4 * width}), aligned(4)));",
            "typedef maskt intt;",
            f"enum {{ W = {width} }};",
            "#define K(x) ((real){} + (x))",
            "#define SQRT(x) __builtin_elementwise_sqrt(x)",
            "#define ABS(x) __builtin_elementwise_abs(x)",
            "#define RINT(x) __builtin_elementwise_rint(x)",
            "#define TO_INT(x) __builtin_convertvector(x, intt)",
            "#define ANY(m) (__builtin_reduce_or(m) != 0)",
            "#define AT(v, l) (v)[l]",
            "#define LOAD(a, row) (*(const load_t*)((a) + (long long)(row) * npad + e0))",
            "#define STORE(a, row, v) (*(load_t*)((a) + (long long)(row) * npad + e0) = (v))",
        ]
    else:
        root, rint = ("sqrtf", "rintf") if cuda else ("__builtin_sqrtf", "__builtin_rintf")
        lines += [
            "typedef float real; typedef int maskt; typedef int intt;",
            "enum { W = 1 };",
            "#define K(x) (x)",
            f"#define SQRT(x) {root}(x)",
            f"#define ABS(x) {'fabsf' if cuda else '__builtin_fabsf'}(x)",
            f"#define RINT(x) {rint}(x)",
            "#define TO_INT(x) (int)(x)",
            "#define AT(v, l) (v)",
            "#define LOAD(a, row) ((a)[(long long)(row) * npad + e0])",
            "#define STORE(a, row, v) ((a)[(long long)(row) * npad + e0] = (v))",
        ]
    if not emulated:
        lines.append(_TOGETHER)
    lines.append(f"#define ROOT(x) {'sqrtf' if cuda else '__builtin_sqrtf'}(x)")
    lines.append(f"#define LOWEST(bits) ({'__ffsll(bits) - 1' if cuda else '__builtin_ctzll(bits)'})")
    lines.append(f"#define POPULATION(bits) {'__popc' if cuda else '__builtin_popcount'}(bits)")
    unroll = '_Pragma("unroll") ' if cuda else ""
    if shape == "lanes":
        lines += [
            f"enum {{ NC = 1, NK = {chains}, GROUP = {group} }};",
            # emulated, every lane is a launch of its own
            "const int e0 = tid & 0xfffff, lane = tid >> 20;"
            if emulated
            else "const int e0 = tid / GROUP, lane = tid % GROUP;",
            "#define FOR_CHAIN for (int c = 0, C = lane < NK ? lane : NK - 1; c < 1; ++c)",
            "#define FIRST_LANE (lane == 0)",
            "#define OWN_CHAIN (lane < NK)",
            "#define SYNC_LANES " + ("LOCK_STEP(0.0f);" if emulated else "__syncwarp();"),
            *(line.replace("YIELD", emulated) for line in _SHUFFLES[bool(emulated)]),
            "auto SUM = [&](const real* x) -> real { return GROUP_SUM(lane < NK ? x[0] : 0.0f); };",
        ]
    else:
        lines += [
            f"enum {{ NC = {chains}, NK = {chains} }};",
            "const int e0 = tid * W;",
            f"#define FOR_CHAIN {unroll}for (int c = 0, C = 0; c < NC; ++c, ++C)",
            "#define FIRST_LANE true",
            "#define OWN_CHAIN true",
            "#define SYNC_LANES",
            "auto SUM = [&](const real* x) -> real {"
            " real v = x[0]; for (int c = 1; c < NC; ++c) v += x[c]; return v; };",
        ]
        lines += [
            "enum { TEAM = 1, ME = 0 };",
            "#define TOGETHER(m) (m)",
            "#define BALLOT(m) ((m) ? 1u : 0u)",
            "#define TEAM_ARRAY(type, name, size) type name[1][size];",
        ]
        if shape == "solo":
            lines.append("#define ANY(m) (m)")
    lines.append(f"#define ITEM(v) ({f'{COUNT}[c] > (float)k ? (v) : K(0.0f)' if shape == 'wide' else 'v'})")
    # Records that nobody wrote are read by no thread, but by lanes of a SIMD register whose neighbours did.
    lines.append("#define RECORD" + (" __align__(16)" if cuda else ""))
    lines.append("#define AT_FIRST" + ("" if cuda else " = {}"))
    # Slots touch rarely: rolled up, they keep out of the registers. Copies of a line search's
    # turns, which nvcc makes of four, cost a tenth to a quarter of the speed.
    lines.append("#define ROLLED" + (' _Pragma("unroll 1")' if cuda else ""))
    lines.append("#define UNROLL_SOME" + (' _Pragma("unroll 4")' if cuda else ""))
    lines.append("#define FOR_SLOT(first, last) ROLLED for (int s = first; s < last; ++s)")
    lines.append(f"#define FOR_ITEM ROLLED for (int k = 0; ANY_HERE({COUNT}[c] > (float)k); ++k)")
    lines.append("#define ANY_HERE(m) " + ("ANY(m)" if shape == "wide" else "(m)"))
    return "\n".join(lines) + _TRIGONOMETRY
