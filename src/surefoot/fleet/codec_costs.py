"""What a codec costs, measured on a fragment, and the link speed below which it pays, in exact arithmetic.

A fragment takes processor time to be packed and to be read, and the link time for its bytes. A codec pays
where the link saves more than the processors spend: below (bytes saved) / (seconds spent).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from surefoot.contract import SurefootError
from surefoot.fleet.codecs import COMPRESSORS, PLAIN, codec_of
from surefoot.fleet.fragment import Fragment, Schema, pack, unpack

REPEATS = 5
NANO = 10**9
RUN = bytes(16)


@dataclass(frozen=True)
class CodecCost:
    """One codec on one fragment: whole bytes and whole nanoseconds of one core."""

    name: str
    transitions: int
    nbytes: int
    """As the fragment is sent, header and all."""
    pack_ns: int
    read_ns: int

    @property
    def bytes_per_transition(self) -> float:
        return self.nbytes / self.transitions

    @property
    def pack_s(self) -> float:
        """Seconds of a core for a transition, where it is packed."""
        return self.pack_ns / NANO / self.transitions

    @property
    def read_s(self) -> float:
        """Seconds of a core for a transition, where it is read."""
        return self.read_ns / NANO / self.transitions


def cost_of(name: str, schema: Schema, fragment: Fragment, repeats: int = REPEATS) -> CodecCost:
    """Measures a codec on what a fragment has in it: medians of `repeats`."""
    h = fragment.header
    sent = pack(schema, RUN, h.key, h.version, fragment.arrays, fragment.extras, name)
    packing, reading = [], []
    for _ in range(repeats):
        begun = time.thread_time_ns()
        sent = pack(schema, RUN, h.key, h.version, fragment.arrays, fragment.extras, name)
        packed = time.thread_time_ns()
        unpack(schema, RUN, sent)
        reading.append(time.thread_time_ns() - packed)
        packing.append(packed - begun)
    return CodecCost(name, h.horizon * h.envs, len(sent), int(np.median(packing)), int(np.median(reading)))


def pays_below(plain: CodecCost, other: CodecCost) -> Fraction | Literal["always", "never"]:
    """Returns the speed of a link, in bytes per second, below which `other` has a fragment there and read
    sooner than `plain`, of the same fragment."""
    saved = plain.nbytes - other.nbytes
    spent = other.pack_ns + other.read_ns - plain.pack_ns - plain.read_ns
    if saved <= 0:
        return "never"
    return "always" if spent <= 0 else Fraction(saved * NANO, spent)


def lossless(store: str = PLAIN) -> list[str]:
    """Names the codecs that lose nothing and can be used here, `store` alone first."""
    out = [store]
    for delta in ("", "+delta"):
        for compressor in COMPRESSORS:
            try:
                out.append(codec_of(f"{store}{delta}+{compressor}").name)
            except SurefootError:  # its package is not installed
                continue
    return out


def costs(names: Sequence[str], schema: Schema, fragment: Fragment) -> tuple[CodecCost, ...]:
    """Measures several codecs on one fragment."""
    return tuple(cost_of(name, schema, fragment) for name in names)
