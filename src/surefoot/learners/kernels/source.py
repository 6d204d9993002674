"""C++ bodies of kernels, and the words that stand in them."""

GROUP = 32
"""Samples whose sums share a row: as many as a CUDA warp has threads."""


def cpp(source: str, **words: str) -> str:
    """Returns a C++ body with its words replaced: those given, GROUP, and what a compiler is asked for.

    VECTORS before a loop and FUSED before a body ask a CPU's compiler for 16 numbers at a time and for fused
    multiply-adds, which CUDA's does anyway; UNROLLED before a loop asks CUDA's to have a dozen loads under
    way.
    """
    words |= {
        "GROUP": str(GROUP),
        "VECTORS": "#ifdef __clang__\n#pragma clang loop vectorize_width(16) interleave_count(2)\n#endif",
        "UNROLLED": "#ifdef __CUDA_ARCH__\n#pragma unroll 12\n#endif",
        "FUSED": "#ifdef __clang__\n#pragma clang fp contract(fast)\n#endif",
    }
    for word, meaning in words.items():
        source = source.replace(word, meaning)
    return source
