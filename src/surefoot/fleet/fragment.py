"""Fragments: T steps of an actor's B environments, as a struct of arrays in one contiguous buffer.

A fixed header says whose it is: run, actor, incarnation, sequence, the version of the policy that acted, the
schema and the digest of all that follows. Then come the arrays, each at a multiple of 64 bytes, in the order
of the schema, and last what has no fixed size (episodes that ended, states that engines failed from). A
fragment that was not encoded is read without a copy.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.contract import SurefootError
from surefoot.fleet.codecs import Codec, codec_of

MAGIC = b"SUREFRG1"
ALIGN = 64
HEADER = struct.Struct("<8s16s16s32s16sIIQQIIIIQQ")
HEADER_BYTES = ALIGN * math.ceil(HEADER.size / ALIGN)
Buffer = NDArray[np.uint8]
Arrays = dict[str, NDArray[Any]]


class Poisoned(SurefootError):
    """Says why a fragment is not learned from."""


class Field(NamedTuple):
    """One array of a fragment."""

    name: str
    dtype: str
    shape: tuple[str | int, ...]
    """Lengths; T, S = T + 1, B and F (episodes of the fragment that ran out of time) by their letters."""


class Key(NamedTuple):
    """Names a fragment: the ticket that it was made for."""

    actor: int
    incarnation: int
    sequence: int

    def __str__(self) -> str:
        return f"actor {self.actor}, incarnation {self.incarnation}, fragment {self.sequence}"


@dataclass(frozen=True)
class Schema:
    """Says which arrays fragments of a run have."""

    contract: str
    """Digest of the contract: widths that agree by chance are not enough."""
    fields: tuple[Field, ...]

    @classmethod
    def of(cls, contract: str, sizes: Mapping[str, int]) -> Schema:
        """Returns the schema of a contract, whose `sizes` are those of an observation, a critic observation
        (`shared` of it are the observation, and not sent again), an action, the reward terms, the strata and
        an episode's content."""
        o, c, a, r, strata, k = (
            sizes[n] for n in ("observation", "critic", "action", "rewards", "strata", "content")
        )
        own = c - sizes.get("shared", 0)
        f, u, b = "<f4", "|u1", "B"
        return cls(
            contract,
            (
                Field("obs", f, ("S", b, o)),
                Field("critic", f, ("S", b, own)),
                Field("action", f, ("T", b, a)),
                Field("log_prob", f, ("T", b)),
                Field("reward", f, ("T", b)),
                Field("terminated", u, ("T", b)),
                Field("truncated", u, ("T", b)),
                Field("reason", u, ("T", b)),
                Field("stratum", "<u2", ("T", b)),
                Field("final_step", "<i4", ("F",)),
                Field("final_env", "<i4", ("F",)),
                Field("final_critic", f, ("F", c)),
                Field("terms", "<f8", (r,)),  # sums of the reward terms
                Field("resets", "<i8", (strata,)),
                Field("age", "<i4", (b,)),  # at the start
                Field("content", f, (b, k)),  # of the episodes that run at the end
            ),
        )

    @property
    def digest(self) -> bytes:
        """Sixteen bytes that another schema does not have."""
        text = json.dumps([self.contract, self.fields], separators=(",", ":"))
        return hashlib.sha256(text.encode()).digest()[:16]

    def places(self, dims: Mapping[str, int], codec: Codec) -> tuple[list[tuple[Field, int, Any]], int]:
        """Returns where each array begins as `codec` stores it, with its shape, and where the last one
        ends."""
        out, at = [], 0
        for field in self.fields:
            shape = tuple(dims[n] if isinstance(n, str) else n for n in field.shape)
            out.append((field, at, shape))
            size = math.prod(shape) * np.dtype(codec.stored(field.name, field.dtype)).itemsize
            at += ALIGN * math.ceil(size / ALIGN)
        return out, at


@dataclass(frozen=True)
class Header:
    """What a fragment says of itself."""

    key: Key
    version: int
    """The update after which the policy that acted was as it was, weights and normaliser."""
    horizon: int
    envs: int
    codec: str
    digest: bytes
    """SHA-256 of all that follows the header."""


@dataclass(frozen=True)
class Fragment:
    """A fragment, read."""

    header: Header
    arrays: Arrays
    """By the schema's names; views of the buffer unless a codec changed them."""
    extras: Arrays
    """What has no fixed size, by name."""
    nbytes: int
    """As it was sent."""

    @property
    def bytes_per_transition(self) -> float:
        return self.nbytes / (self.header.horizon * self.header.envs)


def pack(
    schema: Schema,
    run: bytes,
    key: Key,
    version: int,
    arrays: Mapping[str, Any],
    extras: Arrays,
    codec: str = "fp32",
) -> Buffer:
    """Writes a fragment; `run` are 16 bytes that name the run."""
    how = codec_of(codec)
    horizon, envs = np.shape(arrays["reward"])
    finals = len(arrays["final_step"])
    dims = {"T": horizon, "S": horizon + 1, "B": envs, "F": finals}
    places, size = schema.places(dims, how)
    tail = _write_extras(extras)
    body = np.zeros(size + len(tail), np.uint8)
    for field, at, shape in places:
        array = np.asarray(arrays[field.name])
        if array.shape != shape:
            raise ValueError(f"{field.name} is {array.shape}, and the schema has {shape}")
        stored = how.store(field.name, array.astype(field.dtype, copy=False))
        body[at : at + stored.nbytes] = stored.reshape(-1).view(np.uint8)
    body[size:] = np.frombuffer(tail, np.uint8)
    sent = how.compress(body)
    out = np.empty(HEADER_BYTES + len(sent), np.uint8)
    out[HEADER_BYTES:] = sent
    header = HEADER.pack(
        MAGIC, run, schema.digest, digest_of(out), codec.encode(), key.actor, key.incarnation, key.sequence,
        version, horizon, envs, finals, 0, len(tail), len(body),
    )  # fmt: skip
    out[:HEADER_BYTES] = 0
    out[: HEADER.size] = np.frombuffer(header, np.uint8)
    return out


def digest_of(buffer: Buffer) -> bytes:
    """Returns the SHA-256 of what follows a fragment's header."""
    return hashlib.sha256(buffer[HEADER_BYTES:].data).digest()


def unpack(schema: Schema, run: bytes, buffer: Buffer) -> Fragment:
    """Reads a fragment; refused unless it is whole, of this run and this schema, and finite."""
    if len(buffer) < HEADER_BYTES or bytes(buffer[:8]) != MAGIC:
        raise Poisoned("it is no fragment")
    said = HEADER.unpack(bytes(buffer[: HEADER.size]))
    _, of_run, of_schema, digest, codec, actor, incarnation, sequence, version = said[:9]
    horizon, envs, finals, _, tail, whole = said[9:]
    if of_run != run:
        raise Poisoned("it is of another run")
    if of_schema != schema.digest:
        raise Poisoned("it has another schema")
    if digest_of(buffer) != digest:
        raise Poisoned("its digest is not that of its bytes")
    how = codec_of(codec.rstrip(b"\0").decode("ascii", "replace"))
    dims = {"T": horizon, "S": horizon + 1, "B": envs, "F": finals}
    places, size = schema.places(dims, how)
    if size + tail != whole:
        raise Poisoned("its length is not what its header says")
    body = how.expand(buffer[HEADER_BYTES:], whole)
    if len(body) != whole:
        raise Poisoned("its length is not what its header says")
    arrays: Arrays = {}
    for field, at, shape in places:
        stored = np.dtype(how.stored(field.name, field.dtype))
        raw = body[at : at + math.prod(shape) * stored.itemsize].view(stored).reshape(shape)
        arrays[field.name] = how.restore(field.name, raw, field.dtype)
        if field.dtype[1] == "f" and not np.isfinite(arrays[field.name]).all():
            raise Poisoned(f"{field.name} has numbers that are not finite")
    header = Header(Key(actor, incarnation, sequence), version, horizon, envs, how.name, digest)
    return Fragment(header, arrays, _read_extras(body[size:]), len(buffer))


def _write_extras(extras: Arrays) -> bytes:
    listed, parts, at = [], [], 0
    for name, value in extras.items():
        array = np.ascontiguousarray(value)
        listed.append([name, array.dtype.str, array.shape, at])
        parts.append(array.tobytes())
        at += len(parts[-1])
    table = json.dumps(listed, separators=(",", ":")).encode()
    return struct.pack("<Q", len(table)) + table + b"".join(parts)


def _read_extras(tail: Buffer) -> Arrays:
    """Returns copies: they are few, and lie at any byte."""
    raw = tail.tobytes()
    (length,) = struct.unpack_from("<Q", raw)
    base = 8 + length
    out: Arrays = {}
    for name, dtype, shape, at in json.loads(raw[8:base]):
        count = math.prod(shape)
        out[name] = np.frombuffer(raw, np.dtype(dtype), count, base + at).reshape(shape).copy()
    return out
