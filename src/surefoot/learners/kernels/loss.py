# mypy: ignore-errors
"""PPO's loss and its derivatives, sample by sample; `learners/ppo_reference.py` says it in plain torch."""

from typing import Any

import warp as wp

from surefoot.learners.kernels.source import cpp
from surefoot.learners.networks import LOG_ROOT_2PI

# Columns of the sums; derivatives follow at FOUND, in the order of networks.Layout.
KL, CLIPPED, VALUE_LOSS, POLICY_LOSS, PLAIN, RATIO_ERROR = range(6)
FOUND = 8


@wp.func_native(
    cpp(
        """
const int rows = mean.shape[0], width = mean.shape[1];
float* __restrict__ sum = sums.data + (long long)group * sums.shape[1];
#ifdef __CUDA_ARCH__
auto add = [&](int column, float x) {
    for (int k = 16; k > 0; k /= 2) x += __shfl_xor_sync(0xffffffffu, x, k);
    if (lane == 0) sum[column] = x;
};
auto keep_larger = [&](int column, float x) {
    for (int k = 16; k > 0; k /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, x, k);
        x = other > x || other != other ? other : x;
    }
    if (lane == 0) sum[column] = x;
};
#else
auto add = [&](int column, float x) { sum[column] += x; };
auto keep_larger = [&](int column, float x) {
    sum[column] = x > sum[column] || x != x ? x : sum[column];
};
for (int c = 0; c <= value_at; ++c) sum[c] = 0.0f;
#endif
const auto* __restrict__ means = mean.data;
const int* __restrict__ pick = picks.data + (long long)clock.data[1] * picks.shape[1] + first;
auto* __restrict__ slopes = by_mean.data;
for (int k = lane; k < GROUP; k += lanes) {
    const bool inside = group * GROUP + k < rows;  // a last group may be short, but a warp adds up together
    const int i = inside ? group * GROUP + k : rows - 1;
    const bool real = inside && pick[i] >= 0;
    const int picked = real ? pick[i] : 0, row = picked >> 1, mirrored = picked & 1;
    const auto* __restrict__ mu = means + (long long)i * width;
    const float* __restrict__ a = action.data + (long long)row * width;
    const float* __restrict__ old = old_mean.data + (long long)row * width;
    const int* __restrict__ from = index.data + mirrored * width;
    const float* __restrict__ flip = sign.data + mirrored * width;
    float squares = 0.0f, constant = 0.0f, kl = 0.0f;
    UNROLLED
    for (int c = 0; c < width; ++c) {
        const float inverse = inverse_std.data[c], log_new = log_std.data[c], m = (float)mu[c];
        const float z = (a[from[c]] * flip[c] - m) * inverse;
        const float moved = (old[from[c]] * flip[c] - m) * inverse, shrunk = old_std.data[c] * inverse;
        squares += z * z;
        constant += log_new + ROOT;
        kl += (log_new - old_log_std.data[c]) + 0.5f * (shrunk * shrunk + moved * moved - 1.0f);
    }
    const float ratio = wp::exp(-0.5f * squares - constant - old_log_prob.data[row]);
    const float advantage = (advantages.data[row] - spread.data[1]) / (spread.data[0] + 1e-8f);
    const float free = ratio * advantage, bound = wp::clamp(ratio, 1.0f - clip, 1.0f + clip) * advantage;
    // The smaller of the two is maximised; where that is the bounded one, beyond its bound, it is flat. Asked
    // this way round, what is not a number is not flat.
    const bool flat = free > bound;
    const float by_log_prob = flat ? 0.0f : -free / size;
    UNROLLED
    for (int c = 0; c < width; ++c) {
        const float inverse = inverse_std.data[c], z = (a[from[c]] * flip[c] - (float)mu[c]) * inverse;
        const float slope = by_log_prob * z * inverse;
        if (inside) slopes[(long long)i * width + c] = real ? slope : 0.0f;
        add(FOUND + c, real ? by_log_prob * (z * z - 1.0f) - entropy / size : 0.0f);
        add(mean_at + c, real ? slope : 0.0f);
    }

    const float v = (float)value.data[i], gap = v - returns.data[row];
    float error = gap * gap, slope = value_coefficient * 2.0f * gap / size;
    if (value_clip >= 0.0f) {
        const float before = old_value.data[row];
        const float near = before + wp::clamp(v - before, -value_clip, value_clip) - returns.data[row];
        if (near * near > error) {  // the held value is the worse one: it is at its bound, and does not move
            error = near * near;
            slope = 0.0f;
        }
    }
    if (inside) by_value.data[i] = real ? slope : 0.0f;
    add(value_at, real ? slope : 0.0f);

    const float plain = real && !mirrored ? 1.0f : 0.0f, off = plain != 0.0f ? wp::abs(ratio - 1.0f) : 0.0f;
    add(KL, plain != 0.0f ? kl : 0.0f);
    add(CLIPPED, real && off > clip ? 1.0f : 0.0f);
    add(VALUE_LOSS, real ? error / size : 0.0f);
    add(POLICY_LOSS, real ? -(flat ? bound : free) / size : 0.0f);
    add(PLAIN, plain);
    keep_larger(RATIO_ERROR, off);
}
""",
        ROOT=f"{LOG_ROOT_2PI:.9g}f",
        KL=str(KL),
        CLIPPED=str(CLIPPED),
        VALUE_LOSS=str(VALUE_LOSS),
        POLICY_LOSS=str(POLICY_LOSS),
        PLAIN=str(PLAIN),
        RATIO_ERROR=str(RATIO_ERROR),
        FOUND=str(FOUND),
    )
)
def lose(
    group: int,
    lane: int,
    lanes: int,
    mean_at: int,
    value_at: int,
    first: int,
    size: float,
    clip: float,
    value_clip: float,
    value_coefficient: float,
    entropy: float,
    clock: wp.array(dtype=wp.int32),
    picks: wp.array2d(dtype=wp.int32),
    mean: wp.array2d(dtype=Any),
    value: wp.array2d(dtype=Any),
    action: wp.array2d(dtype=wp.float32),
    old_mean: wp.array2d(dtype=wp.float32),
    old_log_prob: wp.array(dtype=wp.float32),
    old_value: wp.array(dtype=wp.float32),
    returns: wp.array(dtype=wp.float32),
    advantages: wp.array(dtype=wp.float32),
    spread: wp.array(dtype=wp.float32),
    index: wp.array2d(dtype=wp.int32),
    sign: wp.array2d(dtype=wp.float32),
    log_std: wp.array(dtype=wp.float32),
    inverse_std: wp.array(dtype=wp.float32),
    old_log_std: wp.array(dtype=wp.float32),
    old_std: wp.array(dtype=wp.float32),
    by_mean: wp.array2d(dtype=Any),
    by_value: wp.array2d(dtype=Any),
    sums: wp.array2d(dtype=wp.float32),
): ...


@wp.kernel(enable_backward=False)
def loss(
    lanes: int,
    mean_at: int,
    value_at: int,
    first: int,
    size: float,
    clip: float,
    value_clip: float,
    value_coefficient: float,
    entropy: float,
    clock: wp.array(dtype=wp.int32),
    picks: wp.array2d(dtype=wp.int32),
    mean: wp.array2d(dtype=Any),
    value: wp.array2d(dtype=Any),
    action: wp.array2d(dtype=wp.float32),
    old_mean: wp.array2d(dtype=wp.float32),
    old_log_prob: wp.array(dtype=wp.float32),
    old_value: wp.array(dtype=wp.float32),
    returns: wp.array(dtype=wp.float32),
    advantages: wp.array(dtype=wp.float32),
    spread: wp.array(dtype=wp.float32),
    index: wp.array2d(dtype=wp.int32),
    sign: wp.array2d(dtype=wp.float32),
    log_std: wp.array(dtype=wp.float32),
    inverse_std: wp.array(dtype=wp.float32),
    old_log_std: wp.array(dtype=wp.float32),
    old_std: wp.array(dtype=wp.float32),
    by_mean: wp.array2d(dtype=Any),
    by_value: wp.array2d(dtype=Any),
    sums: wp.array2d(dtype=wp.float32),
):
    """Clipped surrogate + value error - entropy of the samples of a group, of a minibatch of `size`: the
    derivatives by the policy's mean and by the value, and in the group's row of `sums` the figures and the
    derivatives by log_std (from column FOUND), the mean (`mean_at`) and the value (`value_at`, the last one),
    added up. A pick below 0 is no sample and adds nothing. `value_clip` < 0: none. `lanes`: threads that
    share a group, 1 or, on CUDA, a warp.

    KL(old || new), clipping and the ratio's error, of which the largest is kept, are those of samples that
    are not mirrored: the policy is not symmetric yet, so mirrored ones would show a divergence that no
    learning rate can lower.
    """
    tid = wp.tid()
    lose(
        tid // lanes, tid % lanes, lanes, mean_at, value_at, first, size, clip, value_clip, value_coefficient,
        entropy, clock, picks, mean, value, action, old_mean, old_log_prob, old_value, returns, advantages,
        spread, index, sign, log_std, inverse_std, old_log_std, old_std, by_mean, by_value, sums,
    )  # fmt: skip
