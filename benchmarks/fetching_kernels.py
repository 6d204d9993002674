# mypy: ignore-errors
"""The kernel of fetching.py. Warp reads annotations as values, which is why they are not strings here."""

from typing import Any

import warp as wp


def make_loop(source: str) -> Any:
    @wp.func_native(source)
    def body(
        tid: int,
        turns: int,
        apart: int,
        cycles: wp.array(dtype=wp.float32),
        results: wp.array(dtype=wp.float32),
    ): ...

    @wp.kernel(enable_backward=False, module="unique", grid_stride=False)
    def loop(turns: int, apart: int, cycles: wp.array(dtype=wp.float32), results: wp.array(dtype=wp.float32)):
        body(wp.tid(), turns, apart, cycles, results)

    return loop
