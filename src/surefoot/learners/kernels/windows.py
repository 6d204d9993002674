# mypy: ignore-errors
"""The gather of a minibatch whose actor reads windows of observations."""

from typing import Any

import warp as wp

from surefoot.learners.kernels.minibatch import put
from surefoot.learners.kernels.source import cpp


@wp.func_native(
    cpp("""
const int width = source.shape[1];
const float *__restrict__ shift = scaling.data, *__restrict__ scale = scaling.data + width;
auto* __restrict__ to = out.data + (long long)at * out.shape[1];
const int* __restrict__ from = index.data + (mirrored ? width : 0);
const float* __restrict__ flip = sign.data + (mirrored ? width : 0);
for (int k = 0; k < size; ++k) {
    const int back = k < known ? k : known;
    const float* __restrict__ x = source.data + (long long)(row - back * envs) * width;
    auto* __restrict__ y = to + k * width;
    if (lanes == 1 && !mirrored)
        for (int c = 0; c < width; ++c) y[c] = (x[c] - shift[c]) * scale[c];
    else
        for (int c = lane; c < width; c += lanes) y[c] = (x[from[c]] * flip[c] - shift[c]) * scale[c];
}
""")
)
def put_window(
    source: wp.array2d(dtype=wp.float32),
    row: int,
    envs: int,
    size: int,
    known: int,
    index: wp.array2d(dtype=wp.int32),
    sign: wp.array2d(dtype=wp.float32),
    mirrored: int,
    scaling: wp.array2d(dtype=wp.float32),
    lane: int,
    lanes: int,
    at: int,
    out: wp.array2d(dtype=Any),
): ...


@wp.kernel(enable_backward=False)
def gather_windows(
    first: int,
    lanes: int,
    envs: int,
    size: int,
    clock: wp.array(dtype=wp.int32),
    picks: wp.array2d(dtype=wp.int32),
    obs: wp.array2d(dtype=wp.float32),
    since: wp.array(dtype=wp.int32),
    critic: wp.array2d(dtype=wp.float32),
    obs_index: wp.array2d(dtype=wp.int32),
    obs_sign: wp.array2d(dtype=wp.float32),
    obs_scaling: wp.array2d(dtype=wp.float32),
    critic_index: wp.array2d(dtype=wp.int32),
    critic_sign: wp.array2d(dtype=wp.float32),
    critic_scaling: wp.array2d(dtype=wp.float32),
    obs_out: wp.array2d(dtype=Any),
    critic_out: wp.array2d(dtype=Any),
):
    """As `gather`, but the actor reads of each sample the last `size` observations of its environment, the
    newest first, and in place of those before the episode its first. `obs` begins `size` - 1 steps before
    the block; `since` says how many of them are known."""
    tid = wp.tid()
    at = first + tid // lanes
    lane = tid % lanes
    pick = wp.max(picks[clock[1], at], 0)  # any row will do where there is no sample
    row = pick >> 1
    mirrored = pick & 1
    known = since[row]
    newest = row + (size - 1) * envs
    put_window(
        obs,
        newest,
        envs,
        size,
        known,
        obs_index,
        obs_sign,
        mirrored,
        obs_scaling,
        lane,
        lanes,
        at,
        obs_out,
    )
    put(critic, row, critic_index, critic_sign, mirrored, critic_scaling, lane, lanes, at, critic_out)
