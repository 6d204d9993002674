# mypy: ignore-errors
"""The activation between layers, forward on a CPU and backward everywhere."""

from typing import Any

import warp as wp

from surefoot.learners.kernels.source import cpp


@wp.func_native(
    cpp("""
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
)
def elu_row(row: int, x: wp.array2d(dtype=wp.float32)): ...


@wp.kernel(enable_backward=False)
def elu(x: wp.array2d(dtype=wp.float32)):
    """In place, a row per thread. For CPUs: a fifth of the cost of torch's."""
    elu_row(wp.tid(), x)


@wp.func_native(
    cpp("""
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
)
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
