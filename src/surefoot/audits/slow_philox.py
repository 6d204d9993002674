"""Draws once more: the cipher that keyed randomness is documented to be, written from its paper (Salmon,
Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011) and from the contract's prose
on addresses. Slow, and shared with nothing.

    key      (root, family)
    counter  (block, channel + 65536 x split, member of the family, episode)

Draw `index` of a channel is word `index % 4` of block `index // 4`; the top 24 bits of a word, divided by
2^24, are a uniform number in [0, 1). What a family shares has all ones in place of the member and of the
episode, what an environment keeps for life has them in place of the episode.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ALL = 2**32 - 1
"""Stands for the member in what a family shares, and for the episode in what is kept for life."""
LOW = np.uint64(ALL)
HALF = np.uint64(32)
TRAIN, EVAL, INIT = 0, 1, 2
"""Numbers of the splits."""
CHANNELS = {
    "friction": 1,
    "payload": 2,
    "com": 3,
    "strength": 4,
    "gains": 5,
    "delay": 6,
    "noise scale": 7,
    "command": 8,
    "push": 9,
    "pose": 10,
    "velocity": 11,
    "yaw": 12,
    "terrain": 13,
    "observation noise": 14,
    "action noise": 15,
    "age": 16,
    "shuffle": 18,
    "mirror": 20,
    "phase": 21,
    "dropout": 22,
    "bias": 26,
    "stuck": 27,
}
"""Numbers of the channels, by what they decide; a number keeps its meaning for ever."""


def philox(key: tuple[Any, Any], counter: tuple[Any, Any, Any, Any]) -> np.ndarray:
    """Returns four words [..., 4] as uint64: ten rounds of Philox4x32. Whole numbers below 2^32 broadcast."""
    c = [np.asarray(x).astype(np.uint64) for x in counter]
    k = [np.asarray(x).astype(np.uint64) for x in key]
    for _ in range(10):
        left, right = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(right >> HALF) ^ c[1] ^ k[0], right & LOW, (left >> HALF) ^ c[3] ^ k[1], left & LOW]
        k = [(k[0] + np.uint64(0x9E3779B9)) & LOW, (k[1] + np.uint64(0xBB67AE85)) & LOW]
    return np.stack(np.broadcast_arrays(*c), -1)


def words(
    root: int,
    split: int,
    family: Any,
    member: Any,
    episode: Any,
    channel: str,
    count: int,
    first: Any = 0,
) -> np.ndarray:
    """Returns draws `first` to `first + count - 1` of a channel as words [rows, count]; family, member,
    episode and `first` broadcast to rows."""
    rows = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(x, np.int64)) for x in (family, member, episode, first))
    )
    index = rows[3][:, None] + np.arange(count)
    drawn = philox(
        (root, rows[0][:, None]),
        (index // 4, CHANNELS[channel] + 65536 * split, rows[1][:, None], rows[2][:, None]),
    )
    out: np.ndarray = np.take_along_axis(drawn, index[..., None] % 4, -1)[..., 0]
    return out


def uniforms(
    root: int, split: int, family: Any, member: Any, episode: Any, channel: str, count: int, first: Any = 0
) -> np.ndarray:
    """Returns uniform numbers [rows, count] in [0, 1), exact in double precision."""
    drawn = words(root, split, family, member, episode, channel, count, first)
    out: np.ndarray = (drawn >> np.uint64(8)).astype(np.float64) / 2**24
    return out


def normals(
    root: int, split: int, family: Any, member: Any, episode: Any, channel: str, count: int, first: Any = 0
) -> np.ndarray:
    """Returns standard normals [rows, count] by Box and Muller, from neighbouring pairs of uniforms; `first`
    is even."""
    u = uniforms(root, split, family, member, episode, channel, count + count % 2, first)
    radius, angle = np.sqrt(-2 * np.log(1 - u[:, 0::2])), 2 * np.pi * u[:, 1::2]
    pair = np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1)
    return pair.reshape(len(u), -1)[:, :count]
