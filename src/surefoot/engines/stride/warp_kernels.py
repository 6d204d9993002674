# mypy: ignore-errors
"""Warp kernels around native sources. Equal sources have equal modules, whose binaries Warp keeps on disk.

Warp reads the annotations as values, which is why they are not types and not strings here.
"""

from typing import Any

import warp as wp


def make_control_step(source: str, cuda: bool = False, registers: int | None = None) -> Any:
    """A Warp kernel around the source; equal sources share one module on disk.

    On CUDA divisions and roots are the hardware's (2 units in the last place): exact ones call subroutines
    for rare operands, and the calls cost registers everywhere.
    """
    options = {"fast_math": True} if cuda else {}
    limit = {"cuda_max_registers": registers} if cuda and registers else {}

    @wp.func_native(source)
    def body(
        tid: int,
        look: int,
        X: wp.array2d(dtype=wp.float32),
        P: wp.array2d(dtype=wp.float32),
        Y: wp.array2d(dtype=wp.float32),
        H: wp.array2d(dtype=wp.float32),
        targets: wp.array2d(dtype=wp.float32),
        flags: wp.array2d(dtype=wp.uint8),
        ints: wp.array2d(dtype=wp.int32),
        mask: wp.array(dtype=wp.uint8),
        tiles: wp.array(dtype=wp.float32),
    ): ...

    @wp.kernel(enable_backward=False, module="unique", module_options=options, grid_stride=False, **limit)
    def control_step(
        first: int,
        look: int,
        X: wp.array2d(dtype=wp.float32),
        P: wp.array2d(dtype=wp.float32),
        Y: wp.array2d(dtype=wp.float32),
        H: wp.array2d(dtype=wp.float32),
        targets: wp.array2d(dtype=wp.float32),
        flags: wp.array2d(dtype=wp.uint8),
        ints: wp.array2d(dtype=wp.int32),
        mask: wp.array(dtype=wp.uint8),
        tiles: wp.array(dtype=wp.float32),
    ):
        body(first + wp.tid(), look, X, P, Y, H, targets, flags, ints, mask, tiles)

    return control_step


def make_reset(source: str) -> Any:
    @wp.func_native(source)
    def body(
        e: int,
        X: wp.array2d(dtype=wp.float32),
        P: wp.array2d(dtype=wp.float32),
        H: wp.array2d(dtype=wp.float32),
        flags: wp.array2d(dtype=wp.uint8),
        ints: wp.array2d(dtype=wp.int32),
        mask: wp.array(dtype=wp.uint8),
        staging: wp.array2d(dtype=wp.float32),
        origins: wp.array2d(dtype=wp.float32),
    ): ...

    @wp.kernel(enable_backward=False, module="unique")
    def reset(
        first: int,
        X: wp.array2d(dtype=wp.float32),
        P: wp.array2d(dtype=wp.float32),
        H: wp.array2d(dtype=wp.float32),
        flags: wp.array2d(dtype=wp.uint8),
        ints: wp.array2d(dtype=wp.int32),
        mask: wp.array(dtype=wp.uint8),
        staging: wp.array2d(dtype=wp.float32),
        origins: wp.array2d(dtype=wp.float32),
    ):
        body(first + wp.tid(), X, P, H, flags, ints, mask, staging, origins)

    return reset
