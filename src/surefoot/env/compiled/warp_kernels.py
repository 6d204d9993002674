# mypy: ignore-errors
"""Warp kernels around the generated texts. Warp reads annotations as values: they are not types here."""

from typing import Any

import warp as wp


def make_act(source: str) -> Any:
    @wp.func_native(source)
    def body(
        tid: int,
        n: int,
        root: wp.uint32,
        S: wp.array2d(dtype=wp.float32),
        I: wp.array2d(dtype=wp.int32),  # noqa: E741
        X: wp.array2d(dtype=wp.float32),
        targets: wp.array2d(dtype=wp.float32),
        mean: wp.array2d(dtype=wp.float32),
        log_std: wp.array(dtype=wp.float32),
        action: wp.array2d(dtype=wp.float32),
        log_prob: wp.array(dtype=wp.float32),
    ): ...

    @wp.kernel(enable_backward=False, module="unique", grid_stride=False)
    def act(
        first: int,
        n: int,
        root: wp.uint32,
        S: wp.array2d(dtype=wp.float32),
        I: wp.array2d(dtype=wp.int32),  # noqa: E741
        X: wp.array2d(dtype=wp.float32),
        targets: wp.array2d(dtype=wp.float32),
        mean: wp.array2d(dtype=wp.float32),
        log_std: wp.array(dtype=wp.float32),
        action: wp.array2d(dtype=wp.float32),
        log_prob: wp.array(dtype=wp.float32),
    ):
        body(first + wp.tid(), n, root, S, I, X, targets, mean, log_std, action, log_prob)

    return act


def make_task(source: str) -> Any:
    @wp.func_native(source)
    def body(
        tid: int,
        n: int,
        root: wp.uint32,
        step: int,
        S: wp.array2d(dtype=wp.float32),
        I: wp.array2d(dtype=wp.int32),  # noqa: E741
        X: wp.array2d(dtype=wp.float32),
        Y: wp.array2d(dtype=wp.float32),
        flags: wp.array2d(dtype=wp.uint8),
        targets: wp.array2d(dtype=wp.float32),
        staging: wp.array2d(dtype=wp.float32),
        ground: wp.array(dtype=wp.float32),
        mask: wp.array(dtype=wp.uint8),
        reward: wp.array(dtype=wp.float32),
        terms: wp.array2d(dtype=wp.float32),
        terminated_out: wp.array(dtype=wp.uint8),
        truncated_out: wp.array(dtype=wp.uint8),
        reason_out: wp.array(dtype=wp.uint8),
        stratum_out: wp.array(dtype=wp.int64),
        final_critic: wp.array2d(dtype=wp.float32),
        final_step: wp.array(dtype=wp.int32),
        counts: wp.array(dtype=wp.int32),
        records: wp.array2d(dtype=wp.float32),
        failures: wp.array2d(dtype=wp.float32),
    ): ...

    @wp.kernel(enable_backward=False, module="unique", grid_stride=False)
    def task(
        first: int,
        n: int,
        root: wp.uint32,
        step: int,
        S: wp.array2d(dtype=wp.float32),
        I: wp.array2d(dtype=wp.int32),  # noqa: E741
        X: wp.array2d(dtype=wp.float32),
        Y: wp.array2d(dtype=wp.float32),
        flags: wp.array2d(dtype=wp.uint8),
        targets: wp.array2d(dtype=wp.float32),
        staging: wp.array2d(dtype=wp.float32),
        ground: wp.array(dtype=wp.float32),
        mask: wp.array(dtype=wp.uint8),
        reward: wp.array(dtype=wp.float32),
        terms: wp.array2d(dtype=wp.float32),
        terminated_out: wp.array(dtype=wp.uint8),
        truncated_out: wp.array(dtype=wp.uint8),
        reason_out: wp.array(dtype=wp.uint8),
        stratum_out: wp.array(dtype=wp.int64),
        final_critic: wp.array2d(dtype=wp.float32),
        final_step: wp.array(dtype=wp.int32),
        counts: wp.array(dtype=wp.int32),
        records: wp.array2d(dtype=wp.float32),
        failures: wp.array2d(dtype=wp.float32),
    ):
        body(
            first + wp.tid(),
            n,
            root,
            step,
            S,
            I,
            X,
            Y,
            flags,
            targets,
            staging,
            ground,
            mask,
            reward,
            terms,
            terminated_out,
            truncated_out,
            reason_out,
            stratum_out,
            final_critic,
            final_step,
            counts,
            records,
            failures,
        )

    return task


def make_observe(source: str) -> Any:
    @wp.func_native(source)
    def body(
        tid: int,
        n: int,
        root: wp.uint32,
        S: wp.array2d(dtype=wp.float32),
        I: wp.array2d(dtype=wp.int32),  # noqa: E741
        X: wp.array2d(dtype=wp.float32),
        Y: wp.array2d(dtype=wp.float32),
        flags: wp.array2d(dtype=wp.uint8),
        ground: wp.array(dtype=wp.float32),
        obs: wp.array2d(dtype=wp.float32),
        critic: wp.array2d(dtype=wp.float32),
    ): ...

    @wp.kernel(enable_backward=False, module="unique", grid_stride=False)
    def observe(
        first: int,
        n: int,
        root: wp.uint32,
        S: wp.array2d(dtype=wp.float32),
        I: wp.array2d(dtype=wp.int32),  # noqa: E741
        X: wp.array2d(dtype=wp.float32),
        Y: wp.array2d(dtype=wp.float32),
        flags: wp.array2d(dtype=wp.uint8),
        ground: wp.array(dtype=wp.float32),
        obs: wp.array2d(dtype=wp.float32),
        critic: wp.array2d(dtype=wp.float32),
    ):
        body(first + wp.tid(), n, root, S, I, X, Y, flags, ground, obs, critic)

    return observe
