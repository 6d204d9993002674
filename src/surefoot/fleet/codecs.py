"""Codecs: how the arrays of a fragment are stored and compressed on their way to the learner.

A codec's name lists what it does, joined by +: how observations are stored (fp32 as they are, fp16 rounded,
uint8 for frames of whole numbers), deltas between steps, and a compressor. fp16 alone loses anything.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.contract import SurefootError, unknown

PLAIN = "fp32"
"""The codec that changes nothing."""
STORES = {PLAIN: "<f4", "fp16": "<f2", "uint8": "|u1"}
SEEN = ("obs", "critic", "final_critic")
"""The arrays that `STORES` are about; all others are exact in any codec."""
OVER_TIME = ("obs", "critic", "action", "log_prob", "reward", "stratum")
"""The arrays whose steps may be stored as differences."""
Bytes = NDArray[np.uint8]
Squeeze = Callable[[Any], bytes]


def _zlib() -> tuple[Squeeze, Squeeze]:
    return lambda x: zlib.compress(x, 1), zlib.decompress


def _lz4() -> tuple[Squeeze, Squeeze]:
    import lz4.frame

    return lz4.frame.compress, lz4.frame.decompress


def _zstd() -> tuple[Squeeze, Squeeze]:
    import zstandard

    return zstandard.ZstdCompressor(level=1).compress, zstandard.ZstdDecompressor().decompress


COMPRESSORS = {"zlib": _zlib, "lz4": _lz4, "zstd": _zstd}
PACKAGES = {"lz4": "lz4", "zstd": "zstandard"}
"""What has to be installed for them."""


@dataclass(frozen=True)
class Codec:
    """One way to store a fragment."""

    name: str
    seen: str
    """The type that observations are stored in."""
    delta: bool
    squeeze: tuple[Squeeze, Squeeze] | None

    @property
    def lossy(self) -> bool:
        """Whether what comes back is not what was stored."""
        return self.seen == STORES["fp16"]

    @property
    def frames(self) -> bool:
        """Whether observations have to be whole numbers from 0 to 255."""
        return self.seen == STORES["uint8"]

    def stored(self, name: str, dtype: str) -> str:
        """Returns the type that an array is stored in."""
        return self.seen if name in SEEN else dtype

    def store(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """Returns an array as it is stored."""
        kind = np.dtype(self.stored(name, array.dtype.str))
        if kind != array.dtype:
            if kind.kind == "u" and not (
                np.array_equal(array, np.rint(array))
                and array.min(initial=0) >= 0 <= array.max(initial=0) <= 255
            ):
                raise SurefootError(f"{name} is not frames of whole numbers from 0 to 255; leave out uint8.")
            with np.errstate(over="ignore"):
                small = array.astype(kind)
            if kind.kind == "f" and not np.array_equal(np.isfinite(small), np.isfinite(array)):
                raise SurefootError(f"{name} has numbers beyond those of fp16; use fp32.")
            array = small
        array = np.ascontiguousarray(array)
        if self.delta and name in OVER_TIME:
            whole = array.view(_unsigned(array.dtype))
            array = whole.copy()
            array[1:] -= whole[:-1]
        return array

    def restore(self, name: str, stored: NDArray[Any], dtype: str) -> NDArray[Any]:
        """Undoes `store`; an array that is stored as it is stays a view."""
        array = stored
        if self.delta and name in OVER_TIME:
            whole = stored.view(_unsigned(stored.dtype))
            array = np.add.accumulate(whole, axis=0, dtype=whole.dtype).view(stored.dtype)
        return array.astype(dtype, copy=False)

    def compress(self, body: Bytes) -> Bytes:
        return body if self.squeeze is None else np.frombuffer(self.squeeze[0](body.data), np.uint8)

    def expand(self, sent: Bytes, size: int) -> Bytes:
        """Undoes `compress`. What was sent has been held to its digest before."""
        return sent if self.squeeze is None else np.frombuffer(self.squeeze[1](sent.data), np.uint8)


def _unsigned(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Differences of bits, as of whole numbers, can be undone exactly; those of floats cannot."""
    return np.dtype(f"u{dtype.itemsize}")


@lru_cache
def codec_of(name: str) -> Codec:
    """Returns the codec called `name`, such as fp16+delta+zstd; refused where its compressor is not there."""
    first, *others = name.split("+")
    delta = "delta" in others
    compressors = [o for o in others if o != "delta"]
    if first not in STORES or len(compressors) > 1 or others.count("delta") > 1:
        raise unknown("codec", name, [*STORES, "fp16+delta+zstd", *(f"fp32+{c}" for c in COMPRESSORS)])
    if not compressors:
        return Codec(name, STORES[first], delta, None)
    if compressors[0] not in COMPRESSORS:
        raise unknown("compressor", compressors[0], COMPRESSORS)
    try:
        return Codec(name, STORES[first], delta, COMPRESSORS[compressors[0]]())
    except ImportError:
        raise SurefootError(
            f"Codec {name} needs a package that cannot be imported here; pip install "
            f"{PACKAGES[compressors[0]]}, or use zlib."
        ) from None
