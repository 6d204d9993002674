"""The torch twin of `contract.seeds`: the same draws, to the bit, for many environments, on any device.

On the CPU the rounds run in numpy on the tensors' own memory, because numpy's integer loops cost less than
torch's at these sizes (512 rows x 15 blocks on one 2.8 GHz Xeon core: 0.33 ms against 0.85 ms). Elsewhere
they run in torch, without waiting for the device, and without copies from the host once a layout is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import tau
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefoot.contract import (
    CHANNEL_LIMIT,
    MULTIPLIERS,
    ROUNDS,
    WEYL,
    WORD,
    SeedPlan,
    pair_words,
    philox_pairs,
)

Ints = Tensor | int  # int64 tensor, or one number for all rows
Draw = tuple[int, int, Ints]
"""(channel, count, first): `count` draws from index `first` on. A tensor `first` [rows]: multiples of 4."""

Backend = Literal["auto", "numpy", "torch"]


def philox(key0: Ints, key1: Ints, c0: Ints, c1: Ints, c2: Ints, c3: Ints) -> Tensor:
    """The four words of Philox4x32-10, int64 [..., 4] from 0 to 2**32 - 1, in torch on any device.

    Inputs broadcast. They are taken modulo 2**32: a range check would have to wait for the device.
    """
    inputs = (key0, key1, c0, c1, c2, c3)
    device = next((x.device for x in inputs if isinstance(x, Tensor)), torch.device("cpu"))
    k0, k1, w0, w1, w2, w3 = (_word(x, device) for x in inputs)
    shape = np.broadcast_shapes(*(tuple(x.shape) for x in (k0, k1, w0, w1, w2, w3)))
    ones = (1,) * len(shape)

    # Row 0 of `product`, `old` and `keys` serves the words (2, 3), row 1 the words (0, 1): each pair is fed
    # by the product of the other. int64 products have the bits of uint64 ones; halves are read through 32-bit
    # views, since torch's right shift would carry the sign. Carries in `keys` land where nothing is read.
    # Four kernels a round.
    multiplier, weyl = (torch.full((2, *ones), x, device=device) for x in (MULTIPLIERS[0], WEYL[1]))
    multiplier[1].fill_(MULTIPLIERS[1])
    weyl[1].fill_(WEYL[0])
    key_shape = np.broadcast_shapes(ones, tuple(k0.shape), tuple(k1.shape))
    rounds = torch.arange(ROUNDS, device=device).view(ROUNDS, 1, *ones)
    keys = torch.stack((k1.expand(key_shape), k0.expand(key_shape))) + rounds * weyl  # [ROUNDS, 2, ...]

    old, product = (torch.empty((2, *shape), dtype=torch.int64, device=device) for _ in range(2))
    old[0] = w0 * MULTIPLIERS[0] ^ (w3 ^ k1) << 32  # round 0, by assignment: `out=` would not broadcast
    old[1] = w2 * MULTIPLIERS[1] ^ (w1 ^ k0) << 32
    even = torch.zeros_like(old)  # the words 0 and 2
    even_low = _half(even, 0)
    even_low[0].copy_(_half(old, 1)[1])
    even_low[1].copy_(_half(old, 1)[0])
    for r in range(1, ROUNDS):
        torch.mul(even, multiplier, out=product)
        old.bitwise_xor_(keys[r])
        torch.bitwise_xor(_half(product, 1)[1], _half(old, 0)[1], out=even_low[0])
        torch.bitwise_xor(_half(product, 1)[0], _half(old, 0)[0], out=even_low[1])
        old, product = product, old
    odd = old.bitwise_and_(WORD)
    return torch.stack((even[0], odd[1], even[1], odd[0]), dim=-1)


def uniform(words: Tensor) -> Tensor:
    """Uniforms in [0, 1): the top 24 bits of each word times 2**-24, exact in float32."""
    return (words >> 8).to(torch.float32).mul_(2.0**-24)


def box_muller(uniforms: Tensor) -> Tensor:
    """Standard normals [..., 2n] from uniforms [..., 2n], taken in neighbouring pairs.

    The logarithm sees 1 - u, which is at least 2**-24, so no draw is infinite and none lies beyond 5.77. The
    last bits of logarithms and cosines differ between devices, and so do those of the normals. On the CPU
    numpy takes a third of the time (512 x 60: 0.08 ms against 0.23 ms) and never waits for a second thread.
    """
    if uniforms.device.type == "cpu":
        return torch.from_numpy(_box_muller_numpy(uniforms.numpy()))
    radius = torch.log(1.0 - uniforms[..., 0::2]).mul_(-2.0).sqrt_()
    angle = uniforms[..., 1::2] * tau
    return torch.stack((radius * torch.cos(angle), radius * torch.sin(angle)), dim=-1).flatten(-2)


def _box_muller_numpy(uniforms: NDArray[np.float32]) -> NDArray[np.float32]:
    radius = np.subtract(np.float32(1.0), uniforms[..., 0::2])
    np.log(radius, radius)
    np.multiply(radius, np.float32(-2.0), radius)
    np.sqrt(radius, radius)
    angle = uniforms[..., 1::2] * np.float32(tau)
    normals = np.empty(uniforms.shape, dtype=np.float32)
    np.multiply(radius, np.cos(angle), normals[..., 0::2])
    np.multiply(radius, np.sin(angle), normals[..., 1::2])
    return normals


def _word(value: int | Tensor, device: torch.device) -> Tensor:
    if isinstance(value, Tensor):
        return value & WORD
    return torch.full((), value & WORD, dtype=torch.int64, device=device)


def _half(pairs: Tensor, which: int) -> Tensor:
    """The low (0) or high (1) 32 bits of each int64, as a strided int32 view of a little-endian machine."""
    return pairs.view(torch.int32)[..., which::2]


@dataclass(frozen=True)
class _Layout:
    """Where the blocks of several draws lie side by side, for one list of (channel, count, first % 4)."""

    channels: Tensor  # [blocks, 1], the second counter word
    ramp: Tensor  # [blocks, 1], 0, 1, 2, ... within each draw
    blocks: tuple[slice, ...]  # the blocks of each draw
    words: tuple[slice, ...]  # its words among 4 * blocks


class Keyed:
    """Draws of a seed plan as tensors. It has no random state: it keeps the layouts of calls already seen."""

    family: Tensor  # [envs], each environment's family
    member: Tensor  # [envs], its number within the family: the `env` of every call

    def __init__(self, plan: SeedPlan, device: torch.device | str = "cpu", backend: Backend = "auto") -> None:
        self.plan = plan
        self.device = torch.device(device)
        if backend == "numpy" and self.device.type != "cpu":
            raise ValueError(f"the numpy backend draws on the CPU only, not on {self.device}")
        self._in_numpy = backend == "numpy" or (backend == "auto" and self.device.type == "cpu")
        env = np.arange(plan.envs)
        self.family = torch.from_numpy(plan.family_of(env)).to(self.device)
        self.member = torch.from_numpy(plan.member_of(env)).to(self.device)
        self._layouts: dict[tuple[tuple[int, int, int], ...], _Layout] = {}

    def uniforms(
        self, family: Tensor, env: Ints, episode: Ints, channel: int, count: int, first: Ints = 0
    ) -> Tensor:
        """float32 [rows, count] in [0, 1) for int64 rows of family, env (the member number) and episode.

        `env` and `episode` may be one int for all rows, as EVERY_ENV and EVERY_EPISODE are. `first` may be a
        tensor [rows], for draws indexed by a step counter, and must then hold multiples of 4, so that every
        row reads whole blocks; only the numpy backend checks that. Values are taken modulo 2**32.
        """
        return self.uniforms_many(family, env, episode, [(channel, count, first)])[0]

    def normals(
        self, family: Tensor, env: Ints, episode: Ints, channel: int, count: int, first: Ints = 0
    ) -> Tensor:
        """Standard normals float32 [rows, count]. Normal i comes from uniforms i and i ^ 1 of the channel."""
        skip = 0 if isinstance(first, Tensor) else first % 2
        even = first if isinstance(first, Tensor) else first - skip
        drawn = self.uniforms(family, env, episode, channel, count + skip + (count + skip) % 2, even)
        return box_muller(drawn)[:, skip : skip + count]

    def uniforms_many(self, family: Tensor, env: Ints, episode: Ints, draws: Sequence[Draw]) -> list[Tensor]:
        """One tensor [rows, count] per draw, from one pass of the generator; they are views of one tensor."""
        layout = self._layout(draws)
        drawn = (self._numpy if self._in_numpy else self._torch)(family, env, episode, draws, layout)
        return [drawn[:, columns] for columns in layout.words]

    # Both backends lay blocks along the first axis and rows along the last, so that the innermost loop of
    # every operation is long; only at the end do the draws of a row come side by side.

    def _torch(
        self, family: Tensor, env: Ints, episode: Ints, draws: Sequence[Draw], layout: _Layout
    ) -> Tensor:
        width = family.shape[0] if any(isinstance(first, Tensor) for _, _, first in draws) else 1
        block = torch.empty((layout.channels.shape[0], width), dtype=torch.int64, device=self.device)
        for (_, _, first), places in zip(draws, layout.blocks, strict=True):
            block[places] = layout.ramp[places] + (first >> 2)
        words = philox(self.plan.root, family, block, layout.channels, env, episode)  # [blocks, rows, 4]
        return uniform(words).transpose(0, 1).flatten(1)

    def _numpy(
        self, family: Tensor, env: Ints, episode: Ints, draws: Sequence[Draw], layout: _Layout
    ) -> Tensor:
        firsts = [first.numpy() if isinstance(first, Tensor) else first for _, _, first in draws]
        width = family.shape[0] if any(isinstance(first, np.ndarray) for first in firsts) else 1
        ramp = layout.ramp.numpy()
        block = np.empty((ramp.shape[0], width), dtype=np.int64)
        for first, places in zip(firsts, layout.blocks, strict=True):
            if isinstance(first, np.ndarray) and np.bitwise_and(first, 3).any():
                raise ValueError("a tensor `first` must hold multiples of 4")
            np.add(ramp[places], first >> 2, block[places])
        row = [x.numpy() & WORD if isinstance(x, Tensor) else x & WORD for x in (family, env, episode)]
        pairs = philox_pairs(self.plan.root, row[0], block & WORD, layout.channels.numpy(), row[1], row[2])
        halves = pair_words(pairs)  # [2, blocks, rows, 2]
        np.right_shift(halves, np.array(8, dtype=np.uint32), halves)
        mantissa = halves.view(np.int32)  # signed converts to float in vector registers, unsigned does not
        blocks, rows = halves.shape[1:3]
        drawn = np.empty((blocks, 4, rows), dtype=np.float32)
        for word in range(4):
            np.copyto(drawn[:, word], mantissa[word // 2, ..., 1 - word % 2], casting="unsafe")
        np.multiply(drawn, np.array(2.0**-24, dtype=np.float32), drawn)
        return torch.from_numpy(drawn.reshape(4 * blocks, rows)).t().contiguous()

    def _layout(self, draws: Sequence[Draw]) -> _Layout:
        key = tuple(
            (channel, count, 0 if isinstance(first, Tensor) else first % 4) for channel, count, first in draws
        )
        if key not in self._layouts:
            self._layouts[key] = self._new_layout(key)
        return self._layouts[key]

    def _new_layout(self, key: tuple[tuple[int, int, int], ...]) -> _Layout:
        if not key or any(not 0 <= channel < CHANNEL_LIMIT or count < 1 for channel, count, _ in key):
            raise ValueError(f"draws need a channel below {CHANNEL_LIMIT} and a count of at least 1: {key}")
        sizes = [-(-(offset + count) // 4) for _, count, offset in key]
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        numbers = torch.tensor([channel for channel, _, _ in key]) | self.plan.split_number << 16
        return _Layout(
            channels=numbers.repeat_interleave(torch.tensor(sizes))[:, None].to(self.device),
            ramp=torch.cat([torch.arange(size) for size in sizes])[:, None].to(self.device),
            blocks=tuple(slice(start, start + size) for start, size in zip(starts, sizes, strict=True)),
            words=tuple(
                slice(4 * start + offset, 4 * start + offset + count)
                for start, (_, count, offset) in zip(starts, key, strict=True)
            ),
        )
