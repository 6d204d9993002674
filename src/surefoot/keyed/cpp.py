"""Keyed draws inside kernels: C++ text with the bits of `contract.seeds`, to follow the compiler's `prelude`.

    DRAW(out, channel, blocks, first)   real out[4 * blocks]: uniforms in [0, 1) from block `first` on
    NORMALS(out, uniforms, count)       standard normals by Box-Muller, from uniforms rounded up to pairs
    LOG(x) EXP(x) ATAN2(y, x)           of reals

DRAW reads `root` (unsigned), `family`, `member` and `episode` (intt) where it stands. `blocks` is a constant;
`first`, which counts blocks and not draws, may differ from environment to environment. 0xffffffff stands in
an address as -1.

The functions are polynomials in every shape, CUDA too: fast math bounds the error of `logf` near 1 in
absolute terms only, and a small logarithm of the wrong sign would make a normal that is not a number.
"""

from __future__ import annotations

from surefoot.contract import MULTIPLIERS, ROUNDS, WEYL

_WIDE = """
typedef unsigned uintt __attribute__((vector_size(4 * W)));
typedef unsigned long long longt __attribute__((vector_size(8 * W)));
#define KI(x) ((intt){} + (x))
#define TO_LONG(x) __builtin_convertvector((uintt)(x), longt)
#define TO_REAL(x) __builtin_convertvector(__builtin_convertvector(x, intt), real)
#define BITS(x) ((intt)(x))
#define FROM_BITS(x) ((real)(x))
"""

_SOLO = """
typedef unsigned long long longt;
#define KI(x) (x)
#define TO_LONG(x) ((longt)(unsigned)(x))
#define TO_REAL(x) ((real)(int)(x))
"""

_BITS = {
    True: """
#define BITS(x) __float_as_int(x)
#define FROM_BITS(x) __int_as_float(x)
""",
    False: """
#define BITS(x) __builtin_bit_cast(int, (float)(x))
#define FROM_BITS(x) __builtin_bit_cast(float, (int)(x))
""",
}

# The four words live in 64-bit lanes of which only the low halves count: a round is then two products, two
# shifts and two pairs of xors, and what has gathered in the high halves is masked where it would be seen.
_PHILOX = f"""
auto PHILOX = [](
    unsigned root, intt family, intt block, unsigned channel, intt member, intt episode, real* out
) {{
    longt c0 = TO_LONG(block), c1 = TO_LONG(KI(0)) + channel, c2 = TO_LONG(member), c3 = TO_LONG(episode);
    longt k1 = TO_LONG(family);
    UNROLL for (int r = 0; r < {ROUNDS}; ++r) {{
        const longt p0 = (c0 & 0xffffffffull) * {MULTIPLIERS[0]:#x}ull;
        const longt p1 = (c2 & 0xffffffffull) * {MULTIPLIERS[1]:#x}ull;
        c0 = (p1 >> 32) ^ c1 ^ (unsigned long long)(root + r * {WEYL[0]:#x}u);
        c2 = (p0 >> 32) ^ c3 ^ k1;
        c1 = p1;
        c3 = p0;
        k1 += {WEYL[1]:#x}ull;
    }}
    out[0] = TO_REAL((c0 >> 8) & 0xffffffull) * 5.9604644775390625e-8f;
    out[1] = TO_REAL((c1 >> 8) & 0xffffffull) * 5.9604644775390625e-8f;
    out[2] = TO_REAL((c2 >> 8) & 0xffffffull) * 5.9604644775390625e-8f;
    out[3] = TO_REAL((c3 >> 8) & 0xffffffull) * 5.9604644775390625e-8f;
}};
#define DRAW(out, channel, blocks, first) \\
    UNROLL for (int b_ = 0; b_ < (blocks); ++b_) \\
        PHILOX(root, family, KI(first) + b_, (channel) | SPLIT, member, episode, (out) + 4 * b_);
#define NORMALS(out, uniforms, count) \\
    UNROLL for (int i_ = 0; i_ < (count); i_ += 2) {{ \\
        const real radius_ = SQRT(-2.0f * LOG(1.0f - (uniforms)[i_])); \\
        const real angle_ = (uniforms)[i_ + 1] * 6.2831853f; \\
        (out)[i_] = radius_ * COS(angle_); \\
        if (i_ + 1 < (count)) (out)[i_ + 1] = radius_ * SIN(angle_); \\
    }}
"""

_FUNCTIONS = """
auto LOG = [](real x) -> real {
    const real y = x > 1.17549435e-38f ? x : K(1.17549435e-38f);
    const intt e = (BITS(y) - 0x3f3504f3) >> 23;
    const real f = FROM_BITS(BITS(y) - e * 0x800000) - 1.0f, z = f * f, k = TO_FLOAT(e);
    real p = 0.127615775f - f * 0.0763449776f;
    p = p * f - 0.131601822f;
    p = p * f + 0.142017579f;
    p = p * f - 0.166233574f;
    p = p * f + 0.200012269f;
    p = p * f - 0.25000821f;
    p = p * f + 0.333333317f;
    const real small = k * -2.12194440e-4f + z * (f * p - 0.5f);
    return x < K(3.4028235e38f) ? k * 0.693359375f + (f + small) : x;
};
auto EXP = [](real x) -> real {
    const real low = x < -104.0f ? K(-104.0f) : x, y = low > 89.0f ? K(89.0f) : low;
    const real k = RINT(y * 1.44269504f);
    const real r = (y - k * 0.693359375f) + k * 2.12194440e-4f;
    real p = 0.00836870983f + r * 0.00138146131f;
    p = p * r + 0.0416683874f;
    p = p * r + 0.166665207f;
    p = p * r + 0.499999935f;
    const intt n = TO_INT(k), half = n >> 1;
    const real scaled = (1.0f + (r + r * r * p)) * FROM_BITS((half + 127) * 0x800000);
    return scaled * FROM_BITS((n - half + 127) * 0x800000);
};
auto ATAN2 = [](real y, real x) -> real {
    const real ax = ABS(x), ay = ABS(y);
    const maskt steep = ay > ax;
    const real large = steep ? ay : ax, less = steep ? ax : ay;
    const maskt half = less > 0.414213562f * large;
    const real under = half ? less + large : large;
    const real t = (half ? less - large : less) / (under < 1.17549435e-38f ? K(1.17549435e-38f) : under);
    const real z = t * t;
    real p = 0.105938137f - z * 0.0607822146f;
    p = p * z - 0.142435333f;
    p = p * z + 0.199984715f;
    p = p * z - 0.333333152f;
    real a = (half ? K(0.785398163f) : K(0.0f)) + (t + t * (z * p));
    a = steep ? 1.57079633f - a : a;
    a = BITS(x) < 0 ? 3.14159265f - a : a;
    return BITS(y) < 0 ? -a : a;
};
"""
"""Minimax fits (found by reweighted least squares) of what is left of log(1 + f), exp(r) and atan(t) when the
first terms of their series are taken out. Logarithms of numbers below the smallest normal one are that one's;
exponentials become zero and infinity where float32 does; what is not a number stays so."""


def draws(shape: str, cuda: bool, split: int) -> str:
    """The text for a shape ("solo" or "wide") and a `contract.Split`."""
    wide = shape == "wide"
    lines = [
        f"enum {{ SPLIT = {split << 16} }};",
        "#define UNROLL" + (' _Pragma("unroll")' if cuda else ""),
        f"#define TO_FLOAT(x) {'__builtin_convertvector(x, real)' if wide else '(real)(x)'}",
        _WIDE if wide else _SOLO + _BITS[cuda],
    ]
    return "\n".join(lines) + _FUNCTIONS + _PHILOX
