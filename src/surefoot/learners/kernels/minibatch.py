# mypy: ignore-errors
# ruff: noqa: UP018, RUF046  (int(0) is how Warp is told of a variable)
"""Chooses the samples of a minibatch: keys of an epoch, a permutation keyed by them, and the gather."""

from typing import Any

import warp as wp

from surefoot.contract import MULTIPLIERS, ROUNDS, WEYL, Channel, Split
from surefoot.learners.kernels.source import cpp

_M0, _M1 = (wp.constant(wp.uint64(m)) for m in MULTIPLIERS)
_W0, _W1 = (wp.constant(wp.uint32(w)) for w in WEYL)
_ROUNDS = wp.constant(ROUNDS)
_SHUFFLE, _MIRROR = (
    wp.constant(wp.uint32(int(c) | int(Split.INIT) << 16)) for c in (Channel.SHUFFLE, Channel.MIRROR)
)
_MIX0, _MIX1 = (wp.constant(wp.uint32(m)) for m in (0x7FEB352D, 0x846CA68B))
_HALF_ROUNDS = wp.constant(8)


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


@wp.func_native(
    cpp("""
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
)
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
