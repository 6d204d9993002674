# mypy: ignore-errors
"""The Warp kernel that hands out addresses of compiled functions. Warp reads annotations as values."""

from typing import Any

import warp as wp


def make_functions(source: str) -> Any:
    """A kernel that is given MuJoCo's functions and returns the addresses of those in the source."""

    @wp.func_native(source)
    def body(given: wp.array(dtype=wp.uint64), made: wp.array(dtype=wp.uint64)): ...

    @wp.kernel(enable_backward=False, module="unique")
    def functions(given: wp.array(dtype=wp.uint64), made: wp.array(dtype=wp.uint64)):
        body(given, made)

    return functions
