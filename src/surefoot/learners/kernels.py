# mypy: ignore-errors
# ruff: noqa: UP018, RUF046  (int(0) is how Warp is told of a variable)
"""What PPO does besides matrix products, as Warp kernels: one source for CPU and CUDA.

Warp reads the annotations as values, which is why they are not types and not strings here. Sums over samples
have a fixed order: those of GROUP samples are added where they arise, into a row of their own, and torch adds
the rows; no kernel here adds into memory that another one shares. Inner loops are C++ on plain pointers,
which a CPU's compiler turns into vector instructions: a third of the cost of Warp's indexing. Arrays must
therefore be contiguous.
"""

from typing import Any

import warp as wp

from surefoot.contract import MULTIPLIERS, ROUNDS, WEYL, Channel, Split
from surefoot.learners.networks import LOG_ROOT_2PI

GROUP = 32
"""Samples of which a row of sums is: a CUDA warp's."""

ROWS = 128
"""Observations of which a row of moments is."""

# Columns of the sums; derivatives follow at FOUND, in the order of networks.Layout.
KL, CLIPPED, VALUE_LOSS, POLICY_LOSS, PLAIN, RATIO_ERROR = range(6)
FOUND = 8

# Columns of the record that an update leaves, a row per minibatch.
COLUMNS = ("kl", "clipped", "value_loss", "policy_loss", "grad_norm", "std_before", "skipped", "rate")

BETA1, BETA2 = 0.9, 0.999  # Adam's own defaults

_M0, _M1 = (wp.constant(wp.uint64(m)) for m in MULTIPLIERS)
_W0, _W1 = (wp.constant(wp.uint32(w)) for w in WEYL)
_ROUNDS = wp.constant(ROUNDS)
_SHUFFLE, _MIRROR = (
    wp.constant(wp.uint32(int(c) | int(Split.INIT) << 16)) for c in (Channel.SHUFFLE, Channel.MIRROR)
)
_MIX0, _MIX1 = (wp.constant(wp.uint32(m)) for m in (0x7FEB352D, 0x846CA68B))
_HALF_ROUNDS = wp.constant(8)


def native(source, **words):
    """A C++ body. VECTORS before a loop and FUSED before a body ask a CPU's compiler for 16 numbers at a time
    and for fused multiply-adds, which CUDA's does anyway; UNROLLED before a loop asks CUDA's to have a dozen
    loads under way."""
    words |= {
        "GROUP": str(GROUP),
        "VECTORS": "#ifdef __clang__\n#pragma clang loop vectorize_width(16) interleave_count(2)\n#endif",
        "UNROLLED": "#ifdef __CUDA_ARCH__\n#pragma unroll 12\n#endif",
        "FUSED": "#ifdef __clang__\n#pragma clang fp contract(fast)\n#endif",
    }
    for word, meaning in words.items():
        source = source.replace(word, meaning)
    return wp.func_native(source)


@wp.func
def high(product: wp.uint64) -> wp.uint32:
    return wp.uint32(product >> wp.uint64(32))


@wp.func
def philox(key0: wp.uint32, key1: wp.uint32, c0: wp.uint32, c1: wp.uint32, c2: wp.uint32, c3: wp.uint32):
    """The four words of Philox4x32-10, as contract.seeds has them."""
    for _ in range(_ROUNDS):
        a = wp.uint64(c0) * _M0
        b = wp.uint64(c2) * _M1
        c0 = high(b) ^ c1 ^ key0
        c2 = high(a) ^ c3 ^ key1
        c1 = wp.uint32(b)
        c3 = wp.uint32(a)
        key0 = key0 + _W0
        key1 = key1 + _W1
    return wp.vec4ui(c0, c1, c2, c3)


@wp.kernel(enable_backward=False)
def draw_keys(root: wp.uint32, clock: wp.array(dtype=wp.int32), keys: wp.array2d(dtype=wp.int32)):
    """[epochs, 8]: four words of the shuffle and four of the mirror, of the update that `clock` says."""
    epoch = wp.tid()
    update = wp.uint32(clock[0])
    zero = wp.uint32(0)
    shuffle = philox(root, zero, wp.uint32(epoch), _SHUFFLE, zero, update)
    mirror = philox(root, zero, wp.uint32(epoch), _MIRROR, zero, update)
    for k in range(4):
        keys[epoch, k] = wp.int32(shuffle[k])
        keys[epoch, 4 + k] = wp.int32(mirror[k])


@wp.func
def mix(x: wp.uint32) -> wp.uint32:
    """Every bit of the result depends on every bit of x: xor-shifts and odd multipliers, a bijection."""
    x = (x ^ (x >> wp.uint32(16))) * _MIX0
    x = (x ^ (x >> wp.uint32(15))) * _MIX1
    return x ^ (x >> wp.uint32(16))


@wp.func
def shuffled(position: int, size: int, bits: int, keys: wp.array2d(dtype=wp.int32), epoch: int) -> int:
    """Where `position` goes in the epoch's permutation of 0 .. size - 1.

    A Feistel network is a bijection of `bits` bits whatever its round function; applied until the number is
    below `size` (less than twice on average: size is more than half of 2**bits) it is one of 0 .. size - 1.
    """
    half = wp.uint32(bits // 2)
    left_mask = (wp.uint32(1) << wp.uint32(bits - bits // 2)) - wp.uint32(1)
    right_mask = (wp.uint32(1) << half) - wp.uint32(1)
    x = wp.uint32(position)
    walking = int(1)
    while walking == 1:
        left = x >> half
        right = x & right_mask
        key = wp.uint32(0)
        for r in range(_HALF_ROUNDS):
            key = wp.uint32(keys[epoch, r & 3]) + wp.uint32(r) * _W0
            if (r & 1) == 0:
                left = left ^ (mix(right ^ key) & left_mask)
            else:
                right = right ^ (mix(left ^ key) & right_mask)
        x = (left << half) | right
        if x < wp.uint32(size):
            walking = int(0)
    return int(x)


@native("""
const int width = source.shape[1];
const float* __restrict__ x = source.data + (long long)row * width;
const float *__restrict__ shift = scaling.data, *__restrict__ scale = scaling.data + width;
auto* __restrict__ y = out.data + (long long)at * out.shape[1];
const int* __restrict__ from = index.data + width;
const float* __restrict__ flip = sign.data + width;
if (lanes == 1 && !mirrored)
    for (int c = 0; c < width; ++c) y[c] = (x[c] - shift[c]) * scale[c];
else if (lanes == 1)
    for (int c = 0; c < width; ++c) y[c] = (x[from[c]] * flip[c] - shift[c]) * scale[c];
else
    for (int c = lane; c < width; c += lanes)
        y[c] = ((mirrored ? x[from[c]] * flip[c] : x[c]) - shift[c]) * scale[c];
""")
def put(
    source: wp.array2d(dtype=wp.float32),
    row: int,
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
def draw(
    first: int,
    size: int,
    rows: int,
    bits: int,
    mirror: int,
    keys: wp.array2d(dtype=wp.int32),
    picks: wp.array2d(dtype=wp.int32),
):
    """For samples `first` and following, `rows` of them, of every minibatch of `size` of the update: twice
    their row plus 1 if mirrored."""
    tid = wp.tid()
    minibatch = tid // rows
    at = first + tid % rows
    minibatches = picks.shape[0] // keys.shape[0]
    epoch = minibatch // minibatches
    row = shuffled((minibatch % minibatches) * size + at, size * minibatches, bits, keys, epoch)
    mirrored = int(0)
    if mirror == 1:
        mirrored = int(mix(wp.uint32(row) ^ wp.uint32(keys[epoch, 4])) >> wp.uint32(31))
    picks[minibatch, at] = 2 * row + mirrored


@wp.kernel(enable_backward=False)
def gather(
    first: int,
    lanes: int,
    clock: wp.array(dtype=wp.int32),
    picks: wp.array2d(dtype=wp.int32),
    obs: wp.array2d(dtype=wp.float32),
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
    """Samples `first` and following of the minibatch that `clock` says: what the networks read of them.
    `lanes` threads share a sample."""
    tid = wp.tid()
    at = first + tid // lanes
    lane = tid % lanes
    pick = wp.max(picks[clock[1], at], 0)  # any row will do where there is no sample
    row = pick >> 1
    mirrored = pick & 1
    put(obs, row, obs_index, obs_sign, mirrored, obs_scaling, lane, lanes, at, obs_out)
    put(critic, row, critic_index, critic_sign, mirrored, critic_scaling, lane, lanes, at, critic_out)


@native(
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


@native("""
const int n = x.shape[0], threads = squares.shape[0] * lanes;
float total = 0.0f;
if (lanes == 1) {  // a piece of its own, 16 numbers at a time
    const int each = (n / 16 + threads - 1) / threads * 16, first = part * each;
    const int last = part == threads - 1 || first + each > n ? n : first + each;
    float s[16] = {0.0f};
    int i = first;
    for (; i + 16 <= last; i += 16)
        #pragma unroll
        for (int k = 0; k < 16; ++k) s[k] += x.data[i + k] * x.data[i + k];
    for (; i < last; ++i) total += x.data[i] * x.data[i];
    #pragma unroll
    for (int k = 0; k < 16; ++k) total += s[k];
} else {
    #pragma unroll 4
    for (int i = part * lanes + lane; i < n; i += threads) total += x.data[i] * x.data[i];
}
#ifdef __CUDA_ARCH__
for (int k = 16; k > 0; k /= 2) total += __shfl_xor_sync(0xffffffffu, total, k);
#endif
if (lane == 0) squares.data[part] = total;
""")
def square(
    part: int,
    lane: int,
    lanes: int,
    x: wp.array(dtype=wp.float32),
    squares: wp.array(dtype=wp.float32),
): ...


@wp.kernel(enable_backward=False)
def sum_squares(lanes: int, x: wp.array(dtype=wp.float32), squares: wp.array(dtype=wp.float32)):
    """Of x in as many parts as `squares` has. `lanes`: threads that share a part, 1 or, on CUDA, a warp."""
    tid = wp.tid()
    square(tid // lanes, tid % lanes, lanes, x, squares)


@wp.func_native("""
double total = 0.0;
for (int i = lane; i < squares.shape[0]; i += lanes) total += squares.data[i];
#ifdef __CUDA_ARCH__
for (int k = 16; k > 0; k /= 2) total += __shfl_xor_sync(0xffffffffu, total, k);
#endif
return total;
""")
def add_up(lane: int, lanes: int, squares: wp.array(dtype=wp.float32)) -> wp.float64: ...


@wp.kernel(enable_backward=False)
def decide(
    lanes: int,
    steps: int,
    target_kl: wp.float64,
    min_rate: wp.float64,
    max_rate: wp.float64,
    max_norm: wp.float64,
    totals: wp.array(dtype=wp.float32),
    squares: wp.array(dtype=wp.float32),
    inverse_std: wp.array(dtype=wp.float32),
    clock: wp.array(dtype=wp.int32),
    scalars: wp.array(dtype=wp.float64),
    control: wp.array(dtype=wp.float32),
    record: wp.array2d(dtype=wp.float64),
):
    """The gradient's norm, the learning rate by the KL (`target_kl` < 0: constant), whether and how far to
    step, the record's row, and the clock's next minibatch. Scalars: learning rate and Adam's steps so far.
    `lanes` threads, 1 or, on CUDA, a warp, of which the first does all but the norm."""
    length = wp.sqrt(add_up(wp.tid(), lanes, squares))
    if wp.tid() > 0:
        return
    step = clock[1]
    one = wp.float64(1.0)
    plain = wp.max(wp.float64(totals[wp.static(PLAIN)]), one)
    kl = wp.float64(totals[wp.static(KL)]) / plain
    rate = scalars[0]
    if target_kl >= wp.float64(0.0):
        if kl > wp.float64(2.0) * target_kl:
            rate = wp.max(rate / wp.float64(1.5), min_rate)
        elif kl < target_kl / wp.float64(2.0):
            rate = wp.min(rate * wp.float64(1.5), max_rate)
    scalars[0] = rate
    go = wp.isfinite(length)
    if go:
        taken = scalars[1] + one
        scalars[1] = taken
        control[1] = float(wp.min(max_norm / (length + wp.float64(1e-6)), one))
        control[2] = float(rate / (one - wp.pow(wp.float64(wp.static(BETA1)), taken)))
        control[3] = float(one / wp.sqrt(one - wp.pow(wp.float64(wp.static(BETA2)), taken)))
    control[0] = wp.where(go, 1.0, 0.0)
    std = float(0.0)
    for c in range(inverse_std.shape[0]):
        std = std + 1.0 / inverse_std[c]
    record[step, 0] = kl
    record[step, 1] = wp.float64(totals[wp.static(CLIPPED)]) / plain
    record[step, 2] = wp.float64(totals[wp.static(VALUE_LOSS)])
    record[step, 3] = wp.float64(totals[wp.static(POLICY_LOSS)])
    record[step, 4] = length
    record[step, 5] = wp.float64(std / float(inverse_std.shape[0]))
    record[step, 6] = wp.where(go, wp.float64(0.0), one)
    record[step, 7] = rate
    if step + 1 == steps:
        clock[0] = clock[0] + 1
        clock[1] = 0
    else:
        clock[1] = step + 1


@native(
    """
const int last = first + count < parameters.shape[0] ? first + count : parameters.shape[0];
const float scale = control.data[1], rate = control.data[2], root = control.data[3];
const float* __restrict__ g = gradient.data;
float *__restrict__ m = exp_avg.data, *__restrict__ v = exp_avg_sq.data, *__restrict__ p = parameters.data;
VECTORS
for (int i = first; i < last; ++i) {
    const float slope = g[i] * scale;
    m[i] += (slope - m[i]) * (1.0f - BETA1);
    v[i] = v[i] * BETA2 + slope * slope * (1.0f - BETA2);
    p[i] -= rate * m[i] / (sqrtf(v[i]) * root + eps);
}
""",
    BETA1=f"{BETA1}f",
    BETA2=f"{BETA2}f",
)
def step(
    first: int,
    count: int,
    eps: float,
    control: wp.array(dtype=wp.float32),
    gradient: wp.array(dtype=wp.float32),
    exp_avg: wp.array(dtype=wp.float32),
    exp_avg_sq: wp.array(dtype=wp.float32),
    parameters: wp.array(dtype=wp.float32),
): ...


@wp.kernel(enable_backward=False)
def adam(
    count: int,
    eps: float,
    low: float,
    high: float,
    control: wp.array(dtype=wp.float32),
    gradient: wp.array(dtype=wp.float32),
    exp_avg: wp.array(dtype=wp.float32),
    exp_avg_sq: wp.array(dtype=wp.float32),
    parameters: wp.array(dtype=wp.float32),
    inverse_std: wp.array(dtype=wp.float32),
):
    """Adam on `count` of the flat parameters, of which log_std, held between `low` and `high`, are the
    first."""
    first = wp.tid() * count
    if control[0] == 0.0:
        return
    step(first, count, eps, control, gradient, exp_avg, exp_avg_sq, parameters)
    for i in range(first, wp.min(first + count, inverse_std.shape[0])):
        parameters[i] = wp.clamp(parameters[i], low, high)
        inverse_std[i] = wp.exp(-parameters[i])


@native("""
FUSED
float* __restrict__ y = x.data + (long long)row * x.shape[1];
const int width = x.shape[1];
VECTORS
for (int c = 0; c < width; ++c) {
    // exp(t) = 2^n exp(r) with |r| <= ln(2) / 2, where six terms of the series leave less than rounding does
    float t = y[c] < 0.0f ? y[c] : 0.0f;
    t = t > -80.0f ? t : -80.0f;
    const float n = (t * 1.44269504f + 12582912.0f) - 12582912.0f;  // 1.5 * 2^23: to the nearest whole
    const float r = (t - n * 0.693359375f) + n * 2.12194440e-4f;  // ln(2) in two parts, the first of few bits
    float e = 1.0f / 720.0f;
    e = e * r + 1.0f / 120.0f;
    e = e * r + 1.0f / 24.0f;
    e = e * r + 1.0f / 6.0f;
    e = e * r + 0.5f;
    e = e * r + 1.0f;
    e = e * r + 1.0f;
    union { int bits; float power; } two = {((int)n + 127) << 23};
    y[c] = y[c] < 0.0f ? e * two.power - 1.0f : y[c];
}
""")
def elu_row(row: int, x: wp.array2d(dtype=wp.float32)): ...


@wp.kernel(enable_backward=False)
def elu(x: wp.array2d(dtype=wp.float32)):
    """In place, a row per thread. For CPUs: a fifth of the cost of torch's."""
    elu_row(wp.tid(), x)


@native("""
const int width = y.shape[1], first = group * GROUP;
const int last = first + GROUP < y.shape[0] ? first + GROUP : y.shape[0];
const auto* __restrict__ out = y.data + column;
auto* __restrict__ by_out = slope.data + column;
float* __restrict__ sum = sums.data + (long long)group * sums.shape[1] + at + column;
if (columns == 1) {
    float total = 0.0f;
    for (int r = first; r < last; r += 8) {
        float s[8];  // eight rows under way: a later load does not wait for an earlier store
        #pragma unroll
        for (int k = 0; k < 8; ++k) {
            const long long i = (long long)(r + k) * width;
            const float v = r + k < last ? (float)out[i] : 0.0f;
            s[k] = (r + k < last ? (float)by_out[i] : 0.0f) * (v < 0.0f ? v + 1.0f : 1.0f);
        }
        #pragma unroll
        for (int k = 0; k < 8; ++k) {
            if (r + k < last) by_out[(long long)(r + k) * width] = s[k];
            total += s[k];
        }
    }
    *sum = total;
} else {
    for (int c = 0; c < columns; ++c) sum[c] = 0.0f;
    for (int r = first; r < last; ++r) {
        const auto* __restrict__ v = out + (long long)r * width;
        auto* __restrict__ s = by_out + (long long)r * width;
        VECTORS
        for (int c = 0; c < columns; ++c) {
            const float here = (float)s[c] * ((float)v[c] < 0.0f ? (float)v[c] + 1.0f : 1.0f);
            s[c] = here;
            sum[c] += here;
        }
    }
}
""")
def back(
    group: int,
    column: int,
    columns: int,
    y: wp.array2d(dtype=Any),
    slope: wp.array2d(dtype=Any),
    at: int,
    sums: wp.array2d(dtype=wp.float32),
): ...


@wp.kernel(enable_backward=False)
def elu_back(
    columns: int,
    y: wp.array2d(dtype=Any),
    slope: wp.array2d(dtype=Any),
    at: int,
    sums: wp.array2d(dtype=wp.float32),
):
    """From the derivatives by y = elu(x) to those by x, in place, and for each group of rows the sum of them:
    what the bias before it adds to the gradient. From column `at` of `sums`. A thread takes `columns` columns
    of a group: on a CPU all, on CUDA one, so that neighbours read neighbouring numbers."""
    threads = y.shape[1] // columns
    tid = wp.tid()
    back(tid // threads, (tid % threads) * columns, columns, y, slope, at, sums)


@native(
    """
const int width = x.shape[1], first = group * ROWS;
const int last = first + ROWS < x.shape[0] ? first + ROWS : x.shape[0];
const float* __restrict__ base = x.data + column;  // the first row
float* __restrict__ sum = sums.data + (long long)group * 2 * width + column;
float* __restrict__ square = sum + width;
if (columns == 1) {
    float a = 0.0f, b = 0.0f;
    #pragma unroll 8
    for (int r = first; r < last; ++r) {
        const float d = base[(long long)r * width] - base[0];
        a += d;
        b += d * d;
    }
    *sum = a;
    *square = b;
} else {
    for (int c = 0; c < columns; ++c) sum[c] = square[c] = 0.0f;
    for (int r = first; r < last; ++r) {
        const float* __restrict__ here = base + (long long)r * width;
        for (int c = 0; c < columns; ++c) {
            const float d = here[c] - base[c];
            sum[c] += d;
            square[c] += d * d;
        }
    }
}
""",
    ROWS=str(ROWS),
)
def add_moments(
    group: int,
    column: int,
    columns: int,
    x: wp.array2d(dtype=wp.float32),
    sums: wp.array2d(dtype=wp.float32),
): ...


@wp.kernel(enable_backward=False)
def moments(columns: int, x: wp.array2d(dtype=wp.float32), sums: wp.array2d(dtype=wp.float32)):
    """[groups of ROWS rows, 2 width]: sums of differences from x's first row, and of their squares; what they
    are taken from lies among the data, so little is lost when the variance is made of them. A thread takes
    `columns` columns of a group, as in `elu_back`."""
    threads = x.shape[1] // columns
    tid = wp.tid()
    add_moments(tid // threads, (tid % threads) * columns, columns, x, sums)


@wp.func
def moments_of(
    c: int, rows: int, base: wp.array(dtype=wp.float32), totals: wp.array(dtype=wp.float32)
) -> wp.vec2:
    """Mean and variance of a column."""
    n = float(rows)
    off = totals[c] / n
    return wp.vec2(base[c] + off, wp.max(totals[base.shape[0] + c] / n - off * off, 0.0))


@wp.kernel(enable_backward=False)
def take_in(
    index: wp.array(dtype=wp.int64),
    sign: wp.array(dtype=wp.float32),
    rows: int,
    base: wp.array(dtype=wp.float32),
    totals: wp.array(dtype=wp.float32),
    count: wp.array(dtype=wp.float64),
    mean: wp.array(dtype=wp.float32),
    var: wp.array(dtype=wp.float32),
):
    """Running mean and variance of `count` samples take in `rows` others and their mirror image, of which the
    `moments` are known as differences from `base`. A thread per column."""
    c = wp.tid()
    own = moments_of(c, rows, base, totals)
    other = moments_of(int(index[c]), rows, base, totals)
    apart = (own[0] - sign[c] * other[0]) / 2.0
    n = wp.float64(rows)
    share = float(n / (count[0] + n))
    delta = (own[0] + sign[c] * other[0]) / 2.0 - mean[c]
    rest = delta * delta * share * (1.0 - share)
    mean[c] = mean[c] + delta * share
    var[c] = var[c] * (1.0 - share) + ((own[1] + other[1]) / 2.0 + apart * apart) * share + rest
