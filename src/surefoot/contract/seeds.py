"""Keyed randomness: every draw is a pure function of (root, split, family, env, episode, channel, index).

The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011). The address of a draw is written into its key and counter, not hashed, so no two addresses meet:

    key      (root, family)                                                    two 32-bit words
    counter  (block, channel | split << 16, env within the family, episode)    four 32-bit words

Draw `index` of a channel is word index % 4 of block index // 4. Nothing is consumed in order, so adding a
draw somewhere moves no other draw. `surefoot.keyed.torch` is the torch twin and gives the same bits.
"""

from __future__ import annotations

import operator
from enum import IntEnum
from math import isqrt
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator, model_validator

from surefoot.contract.errors import SurefootError, unknown

RNG_VERSION = 1
"""Changes when an address would give other bits: new cipher, new encoding, renumbered Split or Channel."""

Ints = ArrayLike  # whole numbers: one, or an array of them

WORD = 0xFFFFFFFF
EVERY_ENV = WORD
"""Stands where the env belongs in the address of a draw shared by a whole family."""
EVERY_EPISODE = WORD
"""Stands where the episode belongs in the address of a draw made once for an environment's life."""

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)  # Philox4x32 constants, Salmon et al. 2011
WEYL = (0x9E3779B9, 0xBB67AE85)  # key increments per round, the same paper: golden ratio and sqrt(3) - 1
ROUNDS = 10


class Split(IntEnum):
    """What the draws are for. Plans of different splits never share a draw, even with the same root."""

    TRAIN = 0
    EVAL = 1
    INIT = 2
    """Network initialisation, minibatch shuffles: a plan of one env whose `episode` is the update number."""


class Channel(IntEnum):
    """What a draw decides. New channels take new numbers; a number that was ever used keeps its meaning."""

    KEY = 0
    """Reserved for `episode_key`: never draw from it."""
    FRICTION = 1
    PAYLOAD = 2
    COM = 3
    STRENGTH = 4
    GAINS = 5
    DELAY = 6
    NOISE_SCALE = 7
    COMMAND = 8
    PUSH = 9
    POSE = 10
    VELOCITY = 11
    YAW = 12
    TERRAIN = 13
    OBSERVATION_NOISE = 14
    ACTION_NOISE = 15
    AGE = 16
    STRATUM = 17
    SHUFFLE = 18
    WEIGHTS = 19
    MIRROR = 20
    LATENT = 21
    DROPOUT = 22
    """Sensor readings that are lost, step by step."""
    BASELINE = 23
    """Actions of the random baseline, step by step."""
    JITTER = 24
    """How a replayed failure's factors are moved from environment to environment."""
    OUTSIDE = 25
    """Where the seeds begin that environments from outside are given."""
    BIAS = 26
    """Constant offsets of sensors, by episode."""
    STUCK = 27
    """Signals that stick, and when, by episode."""


CHANNEL_LIMIT = 1 << 16


def philox_pairs(key0: Ints, key1: Ints, c0: Ints, c1: Ints, c2: Ints, c3: Ints) -> NDArray[np.uint64]:
    """Returns Philox4x32-10 as uint64 [2, ...]: (word0 << 32 | word1, word2 << 32 | word3). Inputs broadcast.

    They must be below 2**32, which `philox` checks and this does not. The packing keeps a round to five
    operations on whole arrays: with A = c0 << 32 | c1 and B = c2 << 32 | c3 a round is
    A, B = (B >> 32) * M1 ^ (A ^ k0) << 32, (A >> 32) * M0 ^ (B ^ k1) << 32.
    """
    k0, k1, w0, w1, w2, w3 = (np.asarray(x, dtype=np.uint64) for x in (key0, key1, c0, c1, c2, c3))
    shape = np.broadcast_shapes(*(x.shape for x in (k0, k1, w0, w1, w2, w3)))
    # Constants are 0-d arrays and outputs positional: scalars and keywords triple numpy's cost of a call.
    half, m0, m1 = (np.array(x, dtype=np.uint64) for x in (32, *MULTIPLIERS))
    steps = np.arange(ROUNDS, dtype=np.uint64)
    keys0 = np.add.outer(steps * np.uint64(WEYL[0]), k0) << half  # the shift drops the carries
    keys1 = np.add.outer(steps * np.uint64(WEYL[1]), k1) << half
    state, high = np.empty((2, *shape), dtype=np.uint64), np.empty((2, *shape), dtype=np.uint64)
    (a, b), (ha, hb) = ((x[0, ...], x[1, ...]) for x in (state, high))  # "..." makes even a scalar an array
    # The first round runs on the inputs before broadcasting, where most of them are a row or a column.
    np.bitwise_xor(w2 * m1, (w1 << half) ^ keys0[0], a)
    np.bitwise_xor(w0 * m0, (w3 << half) ^ keys1[0], b)
    for step in range(1, ROUNDS):
        np.right_shift(state, half, high)
        np.multiply(ha, m0, ha)
        np.multiply(hb, m1, hb)
        np.left_shift(state, half, state)
        np.bitwise_xor(a, keys0[step, ...], a)
        np.bitwise_xor(b, keys1[step, ...], b)
        np.bitwise_xor(a, hb, a)
        np.bitwise_xor(b, ha, b)
    return state


def pair_words(pairs: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Returns the words of contiguous pairs [2, ...] as a view [2, ..., 2] whose last axis has the odd
    word first."""
    return pairs.astype("<u8", copy=False)[..., None].view("<u4")


def philox(key0: Ints, key1: Ints, c0: Ints, c1: Ints, c2: Ints, c3: Ints) -> NDArray[np.uint32]:
    """Returns the four words of Philox4x32-10, uint32 [..., 4]. Inputs broadcast, and must be 32-bit
    words."""
    parts = [np.asarray(x) for x in (key0, key1, c0, c1, c2, c3)]
    for name, part in zip(("key0", "key1", "c0", "c1", "c2", "c3"), parts, strict=True):
        # An address that wrapped around would silently be another address.
        if part.dtype.kind not in "iu" or (part.size and not 0 <= int(part.min()) <= int(part.max()) <= WORD):
            raise ValueError(f"Philox input {name} must hold whole numbers from 0 to {WORD}")
    pair = pair_words(philox_pairs(*parts))
    return np.stack((pair[0, ..., 1], pair[0, ..., 0], pair[1, ..., 1], pair[1, ..., 0]), axis=-1)


def words(
    root: int, split: int, family: Ints, env: Ints, episode: Ints, channel: int, count: int, first: int = 0
) -> NDArray[np.uint32]:
    """Draws first .. first + count - 1 of a channel, uint32 [..., count]; family, env and episode broadcast.

    `env` counts within its family.
    """
    if not (0 <= split < CHANNEL_LIMIT and 0 <= channel < CHANNEL_LIMIT):
        raise ValueError(f"split and channel must be below {CHANNEL_LIMIT}, not {split} and {channel}")
    if count < 0 or first < 0:
        raise ValueError(f"first and count must not be negative, not {first} and {count}")
    block = np.arange(first // 4, -(-(first + count) // 4))
    rows = [np.asarray(x)[..., None] for x in (family, env, episode)]
    drawn = philox(root, rows[0], block, channel | split << 16, rows[1], rows[2])
    return drawn.reshape(*drawn.shape[:-2], 4 * block.size)[..., first % 4 : first % 4 + count]


def uniform(drawn: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Uniforms in [0, 1): the top 24 bits of each word times 2**-24, exact in float32 on any device."""
    return (drawn >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


class SeedPlan(BaseModel):
    """Root seed, split and families: enough to repeat every draw of a run.

    Environment e belongs to family e // envs_per_family and is its member e % envs_per_family. Only those two
    enter the address, so a plan with more families, or with more members in each, extends the smaller plan.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    root: int
    split: Literal["train", "eval", "init"] = "train"
    families: int
    envs: int
    rng_version: int = RNG_VERSION

    @field_validator("split", mode="before")
    @classmethod
    def _known_split(cls, value: Any) -> str:
        name = value.name.lower() if isinstance(value, Split) else value
        if name not in (known := [split.name.lower() for split in Split]):
            raise unknown("seed split", str(name), known)
        return cast(str, name)

    @field_validator("root", "families", "envs", mode="before")
    @classmethod
    def _whole_number(cls, value: Any, info: ValidationInfo) -> int:
        low, high, what = {
            "root": (0, WORD, "root seed (--seed)"),
            "families": (1, WORD, "number of seed families (--families)"),
            "envs": (1, WORD, "number of environments (--envs)"),
        }[cast(str, info.field_name)]
        whole = hasattr(value, "__index__") and not isinstance(value, bool)
        if not whole or not low <= operator.index(value) <= high:
            raise SurefootError(f"The {what} cannot be {value!r}; use a whole number from {low} to {high}.")
        return operator.index(value)

    @model_validator(mode="after")
    def _consistent(self) -> SeedPlan:
        if self.rng_version != RNG_VERSION:
            raise SurefootError(
                f"This seed plan has RNG version {self.rng_version} and this Surefoot draws version "
                f"{RNG_VERSION}; use the Surefoot release the plan was made with."
            )
        if self.envs % self.families:
            near = " or ".join(str(count) for count in nearest_divisors(self.envs, self.families))
            raise SurefootError(
                f"{self.envs} environments cannot be split into {self.families} equal seed families; "
                f"use --families {near}."
            )
        return self

    @property
    def envs_per_family(self) -> int:
        return self.envs // self.families

    @property
    def split_number(self) -> Split:
        return Split[self.split.upper()]

    def family_of(self, env: Ints) -> NDArray[np.int64]:
        return np.asarray(_indices(env, self.envs, "Environment") // self.envs_per_family)

    def member_of(self, env: Ints) -> NDArray[np.int64]:
        return np.asarray(_indices(env, self.envs, "Environment") % self.envs_per_family)

    def uniforms(
        self, env: Ints, episode: Ints, channel: int, count: int, first: int = 0
    ) -> NDArray[np.float32]:
        """Uniforms in [0, 1), float32 [..., count], drawn anew each episode; env and episode broadcast."""
        return uniform(self._words(env, episode, channel, count, first))

    def env_uniforms(self, env: Ints, channel: int, count: int, first: int = 0) -> NDArray[np.float32]:
        """Uniforms an environment keeps for its whole life."""
        return self.uniforms(env, EVERY_EPISODE, channel, count, first)

    def family_uniforms(self, family: Ints, channel: int, count: int, first: int = 0) -> NDArray[np.float32]:
        """Uniforms that all members of a family share for the whole run."""
        rows = _indices(family, self.families, "Seed family")
        split = self.split_number
        return uniform(words(self.root, split, rows, EVERY_ENV, EVERY_EPISODE, channel, count, first))

    def episode_key(self, env: Ints, episode: Ints) -> NDArray[np.uint64]:
        """Returns a 64-bit name of an episode, uint64 [...], for reports. Two may agree, by a chance of
        2**-64."""
        pair = self._words(env, episode, Channel.KEY, 2).astype(np.uint64)
        return np.asarray(pair[..., 0] << np.uint64(32) | pair[..., 1])

    def _words(
        self, env: Ints, episode: Ints, channel: int, count: int, first: int = 0
    ) -> NDArray[np.uint32]:
        family, member = self.family_of(env), self.member_of(env)
        return words(self.root, self.split_number, family, member, episode, channel, count, first)

    def describe(self) -> str:
        return (
            f"root {self.root}, split {self.split}: {self.envs} environments in {self.families} families of "
            f"{self.envs_per_family} (Philox4x32-10, RNG version {self.rng_version})"
        )


def _indices(value: Ints, limit: int, what: str) -> NDArray[np.int64]:
    index = np.asarray(value, dtype=np.int64)
    bad = index[(index < 0) | (index >= limit)]
    if bad.size:
        raise SurefootError(f"{what} {bad.flat[0]} is not in this seed plan; use 0 to {limit - 1}.")
    return index


def nearest_divisors(whole: int, wanted: int) -> list[int]:
    """Returns the divisors of `whole` just below and just above `wanted`."""
    small = [d for d in range(1, isqrt(whole) + 1) if whole % d == 0]
    divisors = sorted({*small, *(whole // d for d in small)})
    below, above = [d for d in divisors if d < wanted], [d for d in divisors if d > wanted]
    return below[-1:] + above[:1]


class Disjointness(BaseModel):
    """Whether two plans share any draw, and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    disjoint: bool
    reason: str
    keys_checked: int
    shared: int
    """Episode keys found in both plans. The reason is the proof; the count checks it against real draws."""


KEYS_PER_PLAN = 1 << 20


def prove_disjoint(a: SeedPlan, b: SeedPlan, episodes: int = 4) -> Disjointness:
    """Compares the sets of addresses that two plans can draw from, and counts the episode keys they share.

    The comparison covers every episode and channel, the count the first `episodes` of every environment (at
    most 2**20 keys a plan). Plans are called disjoint only if both say so.
    """
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, not {episodes}")
    keys_a, keys_b = _first_keys(a, episodes), _first_keys(b, episodes)
    nearest = np.searchsorted(keys_a, keys_b).clip(max=keys_a.size - 1)
    shared = int(np.count_nonzero(keys_a[nearest] == keys_b))
    apart = a.root != b.root or a.split != b.split
    if apart and shared:
        reason = f"Root or split differ, and yet {shared} episode keys agree: the generator is broken."
    elif a.root != b.root:
        reason = f"The roots {a.root} and {b.root} differ, and the root is in every Philox key."
    elif apart:
        reason = f"The splits {a.split} and {b.split} differ, and the split is in every Philox counter."
    else:
        # Families and members both count from 0, so plans of one root and split always meet in a corner.
        families, members = min(a.families, b.families), min(a.envs_per_family, b.envs_per_family)
        reason = (
            f"Both plans use root {a.root} and split {a.split}, so {families * members} environments "
            f"({families} families, {members} members of each) draw the same numbers; change one of the two."
        )
    return Disjointness(
        disjoint=apart and not shared, reason=reason, keys_checked=keys_a.size + keys_b.size, shared=shared
    )


def _first_keys(plan: SeedPlan, episodes: int) -> NDArray[np.uint64]:
    """Returns the keys of the first episodes, sorted."""
    envs = np.arange(min(plan.envs, KEYS_PER_PLAN))
    numbers = np.arange(min(episodes, KEYS_PER_PLAN // envs.size))
    return np.sort(plan.episode_key(envs[:, None], numbers), axis=None)
