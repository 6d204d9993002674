# mypy: ignore-errors
"""A gated recurrent unit between its matrix products: the beginning of sequences, a step, and a step back.

Rows are samples, those of a sequence one after the other: T steps of the first sequence, T of the second.
Gates stand in the order reset, update, new, as torch's GRUCell has them.
"""

import warp as wp

from surefoot.learners.kernels.source import cpp


@wp.kernel(enable_backward=False)
def begin_sequences(
    first: int,
    lanes: int,
    horizon: int,
    envs: int,
    clock: wp.array(dtype=wp.int32),
    picks: wp.array2d(dtype=wp.int32),
    since: wp.array(dtype=wp.int32),
    earlier: wp.array2d(dtype=wp.float32),
    keep: wp.array(dtype=wp.float32),
    held: wp.array2d(dtype=wp.float32),
):
    """`keep` of every sample: 0 where its episode begins with it, else 1; and the state that a sequence
    begins with, in `held` at its first row. `first` is the row of the minibatch where these begin; a mirrored
    sequence's state is among the second `envs` rows of `earlier`. `lanes` threads share a sequence."""
    tid = wp.tid()
    row = (tid // lanes) * horizon
    pick = picks[clock[1], first + row]
    env = pick >> 1
    t = tid % lanes
    while t < horizon:
        keep[row + t] = wp.where(since[t * envs + env] > 0, 1.0, 0.0)
        t += lanes
    share = wp.where(since[env] > 0, 1.0, 0.0)
    c = tid % lanes
    while c < held.shape[1]:
        held[row, c] = share * earlier[(pick & 1) * envs + env, c]
        c += lanes


@wp.func_native(
    cpp("""
FUSED
const int width = held.shape[1], end = column + columns;
const long long row = (long long)sequence * horizon + t;
float* __restrict__ r = gates.data + row * 3 * width;
float* __restrict__ z = r + width;
float* __restrict__ n = z + width;
const float* __restrict__ kr = kept.data + row * 3 * width;
const float* __restrict__ kz = kr + width;
float* __restrict__ kn = kept.data + (row * 3 + 2) * width;
const float* __restrict__ br = bias.data;
const float* __restrict__ bz = br + width;
const float* __restrict__ bn = bz + width;
const float* __restrict__ h = held.data + row * width;
float* __restrict__ y = x.data + row * x.shape[1] + inputs;
const auto one_over = [](float v) {  // 1 / (1 + exp(-v))
#ifdef __CUDA_ARCH__
    return 1.0f / (1.0f + expf(-v));
#else
    float s = -v < 80.0f ? -v : 80.0f;  // as in activation.py: 2^n exp(r)
    s = s > -80.0f ? s : -80.0f;
    const float n = (s * 1.44269504f + 12582912.0f) - 12582912.0f;
    const float r = (s - n * 0.693359375f) + n * 2.12194440e-4f;
    float e = 1.0f / 720.0f;
    e = e * r + 1.0f / 120.0f;
    e = e * r + 1.0f / 24.0f;
    e = e * r + 1.0f / 6.0f;
    e = e * r + 0.5f;
    e = e * r + 1.0f;
    e = e * r + 1.0f;
    union { int bits; float power; } two = {((int)n + 127) << 23};
    return 1.0f / (1.0f + e * two.power);
#endif
};
VECTORS
for (int c = column; c < end; ++c) {
    const float reset = one_over(r[c] + kr[c] + br[c]), update = one_over(z[c] + kz[c] + bz[c]);
    const float of_state = kn[c] + bn[c];
    const float added = 2.0f * one_over(2.0f * (n[c] + reset * of_state)) - 1.0f;  // tanh
    kn[c] = of_state;
    r[c] = reset;
    z[c] = update;
    n[c] = added;
    y[c] = (1.0f - update) * added + update * h[c];
}
if (t + 1 < horizon) {
    const float share = keep.data[row + 1];
    float* __restrict__ next = held.data + (row + 1) * width;
    for (int c = column; c < end; ++c) next[c] = share * y[c];
}
""")
)
def forward_cell(
    sequence: int,
    column: int,
    columns: int,
    t: int,
    horizon: int,
    inputs: int,
    bias: wp.array(dtype=wp.float32),
    gates: wp.array2d(dtype=wp.float32),
    kept: wp.array2d(dtype=wp.float32),
    keep: wp.array(dtype=wp.float32),
    held: wp.array2d(dtype=wp.float32),
    x: wp.array2d(dtype=wp.float32),
): ...


@wp.kernel(enable_backward=False)
def gru_step(
    columns: int,
    t: int,
    horizon: int,
    inputs: int,
    bias: wp.array(dtype=wp.float32),
    gates: wp.array2d(dtype=wp.float32),
    kept: wp.array2d(dtype=wp.float32),
    keep: wp.array(dtype=wp.float32),
    held: wp.array2d(dtype=wp.float32),
    x: wp.array2d(dtype=wp.float32),
):
    """Step `t` of every sequence, of what the observation says of the gates (`gates`, where they are left)
    and what the state says of them (`kept`, still without its `bias`): the state into `x` from column
    `inputs` on, and, where the episode goes on, into `held` for the next step. A thread takes `columns`
    columns of a sequence."""
    threads = held.shape[1] // columns
    tid = wp.tid()
    column = (tid % threads) * columns
    forward_cell(tid // threads, column, columns, t, horizon, inputs, bias, gates, kept, keep, held, x)


@wp.func_native(
    cpp("""
FUSED
const int width = held.shape[1], end = column + columns;
const long long row = (long long)sequence * horizon + t;
float* __restrict__ r = gates.data + row * 3 * width;
float* __restrict__ z = r + width;
float* __restrict__ n = z + width;
float* __restrict__ kr = kept.data + row * 3 * width;
float* __restrict__ kz = kr + width;
float* __restrict__ kn = kz + width;
const float* __restrict__ h = held.data + row * width;
const float* __restrict__ by = by_state.data + row * width;
float* __restrict__ later = carry.data + (long long)sequence * width;
const float share = t + 1 < horizon ? keep.data[row + 1] : 0.0f;
VECTORS
for (int c = column; c < end; ++c) {
    const float by_y = by[c] + share * later[c];
    const float by_new = by_y * (1.0f - z[c]) * (1.0f - n[c] * n[c]);
    const float by_update = by_y * (h[c] - n[c]) * z[c] * (1.0f - z[c]);
    const float by_reset = by_new * kn[c] * r[c] * (1.0f - r[c]);
    later[c] = by_y * z[c];
    kn[c] = by_new * r[c];
    kr[c] = by_reset;
    kz[c] = by_update;
    r[c] = by_reset;
    z[c] = by_update;
    n[c] = by_new;
}
""")
)
def backward_cell(
    sequence: int,
    column: int,
    columns: int,
    t: int,
    horizon: int,
    gates: wp.array2d(dtype=wp.float32),
    kept: wp.array2d(dtype=wp.float32),
    keep: wp.array(dtype=wp.float32),
    held: wp.array2d(dtype=wp.float32),
    by_state: wp.array2d(dtype=wp.float32),
    carry: wp.array2d(dtype=wp.float32),
): ...


@wp.kernel(enable_backward=False)
def gru_back(
    columns: int,
    t: int,
    horizon: int,
    gates: wp.array2d(dtype=wp.float32),
    kept: wp.array2d(dtype=wp.float32),
    keep: wp.array(dtype=wp.float32),
    held: wp.array2d(dtype=wp.float32),
    by_state: wp.array2d(dtype=wp.float32),
    carry: wp.array2d(dtype=wp.float32),
):
    """From the derivatives by a step's state (`by_state`, and `carry` from the step after it where the
    episode went on) to those by both products, which replace `gates` and `kept`, and to the part of those by
    the state before that takes the direct way: it replaces `carry`."""
    threads = held.shape[1] // columns
    tid = wp.tid()
    column = (tid % threads) * columns
    backward_cell(tid // threads, column, columns, t, horizon, gates, kept, keep, held, by_state, carry)
