# mypy: ignore-errors
# ruff: noqa: UP018  (int(0) is how Warp is told of a variable)
"""A step of the optimiser: the gradient's norm, the learning rate by the KL, clipping, and Adam."""

import warp as wp

from surefoot.learners.kernels.loss import CLIPPED, KL, PLAIN, POLICY_LOSS, VALUE_LOSS
from surefoot.learners.kernels.source import cpp

# Columns of the record that an update leaves, a row per minibatch.
COLUMNS = ("kl", "clipped", "value_loss", "policy_loss", "grad_norm", "std_before", "skipped", "rate")

BETA1, BETA2 = 0.9, 0.999  # Adam's own defaults


@wp.func_native(
    cpp("""
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
)
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


@wp.func_native(
    cpp(
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
