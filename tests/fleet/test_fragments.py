"""Fragments come back as they were sent, by any codec, and what was damaged on the way is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.contract import SurefootError
from surefoot.fleet.codec_costs import CodecCost, cost_of, lossless, pays_below
from surefoot.fleet.codecs import codec_of
from surefoot.fleet.fragment import HEADER_BYTES, Key, Poisoned, Schema, pack, unpack

RUN = b"r" * 16
SIZES = {"observation": 5, "critic": 7, "action": 3, "rewards": 4, "strata": 6, "content": 2}
SCHEMA = Schema.of("contract", SIZES)
KEY = Key(3, 9, 41)
LOSSLESS = [f"fp32{delta}{c}" for delta in ("", "+delta") for c in ("", "+zlib", "+lz4", "+zstd")]


def experience(horizon: int, envs: int, finals: int, seed: int = 0, frames: bool = False) -> dict[str, Any]:
    dice = np.random.default_rng(seed)
    dims = {"T": horizon, "S": horizon + 1, "B": envs, "F": finals}
    out = {}
    for field in SCHEMA.fields:
        shape = [dims[n] if isinstance(n, str) else n for n in field.shape]
        kind = np.dtype(field.dtype)
        if kind.kind == "f" and not (frames and field.name in ("obs", "critic", "final_critic")):
            out[field.name] = dice.normal(0, 3, shape).astype(kind)
        else:
            out[field.name] = dice.integers(0, 200, shape).astype(kind)
    return out


def sent(arrays: dict[str, Any], codec: str = "fp32") -> np.ndarray:
    return pack(
        SCHEMA, RUN, KEY, 7, arrays, {"ended.steps": np.arange(3), "name": np.array(["a", "bc"])}, codec
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 4), st.integers(0, 99), st.sampled_from(LOSSLESS))
def test_what_is_lossless_comes_back_to_the_bit(t: int, b: int, f: int, seed: int, codec: str) -> None:
    pytest.importorskip("lz4" if "lz4" in codec else "zstandard" if "zstd" in codec else "zlib")
    arrays = experience(t, b, f, seed)
    arrays["reward"][0, 0] = -0.0
    got = unpack(SCHEMA, RUN, sent(arrays, codec))
    assert (got.header.key, got.header.version, got.header.horizon, got.header.envs) == (KEY, 7, t, b)
    assert {k: v.tobytes() for k, v in got.arrays.items()} == {k: v.tobytes() for k, v in arrays.items()}
    assert got.extras["ended.steps"].tolist() == [0, 1, 2]
    assert got.extras["name"].tolist() == ["a", "bc"]


def test_it_is_read_without_a_copy() -> None:
    buffer = sent(experience(4, 3, 2))
    buffer.flags.writeable = False  # as shared memory is
    got = unpack(SCHEMA, RUN, buffer)
    assert all(np.shares_memory(a, buffer) for a in got.arrays.values())
    assert all(a.ctypes.data % 64 == buffer.ctypes.data % 64 for a in got.arrays.values())
    assert got.bytes_per_transition == len(buffer) / 12


def test_fp16_rounds_observations_and_nothing_else() -> None:
    arrays = experience(4, 3, 2)
    got = unpack(SCHEMA, RUN, sent(arrays, "fp16")).arrays
    for name, array in arrays.items():
        seen = name in ("obs", "critic", "final_critic")
        assert np.array_equal(got[name], array.astype(np.float16).astype(np.float32) if seen else array)
    with pytest.raises(SurefootError, match="beyond those of fp16"):
        sent(arrays | {"obs": np.full_like(arrays["obs"], 1e6)}, "fp16")


def test_frames_are_bytes_and_come_back_to_the_bit() -> None:
    arrays = experience(4, 3, 2, frames=True)
    small = sent(arrays, "uint8")
    assert len(small) < len(sent(arrays))
    got = unpack(SCHEMA, RUN, small).arrays
    assert all(np.array_equal(got[k], v) for k, v in arrays.items())
    for wrong in (0.5, -1.0, 256.0):
        with pytest.raises(SurefootError, match="not frames"):
            sent(arrays | {"obs": np.full_like(arrays["obs"], wrong)}, "uint8")


def test_deltas_of_what_hardly_changes_compress_better() -> None:
    arrays = experience(64, 4, 0, frames=True)
    for name in ("obs", "critic"):  # rises by one from step to step
        steps = np.arange(65, dtype=np.float32)[:, None, None]
        arrays[name] = arrays[name][:1] // 2 + steps
    assert len(sent(arrays, "uint8+delta+zlib")) < len(sent(arrays, "uint8+zlib"))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 255), st.sampled_from(["fp32", "fp32+zlib"]))
def test_any_changed_byte_of_its_content_is_noticed(place: int, change: int, codec: str) -> None:
    buffer = sent(experience(2, 3, 1), codec).copy()
    at = HEADER_BYTES + place % (len(buffer) - HEADER_BYTES)
    buffer[at] ^= change
    with pytest.raises(Poisoned, match="digest"):
        unpack(SCHEMA, RUN, buffer)


@pytest.mark.parametrize("name", ["obs", "critic", "action", "log_prob", "reward", "final_critic", "terms"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused_by_name(name: str, value: float) -> None:
    arrays = experience(2, 3, 1)
    arrays[name].reshape(-1)[-1] = value
    with pytest.raises(Poisoned, match=f"{name} has numbers that are not finite"):
        unpack(SCHEMA, RUN, sent(arrays))


def test_another_schema_run_or_length_is_refused() -> None:
    buffer = sent(experience(2, 3, 1))
    for other in (Schema.of("another contract", SIZES), Schema.of("contract", SIZES | {"critic": 8})):
        with pytest.raises(Poisoned, match="schema"):
            unpack(other, RUN, buffer)
    with pytest.raises(Poisoned, match="another run"):
        unpack(SCHEMA, b"x" * 16, buffer)
    for cut in (0, 10, HEADER_BYTES, len(buffer) - 1):
        with pytest.raises(Poisoned):
            unpack(SCHEMA, RUN, buffer[:cut])


def test_a_critic_that_sees_what_the_policy_sees_is_sent_once() -> None:
    arrays = experience(4, 3, 1)
    schema = Schema.of("contract", SIZES | {"shared": 5})
    with pytest.raises(ValueError, match="critic is"):
        pack(schema, RUN, KEY, 7, arrays, {})
    arrays["critic"] = arrays["critic"][..., 5:]
    got = unpack(schema, RUN, pack(schema, RUN, KEY, 7, arrays, {}))
    assert got.arrays["critic"].shape == (5, 3, 2)
    assert got.arrays["final_critic"].shape == (1, 7)


def test_a_codec_pays_below_the_bytes_that_it_saves_over_the_seconds_that_it_takes() -> None:
    plain = CodecCost("fp32", 100, 60_000, 40_000, 20_000)
    squeezed = CodecCost("fp32+lz4", 100, 30_000, 100_000, 60_000)
    assert pays_below(plain, squeezed) == Fraction(30_000 * 10**9, 100_000) == 300_000_000
    assert pays_below(plain, replace(squeezed, pack_ns=0)) == "always"
    assert pays_below(plain, replace(squeezed, nbytes=60_000)) == "never"
    link = 299_000_000  # a little slower, and the whole way is shorter
    assert 60_000 / link + 60e-6 > 30_000 / link + 160e-6
    fragment = unpack(SCHEMA, RUN, sent(experience(4, 3, 2)))
    made = cost_of("fp32+zlib", SCHEMA, fragment, repeats=1)
    assert (made.transitions, made.nbytes) == (12, len(sent(experience(4, 3, 2), "fp32+zlib")))
    assert lossless()[0] == "fp32"
    assert all(not codec_of(name).lossy for name in lossless("uint8"))


def test_unknown_codecs_are_refused() -> None:
    for name in ("fp8", "fp32+rle", "fp32+zlib+zlib", "zlib"):
        with pytest.raises(SurefootError, match=r"no (codec|compressor)"):
            codec_of(name)
