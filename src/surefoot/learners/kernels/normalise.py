# mypy: ignore-errors
"""Running mean and variance of observations."""

import warp as wp

from surefoot.learners.kernels.source import cpp

ROWS = 128
"""Observations of which a row of moments is."""


@wp.func_native(
    cpp(
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
