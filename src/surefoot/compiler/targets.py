"""What a program's text means in each shape, as types and macros before it.

solo   a thread has one environment and loops over its chains (CPU, CUDA)
wide   the same with a SIMD register of environments in place of each number (CPU)
lanes  a thread has one chain; sums over chains are warp shuffles (CUDA)
"""

from __future__ import annotations

from dataclasses import dataclass

from surefoot.compiler.program import COUNT

SHAPES = ("solo", "wide", "lanes")


@dataclass(frozen=True)
class Target:
    """What a text is printed for."""

    shape: str
    width: int = 1
    """Environments in a register."""
    cuda: bool = False
    emulated: str = ""
    """What a lane does on the CPU while it waits for others; empty: lanes are those of a GPU."""


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

_NO_MEETING = """
#define GIVE(i, x)
#define MEET(n)
#define TAKE(i, x) SUM(x)
"""
"""Sums need no barrier where lanes are not emulated."""

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


def prelude(target: Target, chains: int) -> str:
    """Returns types and macros of a target, for robots of so many chains."""
    shape, width, cuda, emulated = target.shape, target.width, target.cuda, target.emulated
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
        lines.append(_NO_MEETING)
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
    # turns, which nvcc would make, are more to fetch.
    lines.append("#define ROLLED" + (' _Pragma("unroll 1")' if cuda else ""))
    lines.append("#define UNROLL_SOME" + (' _Pragma("unroll 4")' if cuda else ""))
    lines.append("#define FOR_SLOT(first, last) ROLLED for (int s = first; s < last; ++s)")
    lines.append(f"#define FOR_ITEM ROLLED for (int k = 0; ANY_HERE({COUNT}[c] > (float)k); ++k)")
    lines.append("#define ANY_HERE(m) " + ("ANY(m)" if shape == "wide" else "(m)"))
    return "\n".join(lines) + _TRIGONOMETRY
